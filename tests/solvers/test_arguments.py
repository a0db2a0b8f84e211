"""Arguments of a wrong type or out of range: one line that names the argument."""

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused

INSTANCE = random_instance(4, experts=7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"instance": "x.json"},
            "x.json: cannot be read: No such file or directory",
        ),
        (
            {"instance": Path("x.json")},
            "x.json: cannot be read: No such file or directory",
        ),
        ({"instance": None}, "instance: must be an instance or its file, not NoneType"),
        (
            {"instance": {"problem": "tri_domain"}},
            "instance: must be an instance or its file, not dict",
        ),
        ({"method": 5}, "method: must be a method's name or a function, not 5"),
        ({"method": None}, "method: must be a method's name or a function, not null"),
        ({"time_limit_s": "5"}, "time_limit_s: must be a number of seconds, not str '5'"),
        ({"work_limit": "3"}, "work_limit: must be a number of units of work, not str '3'"),
        ({"time_limit_s": True}, "time_limit_s: must be a number of seconds, not bool True"),
        ({"time_limit_s": Decimal(5)}, "time_limit_s: must be a number of seconds, not Decimal"),
        (
            {"time_limit_s": float("nan")},
            "time limit: must be a positive number of seconds",
        ),
        ({"seed": 1.5}, "seed: must be an integer, not float 1.5"),
        ({"seed": -1}, "seed: must be from 0 to 2147483647, not -1"),
        ({"seed": "0"}, "seed: must be an integer, not str '0'"),
        ({"workers": True}, "workers: must be an integer, not bool True"),
        ({"workers": 0}, "workers: must be from 1 to 1024, not 0"),
        ({"enough_gap": "1 %"}, "enough_gap: must be a number from 0 to 1"),
        ({"enough_gap": 1.5}, "enough_gap: must be from 0 to 1, not 1.5"),
        ({"engine": 3, "method": "milp"}, "engine: must be the name of a MILP engine, not int 3"),
        ({"engine": ["scip"], "method": "milp"}, "engine: must be the name of a MILP engine, not"),
        (
            {"without": "TD-C1"},
            "without: must be a list of constraint IDs, not one: write",
        ),
        ({"without": 1}, "without: must be a list of constraint IDs, not int 1"),
        ({"without": [1]}, "without: must be a list of constraint IDs, not int 1"),
        ({"warm_start": "no"}, "warm_start: must be True or False, not str 'no'"),
        ({"verify": 1}, "verify: must be True or False, not int 1"),
        ({"on_progress": "print"}, "on_progress: must be a function, not str 'print'"),
    ],
)
def test_what_cannot_be_used_is_named(arguments: dict[str, Any], message: str) -> None:
    """And what would be right."""
    assert message in refused(moeopt.solve, **{"instance": INSTANCE} | arguments)


def test_numpys_numbers_are_numbers() -> None:
    """And become Python's in the result."""
    result = moeopt.solve(
        INSTANCE,
        "cp-sat",
        seed=np.int64(3),  # type: ignore[arg-type]
        workers=np.uint8(1),  # type: ignore[arg-type]
        time_limit_s=np.float32(60),  # type: ignore[arg-type]
    )
    assert (type(result.seed), type(result.workers)) == (int, int)
    assert result.status == "optimal"


def test_there_are_no_other_arguments() -> None:
    """Signatures are real: an option that does not exist is an error at once."""
    for function in (moeopt.solve, moeopt.explain):
        with pytest.raises(TypeError, match="time_limit"):
            function(INSTANCE, time_limit=5)  # type: ignore[operator]


@pytest.mark.parametrize("name", ["check", "explain", "event_graph"])
def test_files_are_read(name: str) -> None:
    """The instance's first."""
    arguments = ("x.json",) if name == "explain" else ("x.json", "y.json")
    with pytest.raises(moeopt.InputError, match=r"^x\.json: cannot be read"):
        getattr(moeopt, name)(*arguments)


def test_a_solution_may_be_a_file() -> None:
    """For the graph as well, and to be explained."""
    wrong: Any = "y.json"
    for function in (moeopt.event_graph, moeopt.check):
        with pytest.raises(moeopt.InputError, match=r"^y\.json: cannot be read"):
            function(INSTANCE, wrong)
    with pytest.raises(moeopt.InputError, match=r"^y\.json: cannot be read"):
        moeopt.explain(INSTANCE, solution=wrong)


def test_a_solution_of_another_instance_is_refused() -> None:
    """By `check`; and a method that returns one has a bug."""
    from tests.rooms.tri_domain import heuristics

    other = random_instance(5, experts=7)
    solution = moeopt.solve(other, "greedy").solution
    assert solution is not None
    with pytest.raises(moeopt.InputError, match="instance: the solution is for"):
        moeopt.check(INSTANCE, solution)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(heuristics, "greedy", lambda instance: solution)
        with pytest.raises(moeopt.ContradictionError, match="its solution is of instance"):
            moeopt.solve(INSTANCE, "greedy")


def test_a_result_is_short() -> None:
    """One line: the problem, the instance, the method, and what is known, with units."""
    result = moeopt.solve(INSTANCE, "cp-sat")
    text = repr(result)
    assert str(result) == text
    assert len(text) < 200
    known = f"objective {result.objective:,} ns, bound {result.objective:,} ns, gap 0 %"
    assert text.startswith(f"Result(tri_domain, {INSTANCE.name}, cp-sat: optimal, {known}, ")
    heuristic = repr(moeopt.solve(INSTANCE, "greedy"))
    assert "bound -, gap unknown" in heuristic
