"""Rows that no other row replaces."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled

Ints = NDArray[np.int64]

MAX_COMPARISONS = 50_000_000
"""Of two rows, for one list: a tenth of a second or two."""


def undominated(rows: Ints, same: int) -> Ints:
    """Return the numbers of the rows that no other one is equal to or below.

    Parameters
    ----------
    rows
        Shape (rows, columns).
    same
        The column in which only equal rows are compared.

    Returns
    -------
    array
        Of equal rows one is left. Where very many are left, there may be some too many.
    """
    order = np.lexsort((rows.sum(axis=1), rows[:, same]))
    kept = np.empty(len(rows), dtype=np.int64)
    count = _scan(np.ascontiguousarray(rows[order]), same, kept)
    return order[kept[:count]]


@compiled
def _scan(rows: Ints, same: int, kept: Ints) -> int:
    """List the rows without any before them that is nowhere above; return how many there are.

    Rows are sorted by the column `same`, then by their sums, so that later rows are below none.
    Rows that replace others move to the front of what is compared next.
    """
    first = count = 0
    left = MAX_COMPARISONS
    for row in range(len(rows)):
        if row and rows[row, same] != rows[row - 1, same]:
            first = count
        replaced = False
        for place in range(first, min(count, first + left)):
            left -= 1
            other = kept[place]
            replaced = True
            for column in range(rows.shape[1]):
                if rows[other, column] > rows[row, column]:
                    replaced = False
                    break
            if replaced:
                ahead = first + (place - first) // 2
                kept[place], kept[ahead] = kept[ahead], other
                break
        if not replaced:
            kept[count] = row
            count += 1
    return count
