"""Method ``robust``, of every problem that has it."""

from dataclasses import replace
from pathlib import Path

import pytest

import moeopt
from moeopt import Futures
from tests.rooms.core import FORECAST, InstanceEnvelope
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.study import instance_files

ROBUST = [name for name in PROBLEMS if get_problem(name).has("robust")]
FEW = Futures(samples=8)


def smallest(problem: str, root: Path) -> InstanceEnvelope:
    """Return the smallest instance of the library."""
    files = instance_files(root / "instances" / problem)
    return moeopt.load(min(files, key=lambda path: path.stat().st_size))


DEAR = pytest.param("layout", marks=pytest.mark.slow)
"""It anneals for seconds; quick cases of it stand in its own tests."""


@pytest.mark.parametrize("problem", [DEAR if name == "layout" else name for name in ROBUST])
def test_it_is_a_heuristic_whose_solution_is_checked(problem: str, root: Path) -> None:
    """It proves nothing of the observed loads, and is measured on them as any other rule."""
    instance = smallest(problem, root)
    result = moeopt.solve(instance, "robust", futures=FEW)
    assert (result.status, result.bound, result.termination) == ("feasible", None, "completed")
    assert result.raw_status == "ROBUST (mean of sampled futures)"
    check = moeopt.check(instance, result.solution)
    assert (check.violations, check.objective) == ([], result.objective)
    assert get_problem(problem).information("robust", instance) == FORECAST
    again = moeopt.solve(instance, "robust", futures=FEW)
    assert again.solution == result.solution
    risk = moeopt.solve(instance, "robust", futures=replace(FEW, quantile=0.9))
    assert risk.raw_status == "ROBUST (0.9-quantile of sampled futures)"


@pytest.mark.parametrize("problem", ROBUST)
def test_a_limit_leaves_a_decision(problem: str, root: Path) -> None:
    """Whatever was offered until then, or what the problem's other rules start from."""
    result = moeopt.solve(smallest(problem, root), "robust", time_limit_s=0.001)
    assert result.status == "feasible"
    assert result.termination == "time_limit"
