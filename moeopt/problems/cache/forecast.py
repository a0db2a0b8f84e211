"""Futures of a cache instance: the stretch of tokens observed, its layers partly exchanged.

What one stretch says about a single layer is partly chance. How much is told by its quarters: the
curve of what a layer costs by its ways, beside the mean over all layers, is compared between them.
In a future, a layer uses another layer's tokens as often as what sets it apart does not come back:
in the mean its curve is shrunk towards that of all layers (James and Stein, Proceedings of the
Fourth Berkeley Symposium 1, 1961). The order of tokens is kept: what is used again soon is what a
cache lives on.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.problems.cache.curves import curves_of
from moeopt.problems.cache.instance import Instance

Ints = NDArray[np.int64]

QUARTERS = 4
"""Parts of the observed stretch that are compared."""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws stretches like that of `instance`, as long as it, one after another.

    Parameters
    ----------
    instance
        The tokens seen.
    futures
        Not used: a future is as long as what was observed.
    seed
        The same seed draws the same stretches.
    """
    del futures
    alone = own_share(instance)
    own = np.arange(instance.layers)

    def drawn(number: int, stream: int) -> Instance:
        rng = np.random.default_rng([seed, stream])
        source = np.array([_sources(layer, len(own), alone, number, rng) for layer in own.tolist()])
        accesses = tuple(
            tuple(token[layer] for layer in of_future)
            for of_future in source.T.tolist()
            for token in instance.accesses
        )
        return drawn_from(instance, f"futures{number}", seed, stream, accesses=accesses)

    return drawn


def _sources(own: int, layers: int, alone: float, number: int, rng: np.random.Generator) -> Ints:
    """Return whose tokens a layer uses in each future, shape (futures,): all alike often."""
    exchanged = int((1 - alone) * number + rng.random())
    others = np.resize(rng.permutation(layers), exchanged)
    return rng.permutation(np.concatenate([others, np.full(number - exchanged, own)]))


def own_share(instance: Instance) -> float:
    """Return how much of what sets a layer's curve apart comes back: from 0 to 1.

    A quarter's reliability is the covariance of what is apart in two quarters over its variance
    in one; that of the whole follows by the formula of Spearman and Brown (British Journal of
    Psychology 3, 1910). 1 where there are too few tokens to tell, or one layer.
    """
    if len(instance.accesses) < 2 * QUARTERS or instance.layers < 2:
        return 1.0
    parts = np.array_split(np.arange(len(instance.accesses)), QUARTERS)
    curves = np.array(
        [
            curves_of(
                np.ascontiguousarray(instance.ids[:, at]), instance.experts, instance.costs
            ).layer_ns
            / len(at)
            for at in parts
        ]
    )
    apart = curves - curves.mean(axis=1, keepdims=True)
    products = np.tensordot(apart, apart, axes=([1, 2], [1, 2]))
    variance = float(np.trace(products)) / QUARTERS
    covariance = float(products.sum() - np.trace(products)) / (QUARTERS * (QUARTERS - 1))
    if not variance:
        return 1.0
    quarter = min(1.0, max(0.0, covariance / variance))
    return QUARTERS * quarter / (1 + (QUARTERS - 1) * quarter)
