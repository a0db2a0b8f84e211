"""What ran when, and how busy that kept each resource."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moeopt.sim.engine.bundle import Bundle, Integers
from moeopt.sim.engine.resource import Resource


@dataclass(frozen=True)
class Usage:
    """How busy a resource was until the makespan; `tasks` is None where none were made.

    `idle_ns` and `utilisation` are None for a resource without a limit; otherwise busy and idle
    time add up to capacity times makespan, and the utilisation is the busy share of that (0 where
    the makespan is 0).
    """

    resource: str
    tasks: int | None
    busy_ns: int
    idle_ns: int | None
    utilisation: float | None


@dataclass(frozen=True)
class Timeline:
    """The start and end of every task.

    Attributes
    ----------
    resources
        As given to the engine.
    bundles
        The bundles that the tasks came in; to be read only.
    bundle, resource
        Shape (tasks,): the bundle of a task and the resource it occupied, as indices.
    ready_ns, start_ns, end_ns
        Shape (tasks,): when it could start, did start and ended.
    """

    resources: tuple[Resource, ...]
    bundles: tuple[Bundle, ...]
    bundle: Integers
    resource: Integers
    ready_ns: Integers
    start_ns: Integers
    end_ns: Integers

    @classmethod
    def of(cls, resources: tuple[Resource, ...], bundles: Sequence[Bundle]) -> "Timeline":
        """Return the timeline of bundles that have run."""
        counts = np.array([bundle.count for bundle in bundles], dtype=np.int64)
        single = all(isinstance(bundle.duration_ns, int) for bundle in bundles)

        def column(name: str) -> Integers:
            values = [getattr(bundle, name) for bundle in bundles]
            if single:
                return np.array(values, dtype=np.int64)
            parts = [
                np.broadcast_to(np.asarray(value, dtype=np.int64), (bundle.count,))
                for value, bundle in zip(values, bundles, strict=True)
            ]
            return np.concatenate(parts)

        start = column("start_ns")
        return cls(
            resources=resources,
            bundles=tuple(bundles),
            bundle=np.repeat(np.arange(len(bundles)), counts),
            resource=column("resource"),
            ready_ns=column("ready_ns"),
            start_ns=start,
            end_ns=start + column("duration_ns"),
        )

    @property
    def makespan_ns(self) -> int:
        """When the last task ends; 0 without tasks."""
        return int(self.end_ns.max(initial=0))

    def name(self, task: int) -> str:
        """Return what to call a task."""
        bundle = self.bundles[int(self.bundle[task])]
        return bundle.name(task - bundle.first)

    def usage(self) -> list[Usage]:
        """Return busy and idle time of every resource, in their order."""
        return [self._usage(row, resource) for row, resource in enumerate(self.resources)]

    def _usage(self, row: int, resource: Resource) -> Usage:
        mine = self.resource == row
        busy = int((self.end_ns - self.start_ns)[mine].sum())
        return usage(resource, int(mine.sum()), busy, self.makespan_ns)


def usage(resource: Resource, tasks: int | None, busy_ns: int, makespan_ns: int) -> Usage:
    """Return the usage of a resource that was busy so long in all."""
    if resource.capacity is None:
        return Usage(resource.name, tasks, busy_ns, None, None)
    offered = resource.capacity * makespan_ns
    share = busy_ns / offered if offered else 0.0
    return Usage(resource.name, tasks, busy_ns, offered - busy_ns, share)
