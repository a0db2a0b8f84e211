"""The compiled loops of the dynamic program: small, so that they compile in a second or two."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

UNREACHABLE = 2**61
"""In place of a loss where no choice has these bits and counts; losses sum to 2**60 at most."""


@compiled
def extend(tables: Ints, losses: Ints, steps: Ints, following: Ints, first: int, last: int) -> None:
    """Fill the tables of experts `first` to `last` - 1 from the one before.

    Parameters
    ----------
    tables
        Shape (experts + 1, states, increments): the least loss of the experts before, by counts
        reached and increments in use. Entry [e, :, r] is filled for r <= e x the largest step.
    losses, steps
        Shape (experts, widths), and the increments of each width.
    following
        Shape (states, widths): the counts after one more expert of a width.
    """
    increments = tables.shape[2]
    largest = steps[-1]
    for e in range(first, last):
        old, new = tables[e], tables[e + 1]
        reached = min(increments, e * largest + 1)
        new[:, : min(increments, reached + largest)] = UNREACHABLE
        for state in range(old.shape[0]):
            for j in range(len(steps)):
                step, loss = steps[j], losses[e, j]
                source, target = old[state], new[following[state, j], step:]
                for r in range(min(reached, increments - step)):
                    target[r] = min(target[r], source[r] + loss)


@compiled
def trace_back(tables: Ints, losses: Ints, steps: Ints, following: Ints, increments: int) -> Ints:
    """Return the width of every expert, by position, in a choice that the last table stands for.

    It ends in the last state with exactly so many increments. The narrowest width goes first.
    """
    experts = len(losses)
    chosen = np.zeros(experts, dtype=np.int64)
    state, r = tables.shape[1] - 1, increments
    for e in range(experts - 1, -1, -1):
        wanted = tables[e + 1, state, r]
        found = False
        for j in range(len(steps)):
            before = r - steps[j]
            if before < 0 or before > e * steps[-1]:
                continue
            for source in range(tables.shape[1]):
                if (
                    following[source, j] == state
                    and tables[e, source, before] + losses[e, j] == wanted
                ):
                    chosen[e], state, r, found = j, source, before, True
                    break
            if found:
                break
    return chosen


@compiled
def lower_hull(values: Ints) -> Ints:
    """Return the positions of the corners of the lower convex hull of (position, value).

    Products of a difference of values and one of positions must fit into int64.
    """
    corners = np.empty(len(values), dtype=np.int64)
    count = 0
    for c in range(len(values)):
        while count >= 2:
            a, b = corners[count - 2], corners[count - 1]
            if (values[b] - values[a]) * (c - b) < (values[c] - values[b]) * (b - a):
                break
            count -= 1
        corners[count] = c
        count += 1
    return corners[:count]


@compiled
def cheapest_splits(
    first: Ints,
    second: Ints,
    first_hull: Floats,
    second_hull: Floats,
    start: Ints,
    margin: float,
    low: int,
    high: int,
    merged: Ints,
) -> None:
    """Fill ``merged[r]``, the least of ``first[r - k] + second[k]`` over k, for low <= r < high.

    From ``k = start[r]`` it looks both ways until the sum of the convex minorants is more than
    `margin` above the best so far; see `min_plus` for the proof.
    """
    for r in range(low, high):
        least, most = max(0, r - len(first) + 1), min(len(second) - 1, r)
        k = min(max(start[r], least), most)
        best = first[r - k] + second[k]
        for q in range(k + 1, most + 1):
            if first_hull[r - q] + second_hull[q] > best + margin:
                break
            best = min(best, first[r - q] + second[q])
        for q in range(k - 1, least - 1, -1):
            if first_hull[r - q] + second_hull[q] > best + margin:
                break
            best = min(best, first[r - q] + second[q])
        merged[r] = best
