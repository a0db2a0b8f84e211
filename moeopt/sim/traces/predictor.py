"""TriMoE's expert load predictor: an exponential moving average of loads (Eq. 8)."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.trace import Ids

Loads = NDArray[np.float64]

ALPHA = 0.3
"""Weight of the newest step (TriMoE 4.3, "empirically tuned")."""

HOT, WARM = 0.05, 0.25
"""Shares of the experts that count as hot, and as warm after them; the rest is cold.

TriMoE states no cut. Its 3.1 has over 70 % of the experts cold; the hot share is assumed.
"""


def predict_run(counts: ArrayLike, alpha: float = ALPHA) -> Loads:
    """Return the prediction for every step of a run but the first, from the steps before it.

    Parameters
    ----------
    counts
        Real loads in tokens, shape (steps, layers, experts), at least two steps.
    alpha
        Weight of the newest step, above 0 and at most 1.

    Returns
    -------
    NDArray
        Shape (steps - 1, layers, experts); entry t is what was expected of step t + 1.

    Raises
    ------
    InputError
        If the shape or `alpha` is out of range.

    Notes
    -----
    EMA(t) = alpha x F(t) + (1 - alpha) x EMA(t - 1), TriMoE Eq. 8. The paper gives no EMA(0): the
    first step's loads are taken, so that nothing decays from an invented start.
    """
    loads: Ids = np.asarray(counts, dtype=np.float64)
    if loads.ndim != 3 or len(loads) < 2 or 0 in loads.shape:
        shape = f"(at least 2 steps, layers, experts), not {loads.shape}"
        raise InputError(f"counts: must have shape {shape}")
    if not np.isfinite(loads).all() or loads.min() < 0:
        raise InputError("counts: must be finite and not negative")
    if not 0 < alpha <= 1:
        raise InputError(f"alpha: must be above 0 and at most 1, not {alpha:g}")
    predicted = loads[:-1].copy()
    for step in range(1, len(predicted)):
        predicted[step] = alpha * loads[step] + (1 - alpha) * predicted[step - 1]
    return predicted


def load_classes(loads: ArrayLike, hot: float = HOT, warm: float = WARM) -> NDArray[np.int64]:
    """Return each expert's class among those of its layer: 0 hot, 1 warm, 2 cold.

    Parameters
    ----------
    loads
        Loads, experts along the last axis.
    hot, warm
        Shares of the experts, rounded to whole experts; together at most 1.

    Notes
    -----
    By rank: of experts with equal load the one with the lower id counts as hotter.
    """
    if not (hot >= 0 and warm >= 0 and hot + warm <= 1):
        raise InputError(f"hot, warm: must be shares that add up to at most 1, not {hot}, {warm}")
    values = np.asarray(loads, dtype=np.float64)
    order = np.argsort(-values, axis=-1, kind="stable")
    experts = values.shape[-1]
    limits = np.array([round(hot * experts), round((hot + warm) * experts)])
    by_rank = np.searchsorted(limits, np.arange(experts), side="right")
    classes = np.empty(values.shape, dtype=np.int64)
    np.put_along_axis(classes, order, np.broadcast_to(by_rank, values.shape), axis=-1)
    return classes
