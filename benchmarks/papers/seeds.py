"""Figures that hang on drawn loads: the mean over several seeds, with its 95 % interval.

What is measured at each seed counts as one observation, drawn independently of the others; the
interval is Student's t for their mean.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from benchmarks.papers.published import Interval

SEEDS = range(6)
"""At least two, or there is no interval."""

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Drawn:
    """The values of a figure over some seeds.

    Attributes
    ----------
    values, intervals
        Mean over the seeds and its interval, for each value.
    seeds
        How many.
    """

    values: tuple[float, ...]
    intervals: tuple[Interval, ...]
    seeds: int

    def text(self, place: int = 0) -> str:
        """Return a value with its interval, such as "1.10 (1.06-1.14)"."""
        there = self.intervals[place]
        return f"{self.values[place]:.2f} ({there.low:.2f}-{there.high:.2f})"


def over_seeds(measure: Callable[[int], Sequence[float]]) -> Drawn:
    """Return mean and interval of what is measured at each of `SEEDS`.

    Parameters
    ----------
    measure
        Takes a seed and returns the values, as many at each seed.
    """
    rows = np.array([measure(seed) for seed in SEEDS], dtype=np.float64)
    count = len(rows)
    mean = rows.mean(axis=0)
    quantile = float(stdtrit(count - 1, (1 + CONFIDENCE) / 2))
    half = quantile * rows.std(axis=0, ddof=1) / np.sqrt(count)
    ends = zip((mean - half).tolist(), (mean + half).tolist(), strict=True)
    return Drawn(tuple(mean.tolist()), tuple(Interval(*pair) for pair in ends), count)
