"""`simulate` executes solutions of every problem there is."""

from pathlib import Path

import pytest

import moeopt
from moeopt.core.json_files import read_object
from moeopt.problems.execute import compare
from moeopt.problems.registry import PROBLEMS

LIBRARY = Path(__file__).parents[3] / "instances"


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_problem_is_refused(problem: str) -> None:
    """The smallest instance of each problem's library, with its best-known solution."""
    home = LIBRARY / problem
    entries = read_object(home / "best_known.json")
    file = min(sorted(entries), key=lambda name: (home / name).stat().st_size)
    instance = moeopt.load(home / file)
    compared = compare(instance, moeopt.load_solution(home / entries[file]["solution"]))
    assert compared.agree
    assert compared.timeline.makespan_ns > 0
