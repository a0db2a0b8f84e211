"""Two checkers against each other, and every method where shared assumptions would fail."""

import random
from typing import Any

import pytest

from moeopt.problems.tri_domain.check import objective, violations
from moeopt.problems.tri_domain.heuristics import HEURISTICS
from moeopt.problems.tri_domain.instance import Instance, Solution
from moeopt.solvers.run import solve
from tests.problems.tri_domain.by_arrays import judged
from tests.problems.tri_domain.random_instances import attack, least_makespan, random_instance

EXACT = ("cp-sat", "milp", "mathprog", "threshold")


def random_solution(instance: Instance, rng: random.Random) -> Solution:
    """Return a random solution, wrong in one place or more every other time."""
    bad = rng.random() < 0.5

    def odd(usual: Any, *others: Any) -> Any:
        return rng.choice([usual, *others]) if bad and rng.random() < 0.15 else usual

    source, assignment = [], []
    for of in instance.experts:
        lie = rng.choice([of, *(of.copies or ())])
        able = ["gpu", "cpu", *([] if lie.dimm is None else ["ndp"])]
        assignment.append(odd(rng.choice(able), None, "ndp"))
        source.append(odd(None if lie is of else lie.dimm, 0, instance.dimms))
    return Solution(
        instance=instance.name,
        assignment=assignment[: odd(len(assignment), len(assignment) - 1)],
        source=source if instance.has_copies or bad else None,
    )


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree(seeds: range) -> None:
    """On random solutions, half of them wrong somewhere: valid or not, and the makespan."""
    valid = 0
    for seed in seeds:
        # The checker adds up many experts with arrays of its own.
        instance = attack(seed) if seed % 4 else random_instance(seed, experts=64)
        solution = random_solution(instance, random.Random(f"solution {seed}"))
        value, found = judged(instance, solution), violations(instance, solution)
        assert (value is None) == bool(found), (seed, found)
        if value is not None:
            assert value == objective(instance, solution), seed
            assert violations(instance, solution, value) == [], seed
            assert value == 0 or violations(instance, solution, value - 1), seed
            valid += 1
    assert 0.2 * len(seeds) < valid < 0.8 * len(seeds)


@pytest.mark.parametrize(
    "seeds", [range(40), pytest.param(range(40, 2000), marks=pytest.mark.slow)]
)
def test_nobody_shares_a_wrong_assumption(seeds: range) -> None:
    """Equal, zero, huge, single, dominated: every exact method finds the optimum."""
    for seed in seeds:
        instance = attack(seed)
        value = least_makespan(instance)
        for method in EXACT:
            options = {} if method == "threshold" else {"warm_start": False}
            result = solve(instance, method, **options)
            assert (result.objective, result.bound <= value) == (value, True), (seed, method)
            if method in ("cp-sat", "threshold"):
                assert (result.status, result.bound) == ("optimal", value), (seed, method)
        for name, heuristic in HEURISTICS.items():
            of_rule = heuristic(instance)
            assert violations(instance, of_rule) == [], (seed, name)
            assert objective(instance, of_rule) >= value, (seed, name)
