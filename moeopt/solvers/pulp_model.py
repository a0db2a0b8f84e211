"""A MILP as PuLP's problem, for the solvers that PuLP drives and for LP and MPS files."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pulp

from moeopt.core.safe_bound import Program


def to_pulp(
    program: Program, names: Sequence[str] | None = None, row_names: Sequence[str] | None = None
) -> pulp.LpProblem:
    """Return a program as PuLP's problem, with names for its columns and rows.

    PuLP knows no row with two sides, unless they are equal: it becomes two, as in no program of
    `moeopt.core.linear`.
    """
    model = pulp.LpProblem("model", pulp.LpMinimize)
    size = len(program.cost)
    of_columns = zip(
        names or [f"x{column}" for column in range(size)],
        program.lower.tolist(),
        program.upper.tolist(),
        program.integer.tolist(),
        strict=True,
    )
    columns = [
        model.add_variable(name, low, high, pulp.LpInteger if whole else pulp.LpContinuous)
        for name, low, high, whole in of_columns
    ]

    def total(terms: Sequence[tuple[int, float]]) -> pulp.LpAffineExpression:
        return pulp.LpAffineExpression((columns[column], c) for column, c in terms)

    costs = [(n, float(program.cost[n])) for n in np.flatnonzero(program.cost).tolist()]
    model.setObjective(total(costs) + program.constant)
    sides = zip(program.row_lower.tolist(), program.row_upper.tolist(), strict=True)
    for number, ((least, most), terms) in enumerate(zip(sides, terms_of(program), strict=True)):
        name = row_names[number] if row_names else f"r{number}"
        if least == most:
            model += total(terms) == least, name
            continue
        if np.isfinite(least):
            model += total(terms) >= least, name
        if np.isfinite(most):
            model += total(terms) <= most, f"{name}_most" if np.isfinite(least) else name
    return model


def terms_of(program: Program) -> list[list[tuple[int, float]]]:
    """Return column and coefficient of each entry, row by row."""
    rows = program.rows
    entries = list(zip(rows.indices.tolist(), rows.data.tolist(), strict=True))
    return [entries[begin:end] for begin, end in pairwise(rows.indptr.tolist())]
