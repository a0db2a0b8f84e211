"""The 95 % interval of a median or a mean, by drawing independent samples again."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

LEAST_CLUSTERS = 3
"""There is no interval for fewer independent samples, such as traces, or cells of laws."""

DRAWS, TAIL = 1000, 25
"""Of a bootstrap, and how many of them lie outside its interval on either side: 95 %."""


def interval(
    values: Sequence[float],
    clusters: Sequence[str] | None = None,
    of: Literal["median", "mean"] = "median",
) -> tuple[float, float] | None:
    """Return the 95 % interval of the median or the mean: clusters are drawn with replacement.

    None below `LEAST_CLUSTERS` clusters. The same values give the same interval everywhere.

    Parameters
    ----------
    values
        Those of one cluster depend on each other.
    clusters
        Of each value; None: each value is one.
    of
        What the interval holds.
    """
    named = [f"{row:09}" for row in range(len(values))] if clusters is None else clusters
    names = {name: number for number, name in enumerate(sorted(set(named)))}
    if len(names) < LEAST_CLUSTERS:
        return None
    order = np.argsort(np.array(values), kind="stable")
    ranked = np.array(values, dtype=np.float64)[order]
    owner = np.array([names[cluster] for cluster in named])[order]
    drawn = _draws(len(names))[:, owner]
    if of == "mean":
        found = np.sort(drawn @ ranked / drawn.sum(axis=1))
        return float(found[TAIL]), float(found[-TAIL - 1])
    reached = np.cumsum(drawn, axis=1)
    total = reached[:, -1:]
    low, high = (np.argmax(reached >= half, axis=1) for half in ((total + 1) // 2, total // 2 + 1))
    medians = np.sort((ranked[low] + ranked[high]) / 2)
    return float(medians[TAIL]), float(medians[-TAIL - 1])


@lru_cache(maxsize=32)
def _draws(clusters: int) -> NDArray[np.int64]:
    """Return how often each cluster is in each draw: the same for all groups of so many."""
    picks = np.random.default_rng(0).integers(clusters, size=(DRAWS, clusters))
    return np.stack([np.bincount(row, minlength=clusters) for row in picks])
