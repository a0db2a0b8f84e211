"""The lower bound that may be claimed from a MILP solver that computes in floating point.

Argument. Branch and bound returns the least dual value over the leaves of its tree. At a leaf the
simplex method gives multipliers y of the rows and reduced costs d = c - y'A, and by weak duality
every x of the leaf costs at least ``b'y + sum_j min(d_j l_j, d_j u_j)``, whatever y is; a row's
slack counts as a column whose reduced cost is the row's multiplier. The solver's own number takes
each nonbasic column at the bound it lies at. The two differ only where a reduced cost has the wrong
sign, which the solver allows up to its tolerance eps: by at most ``eps * (distance of x_j from that
bound)``. So the claim z is off by at most eps times the largest sum of these distances over all x
that satisfy rows and bounds and cost at most z; an x that costs more does not contradict z. This
sum is bounded from the program alone (`distance`). To it come `CUTOFF` (a leaf is cut off if it
promises less than this) and `ROUNDING` for the arithmetic itself.

Not covered: leaves cut off as infeasible within the primal tolerance, and cutting planes, reduced
bounds and presolve reductions derived in floats. The problems keep numbers below 1e7
(`moeopt.core.formulation.FLOAT_RANGE`) so that integers stand well apart from both, and
``verify`` has what a proof rests on confirmed in integers.
"""

from dataclasses import dataclass
from math import ceil, isfinite

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class SparseRows:
    """Sparse matrix by rows: row r has the entries from ``indptr[r]`` up to ``indptr[r + 1]``.

    A `scipy.sparse.csr_array` has the same fields.
    """

    data: Vector
    indices: Ints
    indptr: Ints
    shape: tuple[int, int]


@dataclass(frozen=True)
class Program:
    """Minimise ``cost @ x + constant``, ``row_lower <= rows @ x <= row_upper``, x within bounds.

    Arrays have the shape (columns,) or (rows,); `integer` is 0 for a continuous column. MILP
    solvers work to absolute tolerances: keep numbers below 1e7, and check what they say in
    integers.
    """

    cost: Vector
    lower: Vector
    upper: Vector
    integer: Ints
    rows: SparseRows
    row_lower: Vector
    row_upper: Vector
    constant: float = 0.0


CUTOFF = 1e-5
"""In units of the model's objective: CBC's cutoff increment; HiGHS and SCIP use 1e-6 and less."""

ROUNDING = 1e-9
"""Relative: the errors of some million roundings of 2**-53 each, and SCIP's own epsilon."""

CLAIM_TOLERANCE = 1e-5
"""How far a claimed objective may be off, relatively: integrality is met to about 1e-6."""

TIGHTENINGS = 3
"""How often upper bounds are derived from the rows; models here need one or two."""


def safe_bound(program: Program, claim: float, tolerance: float, unit: float = 1) -> int | None:
    """Return the lower bound that a solver's claim proves, in the objective's integers.

    Parameters
    ----------
    program
        What the solver was given.
    claim
        Its lower bound, in the program's units, with the constant.
    tolerance
        The tolerance to which it keeps the signs of reduced costs, in the program's units.
    unit
        How many of the objective's steps one unit of the program is.

    Returns
    -------
    int or None
        The claim less what it may be off, rounded up; None if some column has no bound that keeps
        the error finite.
    """
    error = tolerance * distance(program, claim) + CUTOFF + ROUNDING * abs(claim)
    least = (claim - error) * unit
    return ceil(least) if isfinite(least) else None


def is_fine(program: Program, tolerance: float, step: float) -> bool:
    """Tell whether a solver's tolerance is finer than the program's numbers.

    Parameters
    ----------
    tolerance
        To which the solver keeps rows and the signs of reduced costs.
    step
        The least distance of two objectives, in the program's units.
    """
    largest = np.abs(program.rows.data).max(initial=np.abs(program.cost).max(initial=1.0))
    return bool(tolerance * largest < step / 2)


def claim_tolerance(claim: int) -> int:
    """Return how far the checker's objective of a solution may be from a float solver's claim."""
    return round(CLAIM_TOLERANCE * abs(claim))


