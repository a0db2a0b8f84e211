"""Every method agrees with brute force, a hand-computed anchor and the checker's rules."""

import pytest

import moeopt
from formulations.TEMPLATE.room import (
    HEURISTICS,
    Expert,
    Instance,
    Model,
    Solution,
    bounds,
    check,
)
from formulations.TEMPLATE.tests.TEMPLATE_random_instances import random_instance
from tests.mathprog.solve import solve


def test_a_hand_computed_anchor() -> None:
    """Room for one of two: the dearer one stays, and missing the other costs 3 ns."""
    experts = (Expert(size_bytes=5, miss_ns=3), Expert(size_bytes=5, miss_ns=4))
    instance = Instance(name="anchor", capacity_bytes=9, min_kept=1, experts=experts)
    result = moeopt.solve(instance, "brute-force")
    assert result.objective == 3
    assert result.solution == Solution(instance="anchor", kept=(False, True))
    nothing = Solution(instance="anchor", kept=(False, False))
    both = Solution(instance="anchor", kept=(True, True))
    assert [rule for rule, _ in check.violations(instance, nothing)] == ["TM-C2"]
    assert [rule for rule, _ in check.violations(instance, both)] == ["TM-C1"]


def test_every_method_agrees_with_brute_force() -> None:
    """Statuses, optima and bounds, also where the objective has a constant part."""
    seen = set()
    for seed in range(10):
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force")
        seen.add(truth.status)
        for method in ("dp", "cp-sat", "milp", "mathprog"):
            for warm_start in (False, True):
                found = solve(instance, method, warm_start=warm_start)
                assert (found.status, found.objective) == (truth.status, truth.objective), instance
    assert seen == {"optimal", "infeasible"}


def test_bounds_are_below_and_heuristics_above() -> None:
    """By brute force; each is exact somewhere, else it would prove little."""
    tight = optimal = 0
    for seed in range(40):
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force")
        if truth.objective is None:
            continue
        assert bounds.lower_bound(instance) <= truth.objective
        assert truth.objective % bounds.objective_grid(instance) == 0
        tight += bounds.lower_bound(instance) == truth.objective
        for heuristic in HEURISTICS.values():
            found = heuristic(instance)
            if found is not None:
                assert check.violations(instance, found) == []
                assert check.objective(instance, found) >= truth.objective
                optimal += check.objective(instance, found) == truth.objective
    assert tight
    assert optimal


@pytest.mark.parametrize("rule", check.CONSTRAINTS)
def test_a_constraint_that_is_left_out_is_missed(rule: str) -> None:
    """Without it the model finds less than the optimum, on some instance."""
    assert rule in Model.constraints()
    for seed in range(40):
        instance = random_instance(seed)
        with_all = moeopt.solve(instance, "brute-force")
        without = moeopt.solve(instance, "cp-sat", without=[rule], warm_start=False)
        if without.objective != with_all.objective or without.violations:
            return
    pytest.fail(f"{rule} changes nothing")


@pytest.mark.parametrize("engine", ["cbc", "scip"])
def test_other_engines_agree(engine: str) -> None:
    """The constant part is not lost by any engine."""
    for seed in range(6):
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force")
        found = moeopt.solve(instance, "milp", engine=engine, warm_start=False)
        assert (found.status, found.objective) == (truth.status, truth.objective), instance
