"""The MILP model of an instance in integers: what a certificate of a bound is checked against.

The model that ``milp`` builds, and that `moeopt export` writes, has rows whose coefficients are
integers over a common denominator D, ns over the unit of its objective for instance. A double is
within half a unit in the last place of such a fraction; the fraction is found again as the multiple
of 1/D that is so near, which is unique as long as numerators stay below 2**50.
"""

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.program import Ints, Program
from moeopt.problems.registry import get_problem
from moeopt.solvers.engines.matrix import to_matrix

Objects = NDArray[Any]
"""An array of Python's integers, which have no limit; None stands for no bound."""

LARGEST = 2**50
"""Largest numerator: the nearest multiple of 1/D to a double is the one that was meant."""

NEAR = 2.0**-50
"""Relative: two divisions in floats are off by less."""


@dataclass(frozen=True)
class ExactModel:
    """Minimise ``cost @ x + constant``, ``row_lower <= rows @ x <= row_upper``, x within bounds.

    Attributes
    ----------
    columns, row_names
        Names, in the order of the arrays.
    row_denominator
        D of each row: the model's own numbers are the integers here over D; 0 for a row without
        such a D, which proves nothing and has zeros here.
    denominator
        D of cost and constant.
    objective_unit
        Steps of the packed objective (`moeopt.core.objective.Packing`) per unit of the model.
    grid
        A number of steps that every objective is a multiple of, from the problem's ``bounds``.
    cost, constant, rows
        Integers.
    row_lower, row_upper, lower, upper
        Integers, or None where there is no bound; bounds of columns are rounded outwards.
    integer
        Which columns are whole numbers.
    program
        The model in floats, for a solver.
    """

    columns: list[str]
    row_names: list[str]
    row_denominator: Ints
    denominator: int
    objective_unit: int
    grid: int
    cost: Ints
    constant: int
    rows: csr_array
    row_lower: Objects
    row_upper: Objects
    lower: Objects
    upper: Objects
    integer: NDArray[np.bool_]
    program: Program


def exact_model(instance: InstanceEnvelope) -> ExactModel:
    """Return the integers of an instance's MILP model.

    Raises
    ------
    InputError
        If the objective's coefficients have no common denominator that keeps them exact.
    """
    problem = get_problem(instance.problem)
    built = problem.milp()(instance)
    built.post()
    matrix = to_matrix(built.model)
    p = matrix.program
    candidates = _denominators(built.objective_unit, getattr(built, "denominators", ()))
    row = np.repeat(np.arange(p.rows.shape[0]), np.diff(p.rows.indptr))
    cost = np.append(p.cost, p.constant)
    [denominator] = _least(np.zeros(len(cost), dtype=np.int64), cost, 1, candidates)
    if denominator == 0:
        raise InputError(f"{instance.name}: the MILP model's costs are no exact fractions")
    sides = np.concatenate([p.row_lower, p.row_upper])
    finite = np.isfinite(sides)
    of = np.tile(np.arange(len(p.row_lower)), 2)[finite]
    of_rows = _least(
        np.concatenate([row, of]),
        np.concatenate([p.rows.data, sides[finite]]),
        len(p.row_lower),
        candidates,
    )
    rows = p.rows.copy()
    rows.data = _whole(p.rows.data, of_rows[row])
    return ExactModel(
        columns=matrix.names,
        row_names=[str(constraint.name) for constraint in built.model.constraints()],
        row_denominator=of_rows,
        denominator=int(denominator),
        objective_unit=built.objective_unit,
        grid=problem.bounds.objective_grid(instance),
        cost=_whole(p.cost, np.full(len(p.cost), denominator)),
        constant=round(p.constant * float(denominator)),
        rows=rows,
        row_lower=_bounds(p.row_lower, of_rows, np.rint),
        row_upper=_bounds(p.row_upper, of_rows, np.rint),
        lower=_bounds(p.lower, itertools.repeat(1), np.floor),
        upper=_bounds(p.upper, itertools.repeat(1), np.ceil),
        integer=p.integer.astype(bool),
        program=p,
    )


def _denominators(unit: int, others: Iterable[int]) -> list[int]:
    """Return what may be a row's denominator, the least first."""
    bases = (1, unit, *(unit * 10**k for k in range(1, 4)), *(10**k for k in range(1, 13)))
    return sorted({base * factor for base in (*bases, *others) for factor in (1, 2)})


def _least(row: Ints, numbers: NDArray[np.float64], rows: int, denominators: Iterable[int]) -> Ints:
    """Return for each row the least denominator of which its numbers are multiples, else 0."""
    found = np.zeros(rows, dtype=np.int64)
    for denominator in denominators:
        scaled = numbers * float(denominator)
        off = np.abs(scaled - np.rint(scaled))
        bad = (off > NEAR * np.abs(scaled)) | (np.abs(scaled) >= LARGEST)
        holds = np.bincount(row, bad, rows) == 0
        found[holds & (found == 0)] = denominator
    return found


def _whole(values: NDArray[np.float64], denominators: Ints) -> Ints:
    return np.rint(values * denominators).astype(np.int64)


def _bounds(
    values: NDArray[np.float64], factors: Iterable[int], rounding: Callable[[Any], Any]
) -> Objects:
    """Return Python's integers, None where there is no bound."""
    found = np.empty(len(values), dtype=object)
    found[:] = [
        int(rounding(value * factor)) if np.isfinite(value) else None
        for value, factor in zip(values, factors, strict=False)
    ]
    return found
