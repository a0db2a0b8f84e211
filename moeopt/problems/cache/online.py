"""The expert caches of a runtime: one group access per layer and token, compiled."""

import threading

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.arrays import integers
from moeopt.core.compiled import compile_all, compiled
from moeopt.core.errors import InputError

from .instance import MAX_EXPERTS

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

ABSENT = -1
"""The last use of an expert that is not in the cache."""

OUT_OF_RANGE, TWICE = -1, -2


class Lru:
    """Least recently used caches of all layers, with group access (CPU-GPU collaborative III-B).

    All experts of an access are looked up against what the access before left; then all of them
    become most recent, in the listed order, so that too small a cache keeps the last ones listed.
    The same hits as `moeopt.solve` counts for the problem's solutions. Several threads may ask at
    once; accesses then come one after the other.

    Parameters
    ----------
    ways
        How many experts each layer's cache holds, shape (layers,), 0 for none: a solution's `ways`.
    experts
        Experts of a layer.

    Raises
    ------
    InputError
        If a number is none or out of range.

    Examples
    --------
    >>> from moeopt import cache
    >>> caches = cache.Lru(ways=[2, 1], experts=8)
    >>> [caches.access(0, token).tolist() for token in ([3, 5], [5, 6], [3, 6])]
    [[False, False], [True, False], [False, True]]
    """

    def __init__(self, ways: ArrayLike, experts: int) -> None:
        size = int(integers("experts", experts, (), least=1, most=MAX_EXPERTS))
        self.ways = integers("ways", ways, (None,), axes="(layers,)", most=size)
        self.experts = size
        self._last = np.full((len(self.ways), size), ABSENT, np.int64)
        self._lock = threading.Lock()
        compile_all()
        look_up(np.empty(0, np.int64), 0, np.empty(0, np.int64), np.empty(0, np.bool_))

    def access(self, layer: int, experts: ArrayLike, *, out: Flags | None = None) -> Flags:
        """Look up a token's experts, and remember them.

        Parameters
        ----------
        layer
            The layer, from 0.
        experts
            Different experts, integers of shape (used,).
        out
            Flags of shape (used,) to write the hits to. Default: new ones.

        Returns
        -------
        hits
            Whether each of them was there, bool, shape (used,).

        Raises
        ------
        InputError
            If there is no such layer or expert, or one stands twice; nothing is remembered then.
        """
        asked: Ints = np.asarray(experts)
        if asked.dtype != np.int64 or asked.ndim != 1 or not asked.flags.carray:
            asked = integers("experts", experts, (None,), axes="(used,)").copy()
        if not 0 <= layer < len(self.ways):
            raise InputError(f"layer: must be below {len(self.ways)}, not {layer}")
        if out is None:
            out = np.empty(len(asked), np.bool_)
        elif out.dtype != np.bool_ or out.shape != asked.shape:
            raise InputError(f"out: must be flags of shape ({len(asked)},)")
        hits = out if out.flags.carray else out.copy()
        with self._lock:
            wrong = look_up(self._last[layer], int(self.ways[layer]), asked, hits)
        if wrong == OUT_OF_RANGE:
            integers("experts", asked, (None,), axes="(used,)", most=self.experts - 1)
        if wrong == TWICE:
            raise InputError(f"experts: must differ, not {asked.tolist()}")
        if hits is not out:
            out[:] = hits
        return out

    def content(self, layer: int) -> Ints:
        """Return the experts in a layer's cache, the least recent first."""
        with self._lock:
            last = self._last[layer]
            there = np.flatnonzero(last != ABSENT)
            return there[np.argsort(last[there])]


@compiled
def look_up(last: Ints, ways: int, asked: Ints, hits: Flags) -> int:
    """Tell which experts are in a cache, then let them in; return 0, or why nothing was done.

    Parameters
    ----------
    last
        When each expert was used last, counted in accesses of experts, shape (experts,); `ABSENT`
        for those that are not there.
    ways, asked, hits
        The room, the experts asked for, and where to write whether they were there.
    """
    size = len(last)
    for n in range(len(asked)):
        if asked[n] < 0 or asked[n] >= size:
            return OUT_OF_RANGE
        for k in range(n):
            if asked[k] == asked[n]:
                return TWICE
    count, newest = 0, 0
    for i in range(size):
        if last[i] != ABSENT:
            count += 1
            newest = max(newest, last[i] + 1)
    for n in range(len(asked)):
        hits[n] = last[asked[n]] != ABSENT
    for n in range(len(asked)):
        count += last[asked[n]] == ABSENT
        last[asked[n]] = newest + n
    while count > ways:
        oldest = -1
        for i in range(size):
            if last[i] != ABSENT and (oldest < 0 or last[i] < last[oldest]):
                oldest = i
        last[oldest] = ABSENT
        count -= 1
    return 0


def compile_kernels() -> None:
    """Compile the kernels of the cache by one access."""
    Lru([2], 4).access(0, [1])
