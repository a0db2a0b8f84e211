"""What an expert costs at token counts that an instance does not have, from those that it has.

An instance states costs only at the counts of its windows. Between these the cost is interpolated
linearly, beyond them it goes on with the slope that it had over the nearest factor of two, as
rooflines and measured tables are flat first and proportional later. So the forecast works on any
instance file, whatever machine it comes from. At the instance's own counts its costs are exact.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.rounding import rounded

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class CostCurve:
    """A cost in ns by tokens, for all experts of a layer.

    Attributes
    ----------
    tokens, ns
        The points, by rising tokens, shape (points,).
    factor
        Of each expert, shape (experts,): 1 where the cost depends on tokens alone.
    quantum_ns
        Costs are whole multiples of this.
    """

    tokens: Floats
    ns: Floats
    factor: Floats
    quantum_ns: int

    @classmethod
    def of(cls, tokens: ArrayLike, ns: ArrayLike, quantum_ns: int | None = None) -> "CostCurve":
        """Return the curve through what an instance states.

        Where experts with equally many tokens have different costs, the curve is their mean, and
        each expert's factor the ratio of its own costs to it.

        Parameters
        ----------
        tokens, ns
            Shape (windows, experts); entries without tokens mean nothing.
        """
        counts, costs = np.asarray(tokens, np.int64), np.asarray(ns, np.float64)
        active = counts > 0
        points, which, times = np.unique(counts[active], return_inverse=True, return_counts=True)
        mean = np.bincount(which, costs[active]) / times
        factor = np.ones(counts.shape[1])
        if np.any(mean[which] != costs[active]):
            expert = np.nonzero(active)[1]
            own = np.bincount(expert, costs[active], len(factor))
            of_curve = np.bincount(expert, mean[which], len(factor))
            factor = np.divide(own, of_curve, out=factor, where=of_curve > 0)
        return cls(points.astype(np.float64), mean, factor, quantum_ns or 1)

    def __call__(self, tokens: ArrayLike) -> Ints:
        """Return costs in ns, shape (..., experts) as `tokens`; 0 where there are none."""
        counts = np.asarray(tokens, np.float64)
        x, y = self.tokens, self.ns
        costs = np.interp(counts, x, y)
        rising = np.interp(x[-1] / 2, x, y), np.interp(2 * x[0], x, y)
        above = max(0.0, y[-1] - rising[0]) / (x[-1] - max(x[-1] / 2, x[0])) if len(x) > 1 else 0.0
        below = max(0.0, rising[1] - y[0]) / (min(2 * x[0], x[-1]) - x[0]) if len(x) > 1 else 0.0
        costs += above * np.maximum(counts - x[-1], 0) - below * np.maximum(x[0] - counts, 0)
        quanta = np.rint(rounded(np.maximum(costs, 0) * self.factor / self.quantum_ns))
        return np.where(counts > 0, quanta.astype(np.int64) * self.quantum_ns, 0)
