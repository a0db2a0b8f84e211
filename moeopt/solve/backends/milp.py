"""Run a problem's MILP model on one of the engines."""

from collections.abc import Callable
from importlib import import_module
from math import ceil
from typing import Any

from moeopt.errors import InputError
from moeopt.solve.engines.answer import Answer
from moeopt.solve.interrupt import run_interruptible
from moeopt.solve.native_output import native_stdout_to_stderr
from moeopt.solve.task import Outcome, Task

ENGINES: dict[str, tuple[str, str]] = {
    "highs": ("highs", "solve"),
    "cbc": ("through_pulp", "solve_cbc"),
    "scip": ("scip", "solve"),
    "gurobi": ("through_pulp", "solve_gurobi"),
    "cplex": ("through_pulp", "solve_cplex"),
}
"""Engine -> module and function; the first is the default."""

FLOAT_TOLERANCE = 1e-5
"""How far a float objective may be off, relatively: integrality is only met to about 1e-6."""


def run(task: Task) -> Outcome:
    """Build the PuLP model, solve it and read the solution off.

    The engine's objective is a float: it may differ from the judge's by `FLOAT_TOLERANCE`, but the
    answer counts as proven optimal only if the two are equal to the nanosecond.
    """
    engine = task.engine or next(iter(ENGINES))
    solve = _engine(engine)
    deadline = task.deadline
    begin = deadline.elapsed_s
    built = task.problem.part("milp").Model(task.instance)
    built.post(task.without, deadline.checkpoint)
    built.limit_objective(task.lower, task.upper)
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    with native_stdout_to_stderr():
        solving = run_interruptible(
            lambda: solve(built.model, deadline.remaining_s, task.seed, task.workers),
            lambda: None,  # none of the engines can be stopped from outside; it is left behind
            deadline.remaining_s,
        )
    answer = solving.value or Answer("LEFT BEHIND", termination="time_limit")
    outcome = Outcome(None, answer.raw_status, answer.termination, engine=engine)
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    outcome.proven = answer.proven
    if solving.interrupted and answer.proven is None:
        outcome.termination = "interrupted"
    if answer.values and answer.objective is not None:
        outcome.solution = built.decode(lambda variable: round(answer.values[variable.name]))
        outcome.claim = round(answer.objective * built.objective_unit)
        outcome.tolerance = 1 + round(FLOAT_TOLERANCE * outcome.claim)
    if answer.bound is not None:
        bound = answer.bound * built.objective_unit
        outcome.bound = ceil(bound - 1 - FLOAT_TOLERANCE * abs(bound))
    return outcome


def _engine(name: str) -> Callable[[Any, float, int, int], Answer]:
    if name not in ENGINES:
        raise InputError(f"engine: {name!r} is unknown; known engines: {', '.join(ENGINES)}")
    module, function = ENGINES[name]
    solve: Callable[[Any, float, int, int], Answer] = getattr(
        import_module(f"moeopt.solve.engines.{module}"), function
    )
    return solve
