"""HiGHS on a PuLP model."""

from typing import Any

from moeopt.core.highs import Found, fits, minimize
from moeopt.solvers.engines.answer import Answer, too_large
from moeopt.solvers.engines.matrix import to_matrix


def solve(model: Any, limit_s: float, seed: int, workers: int) -> Answer:
    """Solve a PuLP model with HiGHS; scipy offers neither its seed nor its threads."""
    matrix = to_matrix(model)
    if not fits(matrix.program, limit_s):
        return too_large()
    found: Found = minimize(matrix.program, limit_s)
    answer = Answer(found.message, found.tolerance)
    if found.status in ("optimal", "infeasible"):
        answer.proven = found.status
    elif found.status == "limit":
        answer.termination = "time_limit"
    if found.values is not None and found.objective is not None:
        answer.objective = found.objective
        answer.values = dict(zip(matrix.names, found.values.tolist(), strict=True))
    answer.bound = found.bound
    return answer
