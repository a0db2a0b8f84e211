"""How much the experts of one layer tell about those of the next."""

from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.statistics.routing import Floats, Routing

Pairs = Literal["any", "main"]


def affinity(routing: Routing, pairs: Pairs = "any") -> Floats:
    """Return the normalised mutual information between layers l and l + 1, shape (layers - 1,).

    With the joint shares P(a, b) of a token's pairs of an expert a at layer l and an expert b at
    layer l + 1, ``I = sum P(a, b) ln(P(a, b) / (P(a) P(b)))`` over the entropy of b: 0 if the
    layers know nothing of each other, 1 if a decides b. Few tokens make any two layers look
    related, so the same figure with layer l + 1 moved on by half the trace is subtracted; that
    keeps both popularities and breaks the pairs. The result may therefore be slightly negative.
    (The "consecutive layers pattern" of CPU-GPU collaborative II-B, as one number.)

    Parameters
    ----------
    routing
        The trace.
    pairs
        "any": all k x k pairs of a token, so that even a decided next layer stays below 1. "main":
        the experts of the largest weight only.

    Raises
    ------
    InputError
        If `pairs` is neither.
    """
    if pairs not in ("any", "main"):
        raise InputError(f"pairs: must be any or main, not {pairs}")
    ids = routing.ids if pairs == "any" else routing.main[..., None]
    half = routing.tokens // 2
    found = []
    for here, there in pairwise(ids):
        real = _information(here, there, routing.experts)
        chance = _information(here, np.roll(there, half, axis=0), routing.experts)
        found.append(real - chance)
    return np.array(found, dtype=np.float64)


def _information(left: NDArray[np.int32], right: NDArray[np.int32], experts: int) -> float:
    """Return I(a; b) / H(b) over all pairs of a token, (tokens, k) each; 0 where H(b) is 0."""
    joint = np.zeros(experts * experts, dtype=np.int64)
    for a in left.T:
        for b in right.T:
            both = (a >= 0) & (b >= 0)
            cell = a[both].astype(np.int64) * experts + b[both]
            joint += np.bincount(cell, minlength=experts * experts)
    if not joint.sum():
        return float("nan")
    shares = joint.reshape(experts, experts) / joint.sum()
    entropy = _entropy(shares.sum(axis=0))
    told = _entropy(shares.sum(axis=1)) + entropy - _entropy(shares.ravel())
    return told / entropy if entropy else 0.0


def _entropy(shares: Floats) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum())
