"""The expert caches of all layers (CPU-GPU collaborative III-B)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

NEVER = -1


class Lrus:
    """Least recently used, with group access: all experts of an access are looked up together.

    They are looked up against the content that the access before left; then all of them become
    most recent, in the listed order, so that too small a cache keeps the last ones listed.

    Parameters
    ----------
    ways
        How many experts each layer's cache holds; 0 for none.
    experts
        Experts of a layer.

    Attributes
    ----------
    there
        Whether a layer has a cache, shape (layers, 1).
    """

    def __init__(self, ways: Sequence[int], experts: int) -> None:
        self.there = np.array(ways)[:, None] > 0
        self._last = np.full((len(ways), experts), NEVER, dtype=np.int64)  # when used; what it has
        self._now = 0
        # Where, in the rising order of last uses, the oldest one stands that is kept.
        self._oldest = np.maximum(experts - np.array(ways)[:, None], 0)
        self._full = self._oldest > 0

    def access(self, asked: NDArray[np.bool_], order: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return the hits among the experts asked for, and remember these; (layers, experts).

        Parameters
        ----------
        asked
            Of layers that have a cache.
        order
            The order in which they are listed, different for each one of a layer.
        """
        hits: NDArray[np.bool_] = asked & (self._last != NEVER)
        self._last[asked] = self._now + order[asked]
        self._now = int(self._last.max()) + 1
        oldest = np.take_along_axis(
            np.sort(self._last, axis=1), np.minimum(self._oldest, self._last.shape[1] - 1), axis=1
        )
        self._last[self._full & (self._last < oldest)] = NEVER
        return hits
