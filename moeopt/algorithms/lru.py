"""Caches that keep what was used last, looked up by groups.

The keys of an access are looked up together against what the access before left; then all of them
become most recent, in the listed order, and the least recent ones go. So too small a cache keeps
the last ones listed.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class LruCache:
    """One cache, empty at first.

    Parameters
    ----------
    ways
        How many keys it holds, 0 for none.
    """

    def __init__(self, ways: int) -> None:
        self.ways = ways
        self._used: dict[int, None] = {}

    def access(self, keys: Sequence[int]) -> list[bool]:
        """Return which of some different keys are there, and let all of them in."""
        used = self._used
        hits = [key in used for key in keys]
        for key in keys:
            used.pop(key, None)
            used[key] = None
        while len(used) > self.ways:
            del used[next(iter(used))]
        return hits

    def content(self) -> list[int]:
        """Return the keys that are there, the least recent first."""
        return list(self._used)


CHUNK = 2**20
"""Comparisons that are made at a time: what they need stays in the processor's cache."""


def stack_distances(ids: NDArray[np.int32], experts: int) -> NDArray[np.int32]:
    """Return how many other experts were used more recently, for every access of one layer.

    One pass that tells hits at every capacity (Mattson et al. 1970): a cache of w experts holds the
    first w of the order of recency, whatever w. So an access hits iff its distance is below w.

    Parameters
    ----------
    ids
        Shape (tokens, k), -1 for no expert.
    experts
        Experts of the layer.

    Returns
    -------
    Array
        Shape (tokens, k): 0 for the most recent expert before this token, `experts` for one that
        was never used. Where there is no expert the value means nothing.
    """
    tokens, top_k = ids.shape
    kind = np.int32 if tokens * top_k < 2**31 else np.int64
    distances = np.empty((tokens, top_k), dtype=np.int32)
    carried = np.full(experts, -1, dtype=kind)
    size = max(1, CHUNK // (top_k * experts))
    for begin in range(0, tokens, size):
        part = ids[begin : begin + size]
        last = np.full((len(part) + 1, experts), -1, dtype=kind)
        last[0] = carried
        row, column = np.nonzero(part >= 0)
        last[row + 1, part[row, column]] = (begin + row) * top_k + column
        np.maximum.accumulate(last, axis=0, out=last)
        before = last[:-1]
        for slot in range(top_k):
            expert = np.maximum(part[:, slot], 0)
            own = before[np.arange(len(part)), expert]
            newer = np.count_nonzero(before > own[:, None], axis=1)
            distances[begin : begin + size, slot] = np.where(own < 0, experts, newer)
        carried = last[-1]
    return distances
