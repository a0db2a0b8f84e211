"""A PuLP model as arrays, for solvers that PuLP does not drive well."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pulp
from numpy.typing import NDArray
from scipy.sparse import csr_array

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Matrix:
    """Minimise ``cost @ x + constant`` with ``row_lower <= rows @ x <= row_upper`` and bounds on x.

    `names` are the variables' names in the order of the columns.
    """

    names: list[str]
    cost: Vector
    constant: float
    lower: Vector
    upper: Vector
    integer: NDArray[np.bool_]
    rows: csr_array
    row_lower: Vector
    row_upper: Vector


def to_matrix(model: Any) -> Matrix:
    """Return the arrays of a PuLP minimisation model."""
    variables = model.variables()
    column = {variable.name: number for number, variable in enumerate(variables)}
    cost = np.zeros(len(variables))
    for variable, coefficient in model.objective.items():
        cost[column[variable.name]] = coefficient
    data: list[float] = []
    index: list[int] = []
    start, lower, upper = [0], [], []
    for constraint in model.constraints():
        for variable, coefficient in constraint.items():
            index.append(column[variable.name])
            data.append(coefficient)
        start.append(len(index))
        side = -constraint.constant
        lower.append(-np.inf if constraint.sense == pulp.LpConstraintLE else side)
        upper.append(np.inf if constraint.sense == pulp.LpConstraintGE else side)
    return Matrix(
        names=[variable.name for variable in variables],
        cost=cost,
        constant=float(model.objective.constant),
        lower=np.array([-np.inf if v.lowBound is None else v.lowBound for v in variables], float),
        upper=np.array([np.inf if v.upBound is None else v.upBound for v in variables], float),
        integer=np.array([v.cat == pulp.LpInteger for v in variables]),
        rows=csr_array((data, index, start), shape=(len(lower), len(variables))),
        row_lower=np.array(lower),
        row_upper=np.array(upper),
    )
