"""The order in which each rule would put experts on the GPU: numbers layer x experts + expert.

Ties, where a rule does not say: the lower layer, then the lower expert.
"""

import numpy as np
from numpy.typing import NDArray

from .bounds import summed
from .instance import Instance
from .layer_steps import Ints
from .usage import Usage

Floats = NDArray[np.float64]
Scores = Ints | Floats

RANDOM_SEED = 42
"""That of the ktransformers runtime."""


def descending(score: Scores, ties: str = "first") -> Ints:
    """Rank all experts of all layers; of equals the first or the last in order comes first."""
    if ties == "last":
        return score.size - 1 - np.argsort(-score.ravel()[::-1], kind="stable")
    return np.argsort(-score.ravel(), kind="stable")


def layer_by_layer(score: Scores, ties: str = "first") -> Ints:
    """Every layer's best expert first, then every layer's second, and so on."""
    ranked = descending(score, ties)
    order = np.argsort(ranked // score.shape[1], kind="stable")
    return ranked[order].reshape(score.shape).T.ravel()


def importance(usage: Usage, alpha: float = 0.5, norm: str = "layer sum") -> Floats:
    """Return S = a P~ + (1 - a) W~ of every expert (context-aware CXL-NDP 4.1).

    Parameters
    ----------
    usage
        P is how many tokens chose an expert, W the sum of their routing scores for it. Without
        scores W is P.
    alpha
        From 0, scores only, to 1, counts only.
    norm
        "layer sum" or "layer maximum": what both are divided by.

    Returns
    -------
    Floats
        Shape (layers, experts).
    """
    scores = usage.counts if usage.scores is None else usage.scores
    return alpha * _normalized(usage.counts, norm) + (1 - alpha) * _normalized(scores, norm)


def offload_time(instance: Instance) -> Ints:
    """Rank by the offload time that an expert takes over all steps; per slot if sizes differ.

    Where the GPU is never the later side and every layer offloads something in every step, this
    order is optimal.
    """
    saved = [summed(layer, instance.experts)[1] for layer in instance.layer_steps]
    return descending(np.array(saved) / instance.sizes)


def front_loading(instance: Instance) -> Ints:
    """First layers first, by number: the ktransformers runtime's rule of this name."""
    return np.arange(instance.layers * instance.experts)


def last_first(instance: Instance) -> Ints:
    """Last layers first, by number: what `--n-cpu-moe` leaves on the GPU."""
    layers, experts = instance.layers, instance.experts
    return np.arange(layers * experts).reshape(layers, experts)[::-1].ravel()


def shuffled(instance: Instance) -> Ints:
    """Return all experts in a random order, the same one for every instance of a shape."""
    return np.random.default_rng(RANDOM_SEED).permutation(instance.layers * instance.experts)


def _normalized(used: Ints, norm: str) -> Floats:
    of_layer = used.sum if norm == "layer sum" else used.max
    total = np.asarray(of_layer(axis=1, keepdims=True))
    shares: Floats = np.divide(used, np.maximum(total, 1))
    return shares
