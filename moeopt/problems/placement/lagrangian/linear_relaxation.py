"""The linear relaxation of all layers together, by HiGHS: where multipliers and placements begin.

With the charge due in every row, at most min(f, g of all its experts), a row takes at least
max(G x, C - O x): G and O are its experts' times on the GPU and off it, C is the sum of O and that
charge. So

    min sum of w_t (C_t - O_t x + y_t)   with   y_t >= (G_t + O_t) x - C_t,   y_t >= 0,
    0 <= x <= 1,   least <= sizes x <= most

bounds the objective from below. The multiplier of a row's first constraint, over w_t, is the weight
of the GPU's side in it. The Lagrangian relaxation (`relaxation`) at these weights is no weaker than
the linear one, stronger where rows are enumerated, and its bound is computed in integers. So the
solver's numbers only guide, and no tolerance of it enters a proof.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array, vstack

from moeopt.core.clock import spend
from moeopt.core.rounding import rounded
from moeopt.core.search import Search
from moeopt.problems.placement.layer_steps import Floats

from .relaxation import Model

ENTRIES_PER_UNIT = 5e6
"""Entries of the matrix times iterations in a unit of work."""

ITERATIONS = 25
"""Iterations that the interior point method is expected to take; most instances need 6 to 27."""

MOST = 0.75
"""Share of what is left that the linear relaxation may be expected to take."""

OPTIMIZER = 20
"""Bits kept of what the solver returns, because it stops at a tolerance."""


@dataclass(frozen=True)
class LinearRelaxation:
    """A solution of the linear relaxation.

    Attributes
    ----------
    x
        How far each expert is on the GPU, shape (layers, experts).
    weights
        Of the GPU's side of every row, by layer, from 0 to 1.
    """

    x: Floats
    weights: list[Floats]


def linear_relaxation(model: Model, search: Search) -> LinearRelaxation | None:
    """Return a solution of the linear relaxation; None if there is none, or no time for one."""
    cost, rows, due = _rows(model)
    expected = rows.nnz * ITERATIONS / ENTRIES_PER_UNIT
    if expected > MOST * search.remaining_s:
        return None
    experts = model.capacity.sizes.size
    sides: Any = [(0, 1)] * experts + [(0, None)] * (len(cost) - experts)
    options: Any = {}
    if (seconds := search.clock.seconds_for(search.remaining_s)) != np.inf:
        options["time_limit"] = seconds
    found: Any = linprog(
        cost,
        A_ub=rows,
        b_ub=due,
        bounds=sides,
        method="highs-ipm",
        options=options,
    )
    spend(rows.nnz * found.nit / ENTRIES_PER_UNIT)
    if found.status != 0:
        return None
    weight = np.concatenate([layer.weight for layer in model.layers])
    share = np.clip(-found.ineqlin.marginals[: len(weight)] / weight, 0, 1)
    ends = np.cumsum([layer.rows for layer in model.layers])
    x = rounded(found.x[:experts], OPTIMIZER).reshape(model.capacity.sizes.shape)
    return LinearRelaxation(x, np.split(rounded(share, OPTIMIZER), ends[:-1]))


def _rows(model: Model) -> tuple[Floats, Any, Floats]:
    """Return costs, matrix and right sides; columns are the experts of all layers, then y.

    Times are in units of a mean row's, as solvers work to absolute tolerances.
    """
    sizes, (_, experts) = model.capacity.sizes, model.capacity.sizes.shape
    row, column, both, alone, cost, first = [], [], [], [], np.zeros(sizes.size), 0
    for number, layer in enumerate(model.layers):
        of, at = layer.row, number * experts + layer.expert
        row.append(first + of)
        column.append(at)
        both.append(layer.gpu_ns + layer.offload_ns)
        charge = np.minimum(model.fixed_ns, np.bincount(of, layer.gpu_ns, layer.rows))
        alone.append(np.bincount(of, layer.offload_ns, layer.rows) + charge)
        np.add.at(cost, at, -layer.weight[of] * layer.offload_ns)
        first += layer.rows
    due = np.concatenate(alone)
    unit = max(1.0, float(due.mean())) if len(due) else 1.0
    weight, own = np.concatenate([layer.weight for layer in model.layers]), np.arange(first)
    times = np.concatenate([*both, np.full(first, -unit)]) / unit
    places = np.concatenate([*row, own]), np.concatenate([*column, sizes.size + own])
    slots = np.concatenate([sizes.ravel(), np.zeros(first)]).astype(np.float64)
    limits = csr_array(np.stack([slots, -slots]))
    matrix = vstack([csr_array((times, places), (first, len(slots))), limits], format="csr")
    right = np.concatenate([due / unit, [model.capacity.most, -model.capacity.least]])
    return np.concatenate([cost / unit, weight]), matrix, right
