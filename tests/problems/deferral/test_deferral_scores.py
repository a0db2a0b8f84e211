"""Published scores: curves through what is stated, unknown beyond, and skipping beside deferral."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.rooms.deferral import SCORES, assume, lost, skipping

MACHINE = "ktransformers-a100"


def made(model: str, **options: object) -> Any:
    given: dict[str, Any] = {"machine": MACHINE, "model": model} | options
    return moeopt.generate("deferral", **given)


def test_curves_go_through_what_is_stated() -> None:
    """Two scores of six deferred experts are averaged; better scores cost nothing."""
    change = {s.source: s.change for s in SCORES if s.model == "deepseek-v3"}
    deferred = [-s.change for s in SCORES if (s.model, s.affected) == ("deepseek-v3", "deferred")]
    assert deferred == pytest.approx([1 - (83 + 70.2 + 95.2 + 82.9) / 332, 0.005])
    assert lost("deepseek-v3", "deferred", 6) == pytest.approx(sum(deferred) / 2)
    assert lost("deepseek-v3", "skipped", 6) == pytest.approx(0.133)
    assert set(change) == {"Table 2", "6.3 on Fig. 13"}
    assert lost("deepseek-v2.5", "deferred", 4) == 0.0


@pytest.mark.parametrize("affected", ["deferred", "skipped"])
def test_curves_rise_straight_and_end(affected: Any) -> None:
    losses = [lost("deepseek-v3", affected, number) for number in range(7)]
    steps = np.diff(losses).tolist()  # type: ignore[arg-type]
    assert steps == pytest.approx([steps[0]] * 6)
    assert steps[0] > 0
    assert lost("deepseek-v3", affected, 7) is None
    assert lost("mixtral-8x7b", affected, 1) is None
    assert lost("qwen2-57b-a14b", "skipped", 4) is None
    assert lost("mixtral-8x7b", affected, 0) == 0.0


def test_penalties_are_the_curve() -> None:
    """Billionths of the score, shared by the 57 layers that may defer."""
    penalty = made("deepseek-v3", penalty="published").penalty
    loss = lost("deepseek-v3", "deferred", 6)
    assert loss is not None
    assert penalty[0] == 0
    assert penalty[6] * 57 == pytest.approx(loss * 1e9, rel=1e-4)
    assert made("deepseek-v2.5", penalty="published").penalty == (0,) * 5
    few = made("deepseek-v3", penalty="published", layers=4)
    assert few.penalty == penalty


def test_a_limit_is_felt() -> None:
    """Half of the largest loss: the optimum defers less, and costs no more than the limit."""
    free, half = (
        moeopt.solve(made("deepseek-v3", penalty="published", **given), "dp")
        for given in ({}, {"penalty_share": 0.2})
    )
    assert free.objective[0] < half.objective[0]
    assert free.objective[1] > half.objective[1]


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("deepseek-v2-lite", {}, "alone, not of deepseek-v2-lite; linear and quadratic need none"),
        ("qwen2-57b-a14b", {}, "no score of qwen2-57b-a14b with more than 4 deferred"),
        ("deepseek-v3", {"batch": 4, "workload": "trimoe-skew"}, "one token at a time"),
    ],
)
def test_what_is_not_stated_is_refused(model: str, options: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        made(model, penalty="published", **options)


def test_assuming_published_scores_needs_them() -> None:
    """Sensitivity skips models without scores."""
    there, lacking = made("deepseek-v3"), made("deepseek-v2-lite")
    assert assume(lacking, "penalty", "published") is None
    assumed = assume(there, "penalty", "published")
    assert assumed is not None
    assert assumed.penalty == made("deepseek-v3", penalty="published").penalty


def test_skipping_leaves_less_to_do() -> None:
    """Every method and the judge take such an instance as any other."""
    instance = made("deepseek-v3", layers=6)
    less = skipping(instance, 6)
    assert (less.top_k, less.min_immediate, less.penalty) == (2, 2, (0,))
    found = moeopt.solve(less, "dp")
    deferred = moeopt.solve(instance, "dp")
    assert found.status == deferred.status == "optimal"
    assert moeopt.check(less, found.solution).valid
    assert found.objective[0] < deferred.objective[0]
    with pytest.raises(InputError, match="experts: must be 0 to 7, not 8"):
        skipping(instance, 8)
