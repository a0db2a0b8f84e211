"""Rounding column by column, each error made good by the columns that are still free (GPTQ)."""

import numpy as np
from numpy.typing import NDArray

from .grids import Grid

Floats = NDArray[np.float64]

DAMPING = 0.01
"""Share of the Hessian's mean diagonal that is added to its diagonal, as in GPTQ."""

BLOCK = 64
"""Columns whose errors reach the columns behind the block together, as one matrix product."""


def gptq(weights: Floats, hessian: Floats, bits: int, damping: float = DAMPING) -> Floats:
    """Return quantised matrices whose outputs stay close to those of `weights`.

    Column by column, from the first on: the column is rounded to the grid of the original rows, and
    the columns after it move to where the squared error of the output is least, given those that
    are rounded. With U the upper Cholesky factor of the Hessian's inverse, the columns from j on
    change by -(error of column j) / U[j, j] times U[j, j:].

    Parameters
    ----------
    weights
        Shape (..., rows, columns).
    hessian
        Shape (..., columns, columns): mean outer product of activations.
    bits
        Per weight, as for `round_to_nearest`.
    damping
        See `DAMPING`; at least 1e-9 is added in any case.

    References
    ----------
    Frantar, Ashkboos, Hoefler, Alistarh: GPTQ (ICLR 2023), Algorithm 1.
    """
    return compensated(weights, inverse_factor(hessian, damping), bits)


def compensated(weights: Floats, factor: Floats, bits: int) -> Floats:
    """Return what `gptq` does, from the factor U of `inverse_factor`."""
    columns = weights.shape[-1]
    grid = Grid(weights, bits)
    stack = np.broadcast_shapes(weights.shape[:-2], factor.shape[:-2])
    free = np.array(np.broadcast_to(weights, (*stack, *weights.shape[-2:])))
    rounded = np.empty_like(free)
    for first in range(0, columns, BLOCK):
        end = min(first + BLOCK, columns)
        errors = np.empty((*free.shape[:-1], end - first))
        for j in range(first, end):
            rounded[..., j] = grid.nearest(free[..., j])
            error = (free[..., j] - rounded[..., j]) / factor[..., j, j, None]
            free[..., j + 1 : end] -= error[..., None] * factor[..., None, j, j + 1 : end]
            errors[..., j - first] = error
        free[..., end:] -= errors @ factor[..., first:end, end:]
    return rounded


def inverse_factor(hessian: Floats, damping: float = DAMPING) -> Floats:
    """Return U, upper triangular, with U^T U = (hessian + damping)^-1.

    Parameters
    ----------
    damping
        Share of the mean diagonal that is added; at least 1e-9.
    """
    mean = np.trace(hessian, axis1=-2, axis2=-1) / hessian.shape[-1]
    lift = max(damping, 1e-9) * np.where(mean > 0, mean, 1.0)
    damped = hessian + lift[..., None, None] * np.eye(hessian.shape[-1])
    inverse = np.linalg.inv(damped)
    symmetric = (inverse + np.swapaxes(inverse, -1, -2)) / 2
    return np.asarray(np.swapaxes(np.linalg.cholesky(symmetric), -1, -2), dtype=np.float64)
