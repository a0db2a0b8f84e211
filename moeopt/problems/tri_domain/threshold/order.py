"""The order of numbers, in few lines: NumPy's takes Numba longer to compile than all else here."""

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import Ints


@compiled
def rising(keys: Ints) -> Ints:
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
