"""Run a problem's CP-SAT model."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from ortools.sat.python import cp_model

from moeopt.errors import ModelMismatchError
from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.task import Outcome, Task, Trace

PROVEN: dict[Any, Any] = {cp_model.OPTIMAL: "optimal", cp_model.INFEASIBLE: "infeasible"}


def run(task: Task) -> Outcome:
    """Build the model, solve it within the limit and read the solution off.

    Raises
    ------
    ModelMismatchError
        If CP-SAT rejects the model; the message is its own.
    """
    deadline = task.deadline
    begin = deadline.elapsed_s
    built = task.problem.part(task.module).Model(task.instance)
    built.post(task.without, deadline.checkpoint)
    if task.start is not None:
        built.start_from(task.start, task.upper)
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    solver = _solver(task, built.parameters)
    callback = _Incumbents(task.trace, built.objective_unit)
    solver.best_bound_callback = lambda bound: task.trace.record(
        bound=_ceil(bound) * built.objective_unit
    )
    solving = run_interruptible(
        lambda: solver.solve(built.model, callback), solver.stop_search, deadline.remaining_s
    )
    if not solving.ended:  # it does not look at the clock everywhere in presolve
        outcome = Outcome(None, "LEFT BEHIND", "time_limit", bound=task.trace.bound)
        outcome.termination = "interrupted" if solving.interrupted else "time_limit"
        return outcome
    status = solving.value
    if status == cp_model.MODEL_INVALID:
        raise ModelMismatchError(f"CP-SAT rejects the model: {built.model.validate()}")
    outcome = Outcome(None, solver.status_name(status), proven=PROVEN.get(status))
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    if outcome.proven is None:
        outcome.termination = "interrupted" if solving.interrupted else "time_limit"
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        outcome.solution = built.decode(solver.value)
        # round, not int: CP-SAT hands its integer objective over as a float such as
        # 250.99999999999997
        outcome.claim = round(solver.objective_value) * built.objective_unit
        outcome.bound = _ceil(solver.best_objective_bound) * built.objective_unit
    elif status == cp_model.UNKNOWN:  # what the callback saw is proven; the response may hold 0
        outcome.bound = task.trace.bound
    return outcome


class _Incumbents(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]  # untyped base
    """Records every improving solution in the trace."""

    def __init__(self, trace: Trace, unit: int) -> None:
        super().__init__()
        self._trace, self._unit = trace, unit

    def on_solution_callback(self) -> None:
        self._trace.record(objective=round(self.objective_value) * self._unit)


def _solver(task: Task, parameters: Mapping[str, Any]) -> Any:
    solver = cp_model.CpSolver()
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    solver.parameters.max_time_in_seconds = task.deadline.remaining_s
    solver.parameters.num_workers = task.workers
    solver.parameters.random_seed = task.seed
    solver.parameters.catch_sigint_signal = False  # Ctrl-C is run_interruptible's
    return solver


def _ceil(bound: float) -> int:
    """Round a bound up to the next integer, allowing for the float it comes in."""
    return ceil(bound - 1e-6)
