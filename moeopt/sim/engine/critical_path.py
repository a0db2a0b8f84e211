"""What each task waits for, the chain of tasks that determines the end, and what may start later.

A task waits for the tasks that it depends on, and for the one that occupied its place on the
resource before it: the conjunctive arcs and the selected disjunctive arcs of the literature (Roy
and Sussmann 1964; Balas, Operations Research 17, 1969). `moeopt.event_graph` shows both as a graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.engine.timeline import Bundle, Integers, Timeline


@dataclass(frozen=True)
class Links:
    """Pairs of tasks of which the one must have ended when the other starts.

    What follows from other pairs is left out: within a bundle only the first task on a serial
    resource waits for other bundles, and others wait for the last one alone.

    Attributes
    ----------
    before, after
        Shape (links,), by rising rank of `before`.
    device
        Shape (links,), bool: `after` gets the place of `before` on its resource. Otherwise it
        depends on it. Of two tasks with both, there are two links.
    rank
        Shape (tasks,): the place of each task in the order in which the engine took them up, in
        which no task comes before one that it waits for.
    """

    before: Integers
    after: Integers
    device: NDArray[np.bool_]
    rank: Integers


def links(timeline: Timeline) -> Links:
    """Return what waits for what in a timeline."""
    tasks = np.arange(len(timeline.start_ns))
    turn = np.array([bundle.turn for bundle in timeline.bundles], dtype=np.int64)
    order = np.lexsort((tasks, turn[timeline.bundle])) if len(tasks) else tasks
    rank = np.empty_like(order)
    rank[order] = tasks
    handed = np.array([*_handed_over(timeline, order)], dtype=np.int64).reshape(-1, 2)
    needed = np.array([*_depending(timeline)], dtype=np.int64).reshape(-1, 2)
    pairs = np.concatenate([needed, handed])
    device = np.arange(len(pairs)) >= len(needed)
    sort = np.argsort(rank[pairs[:, 0]], kind="stable")
    return Links(pairs[sort, 0], pairs[sort, 1], device[sort], rank)


def critical_path(timeline: Timeline, known: Links | None = None) -> list[int]:
    """Return a chain of tasks without gaps that ends at the makespan, first task first.

    Each starts when the one before ends: because it depends on that one, or because it waited for
    that one's place on the resource. The first starts at its release time. Of several chains, the
    one through tasks taken up first.

    Parameters
    ----------
    known
        The timeline's `links`, if they are there already.
    """
    if not len(timeline.end_ns):
        return []
    found = known or links(timeline)
    final = timeline.end_ns == timeline.makespan_ns
    final[found.before] = False
    last = np.flatnonzero(final)
    tight = timeline.end_ns[found.before] == timeline.start_ns[found.after]
    # By falling rank of `before`, so that the cause that stays is the one taken up first.
    pairs = zip(found.after[tight][::-1].tolist(), found.before[tight][::-1].tolist(), strict=True)
    cause = dict(pairs)
    chain = [int(last[found.rank[last].argmin()])]
    while chain[-1] in cause:
        chain.append(cause[chain[-1]])
    return chain[::-1]


def slack_ns(timeline: Timeline, known: Links | None = None) -> Integers:
    """Return how much later each task could start and end without delaying the last end.

    Every order stays as it is. Computed from the end backwards: a task must have ended when
    whatever waits for it starts at the latest.

    Returns
    -------
    numpy.ndarray
        Shape (tasks,), in ns; 0 on every critical path.
    """
    found = known or links(timeline)
    start, end = timeline.start_ns.tolist(), timeline.end_ns.tolist()
    last = timeline.makespan_ns
    slack = [last - at for at in end]
    for before, after in zip(found.before[::-1].tolist(), found.after[::-1].tolist(), strict=True):
        slack[before] = min(slack[before], start[after] + slack[after] - end[before])
    return np.array(slack, dtype=np.int64)


def _handed_over(timeline: Timeline, order: Integers) -> Iterator[tuple[int, int]]:
    """Yield a task and the one that gets its place on the resource."""
    for row, resource in enumerate(timeline.resources):
        if not resource.delay:
            yield from pairwise(order[timeline.resource[order] == row].tolist())


def _depending(timeline: Timeline) -> Iterator[tuple[int, int]]:
    """Yield a task and one that depends on it."""
    ends: dict[int, tuple[list[int], list[int]]] = {}

    def of(handle: int) -> tuple[list[int], list[int]]:
        if handle not in ends:
            ends[handle] = _first_and_last(timeline, timeline.bundles[handle])
        return ends[handle]

    for handle, bundle in enumerate(timeline.bundles):
        for other in bundle.after:
            for before in of(other)[1]:
                for after in of(handle)[0]:
                    yield before, after


def _first_and_last(timeline: Timeline, bundle: Bundle) -> tuple[list[int], list[int]]:
    """Return the tasks of a bundle that start it and those that end it, on each resource."""
    tasks = range(bundle.first, bundle.first + bundle.count)
    if bundle.count == 1:
        return [*tasks], [*tasks]
    first: dict[int, list[int]] = {}
    last: dict[int, list[int]] = {}
    for task in tasks:
        row = int(timeline.resource[task])
        if not timeline.resources[row].delay:
            first.setdefault(row, [task])
            last[row] = [task]
        else:
            first.setdefault(row, []).append(task)
            last.setdefault(row, []).append(task)
    return [t for of in first.values() for t in of], [t for of in last.values() for t in of]
