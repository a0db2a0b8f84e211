"""The checkers and claims: what an objective is held to, and that its own value breaks no rule."""

import pytest

from tests.problems.every_problem import RANDOM, decisions
from tests.rooms.problems import get_problem

UNTIED = ("bitwidth",)
"""Problems whose rules do not name the objective."""


@pytest.mark.parametrize("problem", RANDOM)
def test_no_rule_is_broken_by_what_the_checker_computes(problem: str) -> None:
    """So that `moeopt.solve` asks about a claim only where it is lower, and that is noticed."""
    check, found = get_problem(problem), 0
    for seed in range(3):
        for make in RANDOM[problem]:
            instance = make(seed)
            for solution in decisions(problem, instance, seed):
                computed = check.objective(instance, solution)
                without = check.violations(instance, solution)
                assert check.violations(instance, solution, computed) == without
                pair = isinstance(computed, tuple)
                lower = (computed[0] - 1, computed[1]) if pair else computed - 1
                more = len(check.violations(instance, solution, lower)) - len(without)
                assert (more > 0) == (problem not in UNTIED)
                found += 1
    assert found
