"""The values that a row of a matrix may take at some bits, and rounding to the nearest of them."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

Floats = NDArray[np.float64]

MAX_BITS = 16


class Grid:
    """Equally spaced values for each row (output channel) of some matrices.

    With one bit the values are plus and minus the row's mean magnitude, the best scale for its
    signs. From two bits on they are spread from the row's least value to its greatest, as GPTQ's
    default quantiser does, with 0 among them: outliers make them coarse.

    Parameters
    ----------
    weights
        Shape (..., rows, columns).
    bits
        From 1 to 16.

    Raises
    ------
    InputError
        If the bits are out of range.
    """

    def __init__(self, weights: Floats, bits: int) -> None:
        if not 1 <= bits <= MAX_BITS:
            raise InputError(f"bits: must be from 1 to {MAX_BITS}, not {bits}")
        self.bits = bits
        if bits == 1:
            self.step = np.abs(weights).mean(axis=-1)
            self.zero = np.zeros_like(self.step)
            return
        low = np.minimum(weights.min(axis=-1), 0)
        high = np.maximum(weights.max(axis=-1), 0)
        self.step = (high - low) / (2**bits - 1)
        self.step[self.step == 0] = 1.0
        self.zero = np.rint(-low / self.step)

    def nearest(self, column: Floats) -> Floats:
        """Return the grid's values nearest to one column of the matrices, shape (..., rows)."""
        if self.bits == 1:
            return np.asarray(np.where(column >= 0, self.step, -self.step), dtype=np.float64)
        level = np.clip(np.rint(column / self.step) + self.zero, 0, 2**self.bits - 1)
        return np.asarray(self.step * (level - self.zero), dtype=np.float64)


def round_to_nearest(weights: Floats, bits: int) -> Floats:
    """Return matrices of shape (..., rows, columns) with each entry rounded by itself."""
    grid = Grid(weights, bits)
    columns = [grid.nearest(weights[..., j]) for j in range(weights.shape[-1])]
    return np.stack(columns, axis=-1)
