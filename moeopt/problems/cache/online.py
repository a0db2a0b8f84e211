"""The expert caches of a runtime: one group access per layer and token."""

import threading

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.algorithms.lru import LruCache
from moeopt.core.arrays import integers
from moeopt.core.errors import InputError

from .instance import MAX_EXPERTS

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


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
        self._caches = [LruCache(count) for count in self.ways.tolist()]
        self._lock = threading.Lock()

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
        ids: Ints = np.asarray(experts)
        if ids.dtype != np.int64 or ids.ndim != 1:
            ids = integers("experts", experts, (None,), axes="(used,)")
        asked = ids.tolist()
        if asked and not 0 <= min(asked) <= max(asked) < self.experts:
            integers("experts", ids, (None,), axes="(used,)", most=self.experts - 1)
        if len(set(asked)) < len(asked):
            raise InputError(f"experts: must differ, not {asked}")
        if not 0 <= layer < len(self.ways):
            raise InputError(f"layer: must be below {len(self.ways)}, not {layer}")
        if out is None:
            out = np.empty(len(asked), np.bool_)
        elif out.dtype != np.bool_ or out.shape != (len(asked),):
            raise InputError(f"out: must be flags of shape ({len(asked)},)")
        with self._lock:
            out[:] = self._caches[layer].access(asked)
        return out

    def content(self, layer: int) -> Ints:
        """Return the experts in a layer's cache, the least recent first."""
        with self._lock:
            return np.array(self._caches[layer].content(), dtype=np.int64)
