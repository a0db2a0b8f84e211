"""Slots shared out over the layers at least cost, for one cost per layer and number of ways."""

import numpy as np

from moeopt.numeric.compiled import compiled

from .curves import Ints


@compiled
def completions(cost: Ints, slots: int) -> Ints:
    """Return what the layers from one on cost at least, with so many slots or fewer.

    Parameters
    ----------
    cost
        Shape (layers, counts): of a layer with 0, 1, ... ways.
    slots
        Most ways to give.

    Returns
    -------
    Ints
        Shape (layers + 1, slots + 1); the first row is about all layers, the last about none.
    """
    layers, counts = cost.shape
    table = np.zeros((layers + 1, slots + 1), dtype=np.int64)
    for layer in range(layers - 1, -1, -1):
        for free in range(slots + 1):
            best = cost[layer, 0] + table[layer + 1, free]
            for ways in range(1, min(counts - 1, free) + 1):
                best = min(best, cost[layer, ways] + table[layer + 1, free - ways])
            table[layer, free] = best
    return table


def cheapest(cost: Ints, table: Ints) -> Ints:
    """Return ways that cost what `completions` says, as few as possible in the first layers."""
    layers, counts = cost.shape
    free = table.shape[1] - 1
    ways = np.zeros(layers, dtype=np.int64)
    for layer in range(layers):
        most = min(counts, free + 1)
        left = table[layer + 1, free - np.arange(most)]
        ways[layer] = np.argmax(cost[layer, :most] + left == table[layer, free])
        free -= int(ways[layer])
    return ways
