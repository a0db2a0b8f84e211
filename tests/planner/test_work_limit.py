"""Plans by work, not by the clock."""

import pytest

from moeopt import InputError
from tests.planner.small_plans import planned_for


def test_a_work_limit_gives_the_same_plan() -> None:
    """Twice the same residents and bound; a limit of work goes with one worker."""
    one, other = (planned_for(work_limit=0.5, workers=1, joint_time_s=300.0) for _ in range(2))
    assert one.chosen.plan == other.chosen.plan
    assert one.together is not None
    assert other.together is not None
    assert one.together.bound_ms == other.together.bound_ms
    with pytest.raises(InputError, match="work_limit: needs one worker"):
        planned_for(work_limit=0.5, workers=2)
