"""Traces that several generators' tests are made from."""

import numpy as np

from tests.rooms.sim import Trace


def skewed_trace(tokens: int = 400, layers: int = 3, seed: int = 0) -> Trace:
    """Return a trace of 64 experts, six a token, with popular and unpopular ones."""
    rng = np.random.default_rng(seed)
    liking = rng.normal(scale=2, size=(layers, 64))
    scores = liking + rng.gumbel(size=(tokens, layers, 64))
    return Trace("a skewed trace", np.argsort(-scores, axis=2)[:, :, :6].astype(np.uint8))
