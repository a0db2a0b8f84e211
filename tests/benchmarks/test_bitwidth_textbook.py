"""The textbook models of the bitwidth case, and the study's comparison, on small instances."""

import pytest

import moeopt
from benchmarks.studies.bitwidth_restrictions import PLANS, compare
from benchmarks.textbook import bitwidth
from moeopt.problems.bitwidth.check import objective, violations
from moeopt.problems.bitwidth.instance import Instance


def made(budget: str, seed: int) -> Instance:
    """Return two layers of eight experts."""
    instance = moeopt.generate(
        "bitwidth",
        machine="cxl-ndp",
        model="mixtral-8x7b",
        workload="hdmoe-mixtral",
        layers=2,
        budget=budget,
        seed=seed,
    )
    assert isinstance(instance, Instance)
    return instance


@pytest.mark.parametrize("solve", [bitwidth.cpsat, bitwidth.highs, bitwidth.pulp_cbc])
@pytest.mark.parametrize("budget", ["layer", "model"])
def test_textbook_models_prove_the_same_optimum(solve: object, budget: str) -> None:
    """As dp, with a valid solution of the value they claim."""
    for seed in range(2):
        instance = made(budget, seed)
        answer = solve(instance, 60.0)  # type: ignore[operator]
        assert answer.proven
        assert violations(instance, answer.solution) == []
        found = objective(instance, answer.solution)
        assert found == round(answer.objective) == moeopt.solve(instance, "dp").objective


def test_no_restriction_gains_in_sample() -> None:
    """Every plan loses at least as much as the free optimum on the prompt it was made for."""
    row = compare({"model": "mixtral-8x7b", "workload": "hdmoe-mixtral", "layers": 2, "seed": 0})
    assert row["size"] == "2 x 8"
    assert set(row["prompt"]) == set(row["decoded tokens"]) == set(PLANS)
    assert all(excess >= 0 for excess in row["prompt"].values())
    assert row["prompt"]["width per model"] >= row["prompt"]["width per layer"]
    assert row["prompt"]["prefix order"] >= row["prompt"]["budget per layer"]
