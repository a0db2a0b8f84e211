"""Which chain of tasks determines the end."""

import numpy as np

from moeopt.sim.engine.bundle import Integers
from moeopt.sim.engine.timeline import Timeline


def critical_path(timeline: Timeline) -> list[int]:
    """Return a chain of tasks without gaps that ends at the makespan, first task first.

    Each starts when the one before ends: because it depends on that one, or because it waited for
    that one's place on the resource. The first starts at its release time. Of several chains, the
    one through tasks taken up earliest; walking back always goes to a task taken up before.
    """
    if not len(timeline.end_ns):
        return []
    turn = np.array([bundle.turn for bundle in timeline.bundles])[timeline.bundle]
    last = timeline.end_ns == timeline.makespan_ns
    task: int | None = int(_first_taken_up(np.flatnonzero(last), turn))
    chain: list[int] = []
    while task is not None:
        chain.append(task)
        task = _cause(timeline, turn, task)
    return chain[::-1]


def _cause(timeline: Timeline, turn: Integers, task: int) -> int | None:
    start = int(timeline.start_ns[task])
    if start > timeline.ready_ns[task]:
        same = np.flatnonzero(
            (timeline.resource == timeline.resource[task]) & (timeline.end_ns == start)
        )
        earlier = (turn[same] < turn[task]) | ((turn[same] == turn[task]) & (same < task))
        # The latest: it handed the place over, and anything of no length stands before it.
        rows = same[earlier]
        return int(rows[np.lexsort((rows, turn[rows]))[-1]])
    bundle = timeline.bundles[int(timeline.bundle[task])]
    for other in bundle.after:
        before = timeline.bundles[other]
        if before.finish_ns == start:
            rows = np.arange(before.first, before.first + before.count)
            return int(rows[timeline.end_ns[rows] == start][0])
    return None


def _first_taken_up(rows: Integers, turn: Integers) -> int:
    return int(rows[np.lexsort((rows, turn[rows]))[0]])
