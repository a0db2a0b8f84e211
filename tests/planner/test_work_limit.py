"""Plans by work, not by the clock."""

from itertools import count

import pytest

import moeopt
from moeopt import InputError
from tests.planner.small_plans import planned_for
from tests.rooms.core import clock
from tests.rooms.planner import PlanOptions
from tests.rooms.solvers import Limits


def test_a_work_limit_gives_the_same_plan() -> None:
    """Twice the same residents and bound; a limit of work goes with one worker."""
    one, other = (planned_for(work_limit=0.5, workers=1, joint_time_s=300.0) for _ in range(2))
    assert one.chosen.plan == other.chosen.plan
    assert one.together is not None
    assert other.together is not None
    assert one.together.bound_ms == other.together.bound_ms
    with pytest.raises(InputError, match="work_limit: needs one worker"):
        planned_for(work_limit=0.5, workers=2)


def test_a_limit_that_is_given_counts_whatever_the_default_is() -> None:
    """Also 60 s, and seconds beside work."""
    usual = Limits(work=15.0)
    assert PlanOptions().limits_or(usual) == usual
    assert PlanOptions(time_limit_s=60.0).limits_or(usual) == Limits(60.0)
    assert PlanOptions(work_limit=2.0).limits_or(usual) == Limits(work=2.0)
    assert PlanOptions(time_limit_s=9.0, work_limit=2.0).limits_or(usual) == Limits(9.0, 2.0)


def test_by_default_a_plan_over_devices_does_not_go_by_the_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a machine on which an hour passes between two looks it is the same, and proven."""
    asked = {"machine": "2xrtx3090+epyc-7002", "model": "qwen3-30b-a3b", "bits": "Q8_0"}
    usual = moeopt.plan(**asked).to_dict()
    hours = count(step=3600)
    monkeypatch.setattr(clock, "perf_counter", lambda: float(next(hours)))
    assert moeopt.plan(**asked).to_dict() == usual
    with pytest.raises(moeopt.LimitError):
        moeopt.plan(**asked, time_limit_s=30.0)
