"""Run a problem's CP-SAT model."""

from math import ceil, ulp
from typing import Literal

from moeopt.core import cpsat
from moeopt.core.errors import ContradictionError
from moeopt.core.formulation import cp_model
from moeopt.solvers.result import Termination
from moeopt.solvers.task import Outcome, Task, Trace

NAME = "cp-sat"
"""The engine in claims."""

PROVEN: dict[str, Literal["optimal", "infeasible"]] = {
    "optimal": "optimal",
    "infeasible": "infeasible",
}


def run(task: Task) -> Outcome:
    """Build the model, solve it within the limit and read the solution off."""
    return solved(task, cpsat.SAFE)


def solved(task: Task, way: cpsat.Way, below: int | None = None) -> Outcome:
    """Build the model, solve it within the limit one way and read the solution off.

    Parameters
    ----------
    below
        If given, only solutions with a lower objective are looked for: "infeasible" says that there
        is none.

    Raises
    ------
    ContradictionError
        If CP-SAT rejects the model; the message is its own.
    """
    deadline = task.deadline
    begin = deadline.elapsed_s
    built = task.model()
    unit = built.objective_unit
    if below is not None:
        cpsat.add_below(built.model, -(-below // unit))
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    remaining = deadline.remaining_s
    running = cpsat.Run(
        built.model,
        remaining,
        seed=task.seed,
        workers=task.workers,
        way=way,
        options=built.parameters,
    )
    callback = _Incumbents(task.trace, built.model, unit)
    termination: Termination = "time_limit"
    try:
        answer = running.solve(
            callback, lambda bound: task.trace.record(bound=integer_bound(bound) * unit)
        )
    except cpsat.StoppedError as stopped:
        answer, termination = stopped.answer, "interrupted"
    if answer.status == "invalid":
        raise ContradictionError(f"CP-SAT rejects the model: {built.model.validate()}")
    outcome = Outcome(None, answer.status.upper(), by=NAME, parameters=way.name)
    outcome.proven = PROVEN.get(answer.status)
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    if outcome.proven is None:
        outcome.termination = termination
    if answer.bound is not None:
        outcome.bound = answer.bound * unit
    if answer.found:
        outcome.solution = built.decode(answer.value)
        outcome.claim = cpsat.objective_of(built.model, answer.solution) * unit
    elif answer.status == "unknown":  # what the callback saw is proven; the response may hold 0
        outcome.bound = task.trace.bound
    return outcome


class _Incumbents(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]  # untyped base
    """Records every improving solution in the trace."""

    def __init__(self, trace: Trace, model: cp_model.CpModel, unit: int) -> None:
        super().__init__()
        self._trace, self._model, self._unit = trace, model, unit

    def on_solution_callback(self) -> None:
        value = cpsat.objective_of(self._model, self.response_proto.solution)
        self._trace.record(objective=value * self._unit)


def integer_bound(bound: float) -> int:
    """Return what an integer bound that came as a double proves: CP-SAT's callback has no other.

    Up to 2**53 the double is the integer, but for an error such as 250.99999999999997; above, the
    integer was rounded to it, and the offset of the objective once more.
    """
    if abs(bound) < 2**53:
        return ceil(bound - 1e-6)
    return int(bound) - 2 * int(ulp(bound))
