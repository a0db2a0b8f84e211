"""All decisions at once: a bound on every plan, and plans that take what they say."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.planner import small_plans
from tests.rooms.joint import Instance, Solution, loss, objective
from tests.rooms.planner import Planned, hand_over, page, total_ms

TIMES = {
    "work_limit": 2.0, "workers": 1, "time_limit_s": 12.0, "joint_time_s": 1.0, "steps": 12
}  # fmt: skip


@cache
def one_width() -> Planned:
    """Return a plan on a GPU that holds part of the experts, caches and deferral allowed."""
    return small_plans.planned_for(
        machine=small_plans.machine_of(gpu_gib=4.0), max_deferred=1, **TIMES
    )


@cache
def several_widths() -> Planned:
    """Return a plan of four bits on average."""
    return small_plans.planned_for(
        machine=small_plans.machine_of(gpu_gib=2.2), average_bits=4.0, other_bits=4.0, **TIMES
    )


@pytest.mark.parametrize("made", [one_width, several_widths])
def test_the_bound_is_below_every_plan(made: object) -> None:
    """Ours, that of separate decisions, and the defaults, which fit the same memory."""
    planned: Planned = made()  # type: ignore[operator]
    together = planned.together
    assert together is not None
    assert together.bound_ms is not None
    for comparison in planned.comparisons:
        assert total_ms(comparison.kept) >= together.bound_ms - 1e-6, comparison.plan.name
    ahead = together.ahead(planned.chosen.kept)
    assert ahead is not None
    assert ahead >= 0
    assert f"no plan of these kinds is more than {ahead:.2%} faster" in page(planned)
    data = planned.to_dict()["joint"]
    assert data["bound_ms"] <= data["plan_ms"] * (1 + 1e-9)


def test_the_engine_takes_what_the_joint_problem_says() -> None:
    """To the nanosecond, as residents run on the GPU in both."""
    together = one_width().together
    assert together is not None
    assert together.candidate is not None
    instance, solution = together.decision.instance, together.decision.solved_as(Solution)
    assert isinstance(instance, Instance)
    said = objective(instance, solution)
    assert total_ms(together.candidate.kept) == pytest.approx(said / 1e6, rel=1e-9)


def test_widths_lose_no_more_than_those_decided_alone() -> None:
    """Nor are they wider on average."""
    planned = several_widths()
    together = planned.together
    assert together is not None
    assert together.candidate is not None
    joint = together.decision
    instance, solution = joint.instance, joint.solved_as(Solution)
    assert isinstance(instance, Instance)
    assert planned.losses is not None
    assert instance.max_loss is not None
    assert loss(instance, solution) <= instance.max_loss
    assert np.mean(solution.bits) <= 4.0
    assert len(set(np.ravel(solution.bits))) > 1


def test_room_that_is_left_goes_to_experts_not_seen() -> None:
    """With room for all, all are on the GPU though the steps use some only."""
    planned = small_plans.planned_for(
        machine=small_plans.machine_of(gpu_gib=24.0), **TIMES | {"steps": 2}
    )
    together = planned.together
    assert together is not None
    assert together.candidate is not None
    assert [len(layer) for layer in together.candidate.plan.resident or ()] == [16] * 4


def test_the_time_is_part_of_the_limit() -> None:
    """All of it would leave nothing for the plan of separate decisions."""
    for seconds in (-1.0, 600.0, float("nan")):
        with pytest.raises(InputError, match="joint_time_s: must be from 0 to below"):
            small_plans.request(joint_time_s=seconds)
    assert small_plans.planned().together is None
    assert "nothing is proven of other combinations" in page(small_plans.planned())


def test_a_joint_plan_is_handed_over(tmp_path: Path) -> None:
    """Its widths and residents as decisions of their own, each valid, besides all at once."""
    planned = several_widths()
    together = planned.together
    assert together is not None
    assert together.candidate is not None
    names = [decision.name for decision in together.candidate.decisions]
    assert names[-1] == "jointly"
    assert "residency" in names
    handed = replace(planned, chosen=together.candidate)
    lines = hand_over(handed, tmp_path)
    assert (tmp_path / "jointly-solution.json").exists()
    assert any(line.startswith("residency-ktransformers") for line in lines)
    residents = moeopt.load_solution(tmp_path / "residency-solution.json")
    assert residents.gpu == together.candidate.plan.resident  # type: ignore[attr-defined]
    assert "decided at once" in page(handed)


@pytest.mark.slow
def test_a_budget_of_quality_frees_widths() -> None:
    """Nothing may be lost: native widths; a little: narrower ones, faster, within the budget."""
    common = {"machine": small_plans.machine_of(gpu_gib=2.2), "other_bits": 4.0} | TIMES
    plans = {q: small_plans.planned_for(quality_loss=q, **common) for q in (0.0, 0.2)}
    taken = {}
    for budget, planned in plans.items():
        together = planned.together
        assert together is not None
        assert together.candidate is not None
        instance, solution = together.decision.instance, together.decision.solved_as(Solution)
        assert isinstance(instance, Instance)
        outputs = instance.layers * len(instance.steps) * 10**6
        assert loss(instance, solution) <= budget * outputs == instance.max_loss
        taken[budget] = total_ms(together.candidate.kept)
    assert taken[0.2] < 0.9 * taken[0.0]
    assert plans[0.2].average_bits is not None
    assert plans[0.2].average_bits < 16
    assert "within the quality budget" in page(plans[0.2])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"quality_loss": 1.5}, "quality_loss: must be from 0 to 1, not 1.5"),
        ({"quality_loss": 0.1, "average_bits": 4.0}, "quality_loss: not with average_bits"),
        ({"quality_loss": 0.1, "joint_time_s": 0.0}, "quality_loss: is for all decisions at once"),
        ({"quality_loss": 0.1, "bits": "x"}, "bits: must be whole numbers"),
    ],
)
def test_budgets_that_cannot_be(options: dict[str, object], words: str) -> None:
    """One line each, before anything is solved."""
    with pytest.raises(InputError, match=words):
        small_plans.planned_for(**TIMES | options)
