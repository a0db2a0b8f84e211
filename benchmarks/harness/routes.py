"""What a layer's experts will get from tokens whose routes through the layers before are known.

Before a layer runs, the layers before it have routed the very same tokens, and experts of
neighbouring layers go together. How often a token takes each expert is predicted by ridge
regression on which experts it took before, fitted to the tokens of the windows seen; a window's
loads are the sums over its tokens. What is left to chance is the dispersion that this leaves in
windows held out of the fit, one block after the other.

TriMoE's predictor uses none of this: it averages each expert's own past loads (4.3, Eq. 8,
`moeopt.sim.traces.predictor`). That experts of successive layers depend on each other is what Yao
et al. place them by (ExFlow, arXiv 2401.08383).
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.rooms.core import rounded
from benchmarks.rooms.sim import PRIOR, Forecast
from moeopt import InputError

Floats = NDArray[np.float64]

RIDGE = 30.0
"""Tokens' worth of doubt about each expert before."""

BLOCKS = 4
"""The windows seen are held out in so many turns."""

LEAST_DISPERSION = 0.1


def forecast(seen: ArrayLike, now: ArrayLike, experts: int, batch: int) -> Forecast:
    """Return the forecast of a window's loads in the last of some layers.

    Parameters
    ----------
    seen
        Experts that earlier tokens took, shape (tokens, layers, experts per token), the layer of
        interest last; whole windows.
    now
        The same of the window's own tokens in the layers before, shape
        (tokens, layers - 1, experts per token).
    experts, batch
        Of a layer, and tokens in a window.

    Raises
    ------
    InputError
        If the shapes do not fit, or there are fewer than two windows.
    """
    before, own = np.asarray(seen), np.asarray(now)
    if before.ndim != 3 or own.ndim != 3 or before.shape[1] != own.shape[1] + 1:
        raise InputError("now: must have a layer less than seen, shape (tokens, layers, experts)")
    windows = len(before) // batch
    if windows < 2 or len(before) % batch:
        raise InputError(f"seen: must be two or more windows of {batch} tokens, not {len(before)}")
    inputs = np.concatenate([_taken(ids, experts) for ids in before[:, :-1].swapaxes(0, 1)], axis=1)
    taken = _taken(before[:, -1], experts)
    coming = np.concatenate([_taken(ids, experts) for ids in own.swapaxes(0, 1)], axis=1)
    mean = rounded(_loads(inputs, taken, coming))
    loads = taken.reshape(windows, batch, experts).sum(axis=1)
    wrong, expected = 0.0, 0.0
    window_of = np.arange(len(before)) // batch
    for block in np.array_split(np.arange(windows), min(BLOCKS, windows)):
        held = np.isin(window_of, block)
        for window in block.tolist():
            guess = _loads(inputs[~held], taken[~held], inputs[window_of == window])
            wrong += float(((loads[window] - guess) ** 2 / guess).sum())
            expected += experts
    variance = rounded(max(wrong / expected, LEAST_DISPERSION) * mean)
    totals = np.array([round(mean.sum())], dtype=np.int64)
    return Forecast(mean, variance, totals, PRIOR)


def _taken(ids: NDArray[np.int64], experts: int) -> Floats:
    """Return whether each token took each expert, shape (tokens, experts)."""
    found = np.zeros((len(ids), experts))
    np.put_along_axis(found, ids.astype(np.int64), 1.0, axis=1)
    return found


def _loads(inputs: Floats, taken: Floats, now: Floats) -> Floats:
    """Return the loads that tokens are expected to bring, shape (experts,)."""
    middle, usual = inputs.mean(axis=0), taken.mean(axis=0)
    centred = inputs - middle
    doubt = RIDGE * np.eye(inputs.shape[1])
    weights = np.linalg.solve(centred.T @ centred + doubt, centred.T @ (taken - usual))
    shares = np.maximum(usual + (now - middle) @ weights, 1e-3)
    shares *= taken.sum(axis=1).mean() / shares.sum(axis=1, keepdims=True)
    return np.asarray(shares.sum(axis=0))
