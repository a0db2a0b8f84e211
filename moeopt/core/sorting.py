"""Sorting in compiled code, in few lines: NumPy's `argsort` takes Numba longer to compile."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled


@compiled
def rising(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the positions of the keys by rising key, at ties by position (merge sort)."""
    size = len(keys)
    order, other = np.empty(size, np.int64), np.empty(size, np.int64)
    for n in range(size):
        order[n] = n
    width = 1
    while width < size:
        for begin in range(0, size, 2 * width):
            middle, end = min(begin + width, size), min(begin + 2 * width, size)
            a, b = begin, middle
            for n in range(begin, end):
                if a < middle and (b == end or keys[order[a]] <= keys[order[b]]):
                    other[n] = order[a]
                    a += 1
                else:
                    other[n] = order[b]
                    b += 1
        order, other = other, order
        width *= 2
    return order
