"""Run a problem's CP-SAT model."""

from collections.abc import Mapping, Sequence
from math import ceil, ulp
from typing import Literal

from moeopt.core import formulation
from moeopt.core.errors import ModelMismatchError
from moeopt.core.formulation import cp_model
from moeopt.solvers.limits import run_interruptible, within
from moeopt.solvers.task import Outcome, Task, Trace

PROVEN: dict[object, Literal["optimal", "infeasible"]] = {
    cp_model.OPTIMAL: "optimal",
    cp_model.INFEASIBLE: "infeasible",
}


def run(task: Task) -> Outcome:
    """Build the model, solve it within the limit and read the solution off.

    Raises
    ------
    ModelMismatchError
        If CP-SAT rejects the model; the message is its own.
    """
    deadline = task.deadline
    begin = deadline.elapsed_s
    built = within(deadline, task.model)
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    solver = _solver(task, built.parameters)
    objective = _Objective(built.model)
    callback = _Incumbents(task.trace, objective, built.objective_unit)
    remaining = deadline.remaining_s
    solver.best_bound_callback = lambda bound: task.trace.record(
        bound=integer_bound(bound) * built.objective_unit
    )
    solving = run_interruptible(
        lambda: solver.solve(built.model, callback), solver.stop_search, remaining
    )
    if not solving.ended:  # it does not look at the clock everywhere in presolve
        outcome = Outcome(None, "LEFT BEHIND", "time_limit", bound=task.trace.bound)
        outcome.termination = "interrupted" if solving.interrupted else "time_limit"
        return outcome
    formulation.spent(solver)
    status = solving.value
    if status == cp_model.MODEL_INVALID:
        raise ModelMismatchError(f"CP-SAT rejects the model: {built.model.validate()}")
    outcome = Outcome(None, solver.status_name(status), proven=PROVEN.get(status))
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    if outcome.proven is None:
        outcome.termination = "interrupted" if solving.interrupted else "time_limit"
    if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        outcome.solution = built.decode(solver.value)
        response = solver.response_proto
        outcome.claim = objective.of(response.solution) * built.objective_unit
        bound = response.inner_objective_lower_bound + objective.offset
        outcome.bound = bound * built.objective_unit
    elif status == cp_model.UNKNOWN:  # what the callback saw is proven; the response may hold 0
        outcome.bound = task.trace.bound
    return outcome


class _Objective:
    """A model's objective in integers; CP-SAT itself hands it over as a double, exact to 2**53."""

    def __init__(self, model: cp_model.CpModel) -> None:
        proto = model.proto.objective
        self._terms = list(zip(proto.vars, proto.coeffs, strict=True))
        self.offset = int(proto.offset)

    def of(self, solution: Sequence[int]) -> int:
        """Return the objective of a response's solution, which has a value for each variable."""
        total: int = sum(factor * solution[column] for column, factor in self._terms)
        return self.offset + total


class _Incumbents(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]  # untyped base
    """Records every improving solution in the trace."""

    def __init__(self, trace: Trace, objective: _Objective, unit: int) -> None:
        super().__init__()
        self._trace, self._objective, self._unit = trace, objective, unit

    def on_solution_callback(self) -> None:
        value = self._objective.of(self.response_proto.solution)
        self._trace.record(objective=value * self._unit)


def _solver(task: Task, parameters: Mapping[str, object]) -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    for name, value in parameters.items():
        setattr(solver.parameters, name, value)
    formulation.limit(solver.parameters, task.deadline.remaining_s, task.workers)
    solver.parameters.random_seed = task.seed
    solver.parameters.catch_sigint_signal = False  # Ctrl-C is run_interruptible's
    return solver


def integer_bound(bound: float) -> int:
    """Return what an integer bound that came as a double proves: CP-SAT's callback has no other.

    Up to 2**53 the double is the integer, but for an error such as 250.99999999999997; above, the
    integer was rounded to it, and the offset of the objective once more.
    """
    if abs(bound) < 2**53:
        return ceil(bound - 1e-6)
    return int(bound) - 2 * int(ulp(bound))
