"""The history of incumbent and bound keeps the best of each."""

from moeopt.solvers.limits import Deadline
from moeopt.solvers.task import Trace


def test_only_improvements_are_kept() -> None:
    """A worse incumbent, a worse bound or the same again add no point."""
    trace = Trace(Deadline(1))
    assert trace.bound is None
    for objective, bound in ((50, None), (60, None), (None, 10), (None, 5), (40, 10), (40, 10)):
        trace.record(objective, bound)
    assert [point[1:] for point in trace.points] == [(50, None), (50, 10), (40, 10)]
    assert trace.bound == 10
