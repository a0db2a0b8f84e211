"""Products of integers of any size, by parts that fit into 64 bits."""

import numpy as np
from scipy.sparse import csr_array

from moeopt.core.program import Ints
from moeopt.library.exact_model import Objects

LIMB = 20
"""Bits of a part: products of two have 40, and 2**22 of them can be summed."""

MAX_SUMMED = 2**22
"""Most rows."""


def product(rows: csr_array, weights: Objects) -> Objects:
    """Return ``weights @ rows``, exactly.

    Parameters
    ----------
    rows
        Of int64, shape (m, n), m at most `MAX_SUMMED`.
    weights
        Python's integers, shape (m,).
    """
    if rows.shape[0] > MAX_SUMMED:
        raise ValueError("too many rows for parts of 20 bits")
    total = np.zeros(rows.shape[1], dtype=object)
    parts = _limbs(rows.data.astype(object))
    for shift, weight in enumerate(_limbs(weights)):
        for place, data in enumerate(parts):
            part = csr_array((data, rows.indices, rows.indptr), shape=rows.shape)
            summed: Ints = np.asarray(part.T @ weight)
            total += summed.astype(object) * 2 ** (LIMB * (shift + place))
    return total


def _limbs(values: Objects) -> list[Ints]:
    """Return arrays a, b, ... of int64 with ``values = a + b * 2**20 + ...``, signs included."""
    found: list[Ints] = []
    signs = np.where(values < 0, -1, 1).astype(np.int64)
    left = np.abs(values)
    while not found or left.any():
        found.append((left & (1 << LIMB) - 1).astype(np.int64) * signs)
        left = left >> LIMB
    return found
