"""Decisions of any problem that sees loads, run on the same or on other loads."""

from importlib import import_module

import pytest

import moeopt
from moeopt.errors import InputError
from moeopt.problems.objective import entries
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.problems.tri_domain.instance import Instance as Layer
from moeopt.problems.tri_domain.solution import Solution as Assignment
from moeopt.sim.holdout.run import run_on
from tests.problems.balance.balance_random_instances import random_instance as balance


def random_instance(problem: str, seed: int) -> object:
    """Return a small random instance of any of the problems."""
    module = import_module(f"tests.problems.{problem}.{problem}_random_instances")
    return module.random_instance(seed)


def best(layer: Layer) -> Assignment:
    """Return an optimal schedule."""
    solution = moeopt.solve(layer, "threshold").solution
    assert isinstance(solution, Assignment)
    return solution


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if get_problem(name).info.holdout])
def test_an_optimum_on_its_own_loads_is_the_optimum(problem: str) -> None:
    """Also where the schedule is made anew; no heuristic's decision falls below it."""
    seen = 0
    for seed in range(12):
        instance = random_instance(problem, seed)
        result = moeopt.solve(instance, "milp")
        if result.status != "optimal":
            continue
        seen += 1
        assert run_on(instance, result.solution, best) == result.objective
        assert entries(run_on(instance, result.solution)) >= entries(result.objective)
    assert seen > 5


def test_what_cannot_be_run_is_refused() -> None:
    """A decision of another problem, and one that does not outlast its loads."""
    instance = balance(0)
    solution = moeopt.solve(instance, "milp").solution
    with pytest.raises(InputError, match="made anew"):
        run_on(instance, solution)
    other = random_instance("cache", 0)
    with pytest.raises(InputError, match="must be for cache, not balance"):
        run_on(other, solution)
