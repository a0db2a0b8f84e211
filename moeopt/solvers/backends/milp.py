"""Run a problem's MILP model on one of the engines."""

from collections.abc import Callable

from moeopt.core.safe_bound import claim_tolerance, is_fine, safe_bound
from moeopt.solvers.backends import ENGINES
from moeopt.solvers.engines import (
    Answer,
    Matrix,
    solve_cbc,
    solve_cplex,
    solve_gurobi,
    solve_highs,
    solve_scip,
    to_matrix,
)
from moeopt.solvers.limits import run_interruptible, within
from moeopt.solvers.task import Outcome, Task

Engine = Callable[[Matrix, float, int, int], Answer]
"""Solves a model: seconds, seed, workers."""


FUNCTIONS: dict[str, Engine] = {
    "highs": solve_highs,
    "cbc": solve_cbc,
    "scip": solve_scip,
    "gurobi": solve_gurobi,
    "cplex": solve_cplex,
}
"""Engine -> its function."""


def run(task: Task) -> Outcome:
    """Build the PuLP model, solve it and read the solution off.

    An engine's word "optimal" is not taken for a proof: its bound is lowered by what floats may be
    off (`moeopt.core.safe_bound`), and the result is optimal if that, rounded up to the grid of
    objectives, still meets it.
    """
    engine = task.engine or ENGINES[0]
    solve = FUNCTIONS[engine]
    deadline = task.deadline
    begin = deadline.elapsed_s
    built = within(deadline, task.model)
    matrix = within(deadline, lambda: to_matrix(built.model, deadline.checkpoint))
    deadline.checkpoint()
    build_end = deadline.elapsed_s
    solving = run_interruptible(
        lambda: solve(matrix, deadline.remaining_s, task.seed, task.workers),
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
        outcome.tolerance = claim_tolerance(outcome.claim)
    if answer.bound is not None:
        unit = built.objective_unit
        outcome.bound = safe_bound(matrix.program, answer.bound, answer.tolerance, unit)
    outcome.by = engine
    outcome.counts = is_fine(matrix.program, answer.tolerance, task.grid / built.objective_unit)
    return outcome
