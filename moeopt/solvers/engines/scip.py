"""SCIP, through the MathOpt interface of ortools."""

from datetime import timedelta
from math import inf

from ortools.math_opt.python import mathopt
from ortools.math_opt.solvers.gscip import gscip_pb2

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.highs import fits, nodes_within, work_of
from moeopt.solvers.engines.answer import Answer, too_large
from moeopt.solvers.engines.matrix import Matrix

TOLERANCE = 1e-9
"""To which reduced costs keep their sign."""


def solve(matrix: Matrix, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a model with SCIP, on one thread."""
    if not fits(matrix.program, limit_s):
        return too_large()
    translated, variables = _translate(matrix)
    seconds = solving_clock().seconds_for(limit_s)
    parameters = mathopt.SolveParameters(
        time_limit=None if seconds == inf else timedelta(seconds=seconds),
        node_limit=nodes_within(matrix.program, limit_s) if counts_work() else None,
        random_seed=seed,
        relative_gap_tolerance=0.0,
        gscip=gscip_pb2.GScipParameters(real_params={"numerics/dualfeastol": TOLERANCE}),
    )
    found = mathopt.solve(translated, mathopt.SolverType.GSCIP, params=parameters)
    spend(work_of(matrix.program, found.solve_stats.node_count))
    reason = found.termination.reason
    answer = Answer(f"{reason.name} {found.termination.detail}".strip(), TOLERANCE)
    if reason == mathopt.TerminationReason.OPTIMAL:
        answer.proven = "optimal"
    elif reason == mathopt.TerminationReason.INFEASIBLE:
        answer.proven = "infeasible"
    elif found.termination.limit is not None:
        answer.termination = "time_limit"
    if found.has_primal_feasible_solution():
        answer.objective = found.objective_value()
        values = found.variable_values(variables)
        answer.values = dict(zip(matrix.names, values, strict=True))
    bound = found.termination.objective_bounds.dual_bound
    if abs(bound) < 1e20:  # SCIP's infinity
        answer.bound = bound
    return answer


def _translate(matrix: Matrix) -> tuple[mathopt.Model, list[mathopt.Variable]]:
    model = mathopt.Model()
    program = matrix.program
    columns = zip(program.lower, program.upper, program.integer, strict=True)
    variables = [model.add_variable(lb=lb, ub=ub, is_integer=bool(i)) for lb, ub, i in columns]
    starts = program.rows.indptr
    for row, (lb, ub) in enumerate(zip(program.row_lower, program.row_upper, strict=True)):
        constraint = model.add_linear_constraint(lb=lb, ub=ub)
        for entry in range(starts[row], starts[row + 1]):
            variable = variables[program.rows.indices[entry]]
            constraint.set_coefficient(variable, float(program.rows.data[entry]))
    for variable, cost in zip(variables, program.cost, strict=True):
        model.objective.set_linear_coefficient(variable, float(cost))
    model.objective.offset = matrix.program.constant
    return model, variables
