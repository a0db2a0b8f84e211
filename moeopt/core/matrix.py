"""The arrays of a PuLP model, as solvers and certificates read them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pulp
from scipy.sparse import csr_array

from moeopt.core.safe_bound import Program


@dataclass(frozen=True)
class Matrix:
    """A minimisation: PuLP's model, and its arrays over the columns `names`."""

    model: pulp.LpProblem
    names: list[str]
    program: Program


def to_matrix(model: pulp.LpProblem, checkpoint: Callable[[], None] = lambda: None) -> Matrix:
    """Return the arrays of a PuLP minimisation model; `checkpoint` may raise at any row."""
    variables = model.variables()
    column = {variable.name: number for number, variable in enumerate(variables)}
    cost = np.zeros(len(variables))
    for variable, coefficient in model.objective.items():
        cost[column[variable.name]] = coefficient
    data: list[float] = []
    index: list[int] = []
    start, lower, upper = [0], [], []
    for constraint in model.constraints():
        checkpoint()
        for variable, coefficient in constraint.items():
            index.append(column[variable.name])
            data.append(coefficient)
        start.append(len(index))
        side = -constraint.constant
        lower.append(-np.inf if constraint.sense == pulp.LpConstraintLE else side)
        upper.append(np.inf if constraint.sense == pulp.LpConstraintGE else side)
    program = Program(
        cost=cost,
        lower=np.array([-np.inf if v.lowBound is None else v.lowBound for v in variables], float),
        upper=np.array([np.inf if v.upBound is None else v.upBound for v in variables], float),
        integer=np.array([v.cat == pulp.LpInteger for v in variables], dtype=np.int64),
        rows=csr_array((data, index, start), shape=(len(lower), len(variables))),
        row_lower=np.array(lower),
        row_upper=np.array(upper),
        constant=float(model.objective.constant),
    )
    return Matrix(model, [variable.name for variable in variables], program)
