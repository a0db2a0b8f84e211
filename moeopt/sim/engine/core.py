"""The event core: tasks on resources, run in order of the instants at which they become ready.

The order of events is defined, also where times are equal:

1. Instants come in order of time, and an end counts before a start: whatever becomes ready through
   an end at time t competes with everything else that becomes ready at t.
2. In one instant, tasks are taken up by priority (smaller first), then in the order of creation.
3. What becomes ready at t through a task that starts at t and has no length joins a further round
   of the same instant, after the tasks of the rounds before.

A resource serves first come, first served in that order. So a task's start is known as soon as it
is ready, and one event per bundle is enough.

A solution of some problem as the engine ran it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from operator import itemgetter

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.objective import Objective

from .timeline import Bundle, Integers, Queue, Resource, Timeline, find_cycle


class Engine:
    """Tasks are added, run, and more may be added that depend on those that have run.

    Parameters
    ----------
    resources
        With different names.

    Raises
    ------
    InputError
        If two resources have one name.
    """

    def __init__(self, resources: Iterable[Resource]) -> None:
        self.resources = tuple(resources)
        self._index = {resource.name: row for row, resource in enumerate(self.resources)}
        if len(self._index) < len(self.resources):
            names = [resource.name for resource in self.resources]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"resources: two are called {twice!r}")
        self._queues = [Queue(resource) for resource in self.resources]
        self._bundles: list[Bundle] = []
        self._tasks = self._linked = self._turn = 0
        self._times: list[int] = []
        self._waiting: dict[int, list[tuple[int, int]]] = {}

    def __len__(self) -> int:
        """Return how many bundles there are; their numbers are those below."""
        return len(self._bundles)

    def index(self, name: str) -> int:
        """Return the index of a resource."""
        if name not in self._index:
            known = ", ".join(self._index)
            raise InputError(f"resource: {name!r} is unknown; known resources: {known}")
        return self._index[name]

    def add(
        self,
        resource: str | int,
        duration_ns: int,
        *,
        after: Sequence[int] = (),
        release_ns: int = 0,
        priority: int = 0,
        kind: str = "work",
        label: str = "",
        number: int | None = None,
    ) -> int:
        """Add a task and return the number of its bundle, for others' `after`.

        `after` may name bundles that are added later, before the next `run`.

        Raises
        ------
        InputError
            If there is no such resource, or a time is negative.
        """
        row = self.index(resource) if isinstance(resource, str) else resource
        if not 0 <= row < len(self.resources):
            raise InputError(f"resource: {row} is unknown; there are {len(self.resources)}")
        if duration_ns < 0:
            raise InputError(f"duration_ns: must not be negative, not {duration_ns}")
        fields = (row, duration_ns, tuple(after), release_ns, priority, kind, label, number)
        return self._append(Bundle(self._tasks, 1, *fields))

    def add_many(
        self,
        resource: str | int | Integers,
        duration_ns: Integers,
        *,
        after: Sequence[int] = (),
        release_ns: int = 0,
        priority: int = 0,
        kind: str = "work",
        label: str = "",
        number: Integers | None = None,
    ) -> int:
        """Add tasks that become ready together, and return the number of their bundle.

        The same as adding them one by one in this order, and many times faster.

        Parameters
        ----------
        resource
            One for all, or indices of shape (tasks,).
        duration_ns, number
            Shape (tasks,), at least one task.

        Raises
        ------
        InputError
            As in `add`; also if there are no tasks.
        """
        count = len(duration_ns)
        if not count:
            raise InputError("duration_ns: a bundle needs at least one task")
        if int(duration_ns.min()) < 0:
            raise InputError(f"duration_ns: must not be negative, not {int(duration_ns.min())}")
        row = self.index(resource) if isinstance(resource, str) else resource
        low, high = (int(np.min(row)), int(np.max(row)))
        if low < 0 or high >= len(self.resources):
            wrong = low if low < 0 else high
            raise InputError(f"resource: {wrong} is unknown; there are {len(self.resources)}")
        fields = (row, duration_ns, tuple(after), release_ns, priority, kind, label, number)
        return self._append(Bundle(self._tasks, count, *fields))

    def _append(self, bundle: Bundle) -> int:
        if bundle.release_ns < 0:
            raise InputError(f"release_ns: must not be negative, not {bundle.release_ns}")
        self._bundles.append(bundle)
        self._tasks += bundle.count
        return len(self._bundles) - 1

    def run(self) -> None:
        """Give every task added so far its start and end.

        Raises
        ------
        InputError
            If a task depends on one that does not exist or, through others, on itself, or was added
            after a later one on its resource had run.
        """
        new = range(self._linked, len(self._bundles))
        for handle in new:
            for other in self._bundles[handle].after:
                if not 0 <= other < len(self._bundles):
                    name = self._bundles[handle].name()
                    raise InputError(f"task {handle} ({name}): after: there is no task {other}")
        self._linked = len(self._bundles)
        for handle in new:
            self._link(handle)
        turn = self._turn
        while self._times:
            self._advance(heappop(self._times))
        if self._turn - turn < len(new):
            raise InputError(find_cycle(self._bundles))

    def finish_ns(self, handle: int) -> int:
        """Return when the last task of a bundle that has run ends."""
        return self._bundles[handle].finish_ns

    def ready_ns(self, handle: int) -> int:
        """Return when the tasks of a bundle that has run became ready."""
        return self._bundles[handle].ready_ns

    def timeline(self) -> Timeline:
        """Return what ran when: everything that has run so far."""
        return Timeline.of(self.resources, self._bundles[: self._linked])

    def executed(self) -> "Executed":
        """Run everything, and return it with the makespan in ns as objective."""
        self.run()
        timeline = self.timeline()
        return Executed(timeline, timeline.makespan_ns)

    def _link(self, handle: int) -> None:
        bundle = self._bundles[handle]
        bundle.ready_ns = bundle.release_ns
        for other in bundle.after:
            before = self._bundles[other]
            if before.done:
                bundle.ready_ns = max(bundle.ready_ns, before.finish_ns)
            else:
                before.successors.append(handle)
                bundle.pending += 1
        if not bundle.pending:
            self._make_ready(handle, bundle)

    def _make_ready(self, handle: int, bundle: Bundle) -> None:
        waiting = self._waiting.get(bundle.ready_ns)
        if waiting is None:
            self._waiting[bundle.ready_ns] = [(bundle.priority, handle)]
            heappush(self._times, bundle.ready_ns)
        else:
            waiting.append((bundle.priority, handle))

    def _advance(self, now_ns: int) -> None:
        """Take up everything that is ready in one round of an instant."""
        waiting = self._waiting.pop(now_ns)
        if len(waiting) > 1:
            waiting.sort()
        bundles = self._bundles
        for handle in map(itemgetter(1), waiting):
            bundle = bundles[handle]
            self._place(bundle, now_ns)
            bundle.turn = self._turn
            self._turn += 1
            end = bundle.finish_ns
            for other in bundle.successors:
                successor = bundles[other]
                successor.ready_ns = max(successor.ready_ns, end)
                successor.pending -= 1
                if not successor.pending:
                    self._make_ready(other, successor)

    def _place(self, bundle: Bundle, now_ns: int) -> None:
        resource, duration = bundle.resource, bundle.duration_ns
        if isinstance(duration, int):
            bundle.start_ns = start = self._queues[int(resource)].place(now_ns, duration)
            bundle.finish_ns = start + duration
            return
        if isinstance(resource, int):
            starts = self._queues[resource].place_many(now_ns, duration)
        else:
            starts = np.empty_like(duration)
            order = resource.argsort(kind="stable")
            cuts = np.flatnonzero(np.diff(resource[order])) + 1
            for rows in np.split(order, cuts):
                queue = self._queues[int(resource[rows[0]])]
                starts[rows] = queue.place_many(now_ns, duration[rows])
        bundle.start_ns = starts
        bundle.finish_ns = int((starts + duration).max())


@dataclass(frozen=True)
class Executed:
    """A solution as it ran: the timeline, and the objective as measured on it.

    Attributes
    ----------
    numbers
        What tasks are numbered by: "expert", or "layer" where tasks are whole layers'.
    weights
        How often each bundle of the timeline counts in the objective; None: once each. Those that
        do not count once lie between two tasks that everything else is before or after.
    """

    timeline: Timeline
    objective: Objective
    numbers: str = "expert"
    weights: tuple[int, ...] | None = None


BETWEEN = Resource("between windows", delay=True)
"""Where the tasks without length are that stand between windows."""


class Windows:
    """Parts of a schedule that run one after the other and count differently in the objective.

    Parameters
    ----------
    engine
        What they are added to. Without the resource `BETWEEN` there is one window only.

    Attributes
    ----------
    before
        What the tasks of the next window depend on.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.before: tuple[int, ...] = ()
        self._weights: list[int] = []
        self._clock = 0

    @property
    def weights(self) -> tuple[int, ...]:
        """How often each bundle counts, for `Executed`."""
        return tuple(self._weights)

    def end(self, weight: int, label: str) -> int:
        """Run what was added since the last window; return its weight times its length in ns."""
        added = range(len(self._weights), len(self.engine))
        self._weights += [weight] * len(added)
        self.engine.run()
        last = max((self.engine.finish_ns(bundle) for bundle in added), default=self._clock)
        length, self._clock = last - self._clock, last
        if added and BETWEEN in self.engine.resources:
            end = self.engine.add(BETWEEN.name, 0, after=added, kind="all done", label=label)
            self.engine.run()
            self._weights.append(1)
            self.before = (end,)
        return weight * length
