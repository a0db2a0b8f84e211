"""Rows of a study that never ran: made by hand, so that what is computed from them is known."""

from dataclasses import replace
from typing import Any

from moeopt.core.envelope import SolutionEnvelope
from moeopt.core.objective import Objective
from moeopt.solvers.result import Result
from moeopt.study.plan import Key
from moeopt.study.rows import Row


def made_row(
    method: str,
    instance: str,
    objective: Objective | None,
    optimum: Objective | None,
    *,
    problem: str = "tri_domain",
    family: str = "made",
    solve_s: float = 0.5,
    solution: SolutionEnvelope | None = None,
    proves: bool = False,
    **key: Any,
) -> Row:
    """Return a row; `instance` is its name and its content hash."""
    result = Result(
        problem=problem,
        instance=instance,
        method=method,
        engine=None,
        seed=0,
        workers=1,
        status="optimal" if proves else "unknown" if objective is None else "feasible",
        termination="completed",
        objective=objective,
        bound=optimum if proves else None,
        solution=solution,
        violations=[],
        build_s=0.0,
        solve_s=solve_s,
        trace=[],
        raw_status="",
        versions={"moeopt": "0"},
    )
    asked = Key(instance, method, 0, 60.0, 1, "{}", "0")._replace(**key)
    return Row(family, asked, result, optimum, optimum, {}, {"cores": 2})


def renamed(row: Row, method: str) -> Row:
    """Return a row as if another method had made it."""
    result = replace(row.result, method=method)
    return replace(row, key=row.key._replace(method=method), result=result)
