"""The order in which each rule would put experts on the GPU: numbers layer x experts + expert.

Ties, where a rule does not say: the lower layer, then the lower expert.
"""

import numpy as np
from numpy.typing import NDArray

from .bounds import summed
from .instance import Instance
from .layer_steps import Ints

Scores = NDArray[np.int64] | NDArray[np.float64]

ALPHA = 0.5
"""Weight of counts against scores in `importance`, as in `moeopt.sim.importance`."""

RANDOM_SEED = 42
"""That of the ktransformers runtime."""


def frequency(instance: Instance) -> Ints:
    """Rank all experts of all layers by their tokens, as the ktransformers runtime does.

    The runtime takes the first K over the flattened (layer, expert) table of recorded counts, not
    a quota per layer; its ties are undefined.
    """
    return _descending(instance.tokens)


def per_layer_frequency(instance: Instance) -> Ints:
    """Every layer's most used expert first, then every layer's second, and so on."""
    return _round_robin(instance.tokens)


def importance(instance: Instance) -> Ints:
    """Rank by S = a P~ + (1 - a) W~ (context-aware CXL-NDP 4.1), a = 1/2.

    Settled: the instance has token counts only, no routing scores. P is in how many steps an expert
    has tokens, W how many tokens; both are divided by their sums over the layer.
    """
    steps = np.zeros((instance.layers, instance.experts))
    for row, layer in zip(steps, instance.layer_steps, strict=True):
        np.add.at(row, layer.expert, layer.weight[layer.row])
    return _descending(ALPHA * _shares(steps) + (1 - ALPHA) * _shares(instance.tokens))


def offload_time(instance: Instance) -> Ints:
    """Rank by the offload time that an expert takes over all steps; per slot if sizes differ.

    Where the GPU is never the later side and every layer offloads something in every step, this
    order is optimal.
    """
    saved = [summed(layer, instance.experts)[1] for layer in instance.layer_steps]
    return _descending(np.array(saved) / instance.sizes)


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


def _descending(score: Scores) -> Ints:
    return np.argsort(-score.ravel(), kind="stable")


def _round_robin(score: Ints) -> Ints:
    place = np.argsort(np.argsort(-score, axis=1, kind="stable"), axis=1)
    return np.argsort(place.ravel(), kind="stable")


def _shares(counts: Scores) -> NDArray[np.float64]:
    total = counts.sum(axis=1, keepdims=True)
    shares: NDArray[np.float64] = np.divide(counts, np.maximum(total, 1))
    return shares
