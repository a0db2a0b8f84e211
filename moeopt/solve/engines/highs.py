"""HiGHS, through scipy: the one way to it that gives the dual bound and lives beside ortools."""

from typing import Any

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from moeopt.solve.engines.answer import Answer
from moeopt.solve.engines.matrix import to_matrix

OPTIMAL, LIMIT, INFEASIBLE = 0, 1, 2


def solve(model: Any, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a PuLP model with HiGHS; scipy offers neither its seed nor its threads."""
    matrix = to_matrix(model)
    found = milp(
        matrix.cost,
        integrality=matrix.integer.astype(np.int64),
        bounds=Bounds(matrix.lower, matrix.upper),
        constraints=LinearConstraint(matrix.rows, matrix.row_lower, matrix.row_upper),
        options={"time_limit": limit_s, "mip_rel_gap": 0.0},
    )
    answer = Answer(found.message)
    if found.status == OPTIMAL:
        answer.proven = "optimal"
    elif found.status == INFEASIBLE:
        answer.proven = "infeasible"
    elif found.status == LIMIT:
        answer.termination = "time_limit"
    if found.x is not None:
        answer.objective = float(found.fun) + matrix.constant
        answer.values = dict(zip(matrix.names, found.x.tolist(), strict=True))
    bound = found.get("mip_dual_bound")
    if bound is not None and np.isfinite(bound):
        answer.bound = float(bound) + matrix.constant
    return answer