def distance(program: Program, claim: float) -> float:
    """Return a bound on how far all columns and slacks together can be from where they may lie.

    Parameters
    ----------
    program
        With n columns and m rows.
    claim
        Only points that cost at most this count.

    Returns
    -------
    float
        Of ``sum_j distance_j(x)`` over the n columns and the slacks of the m rows; infinite if no
        bound was found. A column with two bounds, or a row with two sides, counts with the whole
        range between them. All other distances are linear in x, w'x + const. As c'x is at most the
        claim, ``w'x <= p * claim + sum_j max((w_j - p c_j) x_j)`` for any p >= 0; p is the least
        with which no column that has a cost and no upper bound counts, and what has neither counts
        with the upper bound that follows from the rows.
    """
    p = program
    boxed = np.isfinite(p.lower) & np.isfinite(p.upper)
    below, above = np.isfinite(p.lower) & ~boxed, np.isfinite(p.upper) & ~boxed
    sided = np.isfinite(p.row_lower) & np.isfinite(p.row_upper)
    least, most = np.isfinite(p.row_lower) & ~sided, np.isfinite(p.row_upper) & ~sided
    signs = (least.astype(float) - most)[_row_of_each(p.rows)]
    by_rows = np.bincount(p.rows.indices, p.rows.data * signs, len(p.cost))
    weight = below.astype(float) - above + by_rows
    fixed = (p.upper - p.lower)[boxed].sum() - p.lower[below].sum() + p.upper[above].sum()
    fixed += (p.row_upper - p.row_lower)[sided].sum()
    fixed += p.row_upper[most].sum() - p.row_lower[least].sum()
    budget = claim - p.constant
    upper = _upper_bounds(p, budget)
    open_ended = ~np.isfinite(p.upper) & (p.cost > 0)
    price = max(0.0, (weight[open_ended] / p.cost[open_ended]).max(initial=0.0))
    rest = weight - price * p.cost
    rest[open_ended] = np.minimum(rest[open_ended], 0)  # the rounding of the division
    at = np.where(rest > 0, upper, p.lower)
    counted = rest != 0
    return float(fixed + price * budget + (rest[counted] * at[counted]).sum())


def _upper_bounds(p: Program, budget: float) -> Vector:
    """Return upper bounds on the columns that follow from the rows and from ``cost @ x``.

    With a row ``sum_j a_j x_j <= b`` a column with a_j > 0 is at most b less the least that the
    others can sum to, divided by a_j.
    """
    row, column, entry, side = _as_at_most(p, budget)
    upper = p.upper.copy()
    for _ in range(TIGHTENINGS):
        if np.isfinite(upper).all():
            break
        least = entry * np.where(entry > 0, p.lower[column], upper[column])
        endless = ~np.isfinite(least)
        finite = np.where(endless, 0, least)
        rest = np.bincount(row, finite, len(side))[row] - finite
        others = np.bincount(row, endless, len(side))[row] - endless
        derived = np.where((others == 0) & (entry > 0), (side[row] - rest) / entry, np.inf)
        np.minimum.at(upper, column, derived)
    return upper


def _as_at_most(p: Program, budget: float) -> tuple[Ints, Ints, Vector, Vector]:
    """Return the nonzeros of all rows as ``<=``: row, column, entry, and per row its side."""
    count = p.rows.shape[0]
    used = p.rows.data != 0
    at, of, factor = _row_of_each(p.rows)[used], p.rows.indices[used], p.rows.data[used]
    costly = np.flatnonzero(p.cost)
    row = np.concatenate([at, at + count, np.full(len(costly), 2 * count)])
    column = np.concatenate([of, of, costly])
    entry = np.concatenate([factor, -factor, p.cost[costly]])
    side = np.concatenate([p.row_upper, -p.row_lower, [budget]])
    used = np.isfinite(side)[row]
    return row[used], column[used], entry[used], side


def _row_of_each(rows: SparseRows) -> Ints:
    """Return the row of each entry."""
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
