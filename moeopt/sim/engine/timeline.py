"""What ran when, and how busy that kept each resource."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.json_files import write_bytes

Integers = NDArray[np.int64]


@dataclass(slots=True)
class Bundle:
    """One or more tasks with the same dependencies, release time, priority and kind.

    A bundle of several tasks keeps arrays of shape (count,) where a single task has integers;
    `resource` is one integer if all of them are on one resource. The engine fills in the last
    block.

    Parameters
    ----------
    first, count
        Its tasks are numbers `first` to ``first + count - 1`` in order of creation.
    resource, duration_ns
        Index of the resource occupied, and for how long.
    after
        Bundles that must have ended; every one of their tasks.
    release_ns
        Not ready before this time.
    priority
        Smaller goes first among what is ready in the same instant.
    kind, label, number
        For people: what it is, where it belongs, and a number per task (an expert's, say) or None.
    """

    first: int
    count: int
    resource: int | Integers
    duration_ns: int | Integers
    after: tuple[int, ...]
    release_ns: int
    priority: int
    kind: str
    label: str
    number: int | Integers | None

    pending: int = 0
    ready_ns: int = 0
    start_ns: int | Integers | None = None
    finish_ns: int = 0
    turn: int = -1
    successors: list[int] = field(default_factory=list)

    @property
    def done(self) -> bool:
        """Whether its tasks have their times."""
        return self.start_ns is not None

    def name(self, row: int = 0) -> str:
        """Return what to call one of its tasks."""
        number = self.number if self.number is None or isinstance(self.number, int) else None
        if isinstance(self.number, np.ndarray):
            number = int(self.number[row])
        return self.kind if number is None else f"{self.kind} {number}"


def find_cycle(bundles: Sequence[Bundle]) -> str:
    """Return a sentence that names one circle among the bundles that could not run."""
    at = next(row for row, bundle in enumerate(bundles) if not bundle.done)
    seen: dict[int, int] = {}
    while at not in seen:
        seen[at] = len(seen)
        at = next(other for other in bundles[at].after if not bundles[other].done)
    circle = [*list(seen)[seen[at] :], at]
    names = " after ".join(f"{row} ({bundles[row].name()})" for row in circle)
    return f"tasks depend on one another in a circle: {names}"


Times = NDArray[np.int64]


@dataclass(frozen=True)
class Resource:
    """Something that tasks occupy one at a time: a device or a link.

    Parameters
    ----------
    name
        What error messages, tables and traces call it.
    delay
        Whether it is a pure delay instead, which holds any number of tasks at a time.
    """

    name: str
    delay: bool = False


class Queue:
    """When tasks start that reach a resource in order of their ready times."""

    def __init__(self, resource: Resource) -> None:
        self.name, self.delay = resource.name, resource.delay
        self.free_ns = 0
        self.last_ready_ns = 0

    def place(self, ready_ns: int, duration_ns: int) -> int:
        """Return the start of a task that is ready now, and occupy the resource with it."""
        if self.delay:
            return ready_ns
        if ready_ns < self.last_ready_ns:
            raise InputError(
                f"{self.name}: a task ready at {ready_ns} ns was added after one ready at "
                f"{self.last_ready_ns} ns had run"
            )
        self.last_ready_ns = ready_ns
        start = self.free_ns if self.free_ns > ready_ns else ready_ns
        self.free_ns = start + duration_ns
        return start

    def place_many(self, ready_ns: int, duration_ns: Times) -> Times:
        """Return the starts of tasks that are ready together, in their order; shape (tasks,)."""
        if self.delay:
            return np.full(len(duration_ns), ready_ns, dtype=np.int64)
        first = self.place(ready_ns, 0)
        ends = duration_ns.cumsum()
        self.free_ns = first + int(ends[-1])
        return np.asarray(ends - duration_ns + first)


@dataclass(frozen=True)
class Usage:
    """How busy a resource was until the makespan; `tasks` is None where none were made.

    `idle_ns` and `utilisation` are None for a pure delay; otherwise busy and idle time add up to
    the makespan, and the utilisation is the busy share of that (0 where the makespan is 0).
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
        first = np.cumsum(counts) - counts

        def column(name: str) -> Integers:
            values = [getattr(bundle, name) for bundle in bundles]
            alike = [isinstance(value, int | np.integer) for value in values]
            numbers = [value if one else 0 for value, one in zip(values, alike, strict=True)]
            found = np.repeat(np.array(numbers, dtype=np.int64), counts)
            for at in np.flatnonzero(~np.array(alike, dtype=np.bool_)).tolist():
                found[first[at] : first[at] + counts[at]] = values[at]
            return found

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
    if resource.delay:
        return Usage(resource.name, tasks, busy_ns, None, None)
    share = busy_ns / makespan_ns if makespan_ns else 0.0
    return Usage(resource.name, tasks, busy_ns, makespan_ns - busy_ns, share)


PROCESS = 1
NS_PER_US = 1000


def chrome_events(timeline: Timeline, title: str) -> Iterator[dict[str, object]]:
    """Yield the events: names of the tracks first, then one complete event per task, by start.

    Each resource is a track; a delay, which holds several tasks at a time, has as many as it needs,
    since events of one track must not overlap. Times are microseconds.
    """
    lanes, track_of = _tracks(timeline)
    yield _named("process_name", 0, {"name": title})
    for track, name in enumerate(lanes, start=1):
        yield _named("thread_name", track, {"name": name})
        yield _named("thread_sort_index", track, {"sort_index": track})
    for task in np.lexsort((np.arange(len(track_of)), timeline.start_ns)).tolist():
        bundle = timeline.bundles[int(timeline.bundle[task])]
        start, end = int(timeline.start_ns[task]), int(timeline.end_ns[task])
        yield {
            "name": timeline.name(task),
            "cat": bundle.kind,
            "ph": "X",
            "ts": start / NS_PER_US,
            "dur": (end - start) / NS_PER_US,
            "pid": PROCESS,
            "tid": int(track_of[task]),
            "args": {"where": bundle.label, "task": task},
        }


def save_chrome(timeline: Timeline, path: str | Path, title: str = "moeopt") -> None:
    """Write a timeline as a JSON file to load in Perfetto, whole or not at all.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    path = Path(path)
    lines = ",\n".join(json.dumps(event) for event in chrome_events(timeline, title))
    text = f'{{"displayTimeUnit": "ns", "traceEvents": [\n{lines}\n]}}\n'
    write_bytes(text.encode(), path)


def _named(what: str, track: int, args: dict[str, object]) -> dict[str, object]:
    return {"name": what, "ph": "M", "pid": PROCESS, "tid": track, "args": args}


def _tracks(timeline: Timeline) -> tuple[list[str], list[int]]:
    """Return the tracks' names, and each task's track, counted from 1."""
    names: list[str] = []
    track = np.zeros(len(timeline.start_ns), dtype=np.int64)
    for row, resource in enumerate(timeline.resources):
        mine = np.flatnonzero(timeline.resource == row)
        first = len(names) + 1
        if not resource.delay:
            names.append(resource.name)
            track[mine] = first
            continue
        lane = _lanes(timeline, mine)
        count = max(lane, default=0) + 1
        names += [resource.name] + [f"{resource.name} ({n})" for n in range(2, count + 1)]
        track[mine] = first + np.array(lane, dtype=np.int64)
    return names, track.tolist()


def _lanes(timeline: Timeline, tasks: NDArray[np.int64]) -> list[int]:
    """Return a lane per task so that no two on a lane overlap, with as few lanes as possible."""
    lane: dict[int, int] = {}
    free: list[tuple[int, int]] = []  # (end, lane) of the lanes in use
    for task in tasks[timeline.start_ns[tasks].argsort(kind="stable")].tolist():
        start, end = int(timeline.start_ns[task]), int(timeline.end_ns[task])
        if free and free[0][0] <= start:
            lane[task] = free[0][1]
            heapreplace(free, (end, lane[task]))
        else:
            lane[task] = len(free)
            free.append((end, lane[task]))
            heapify(free)
    return [lane[task] for task in tasks.tolist()]
