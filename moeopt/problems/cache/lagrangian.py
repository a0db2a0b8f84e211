"""The Lagrangian relaxation of the two sides: a weight between computing and copying.

The objective is the later of two sides, T >= A and T >= G, with A the time of the layers and G that
of the fetches. Relaxed with multipliers, which must sum to 1 since T is free, they leave a weighted
sum, separable by layer, under the limit on the slots: a multiple-choice knapsack problem, solved by
dynamic programming over layers and slots (`completions`).

Proof. For any integers 0 <= p <= q, max(A, G) >= (p A + (q - p) G) / q, which is a sum over the
layers; `completions` minimises it over all ways that fit into the slots. As a function of p the
minimum is concave, and A - G at a plan that attains it is a supergradient: so bisection by the
sign of A - G finds the best p.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled

from .curves import Ints
from .sides import Sides

ENTRIES = 6e8
"""Sums of a table that a core makes in a second."""


@dataclass(frozen=True)
class DualValue:
    """The dual function at one weight.

    Attributes
    ----------
    p
        The weight of computing, of `Sides.scale`.
    bound_ns
        The lower bound.
    ways
        A plan that attains the minimum, shape (layers,).
    table
        What `completions` returns, in ns times `Sides.scale`.
    """

    p: int
    bound_ns: int
    ways: Ints
    table: Ints


def dual_function(sides: Sides, p: int) -> DualValue:
    """Return the bound of one weight."""
    cost = sides.weighted(p)
    spend(cost.size * (sides.slots + 1) / ENTRIES)
    table = completions(cost, sides.slots)
    bound_ns = -(-int(table[0, -1]) // sides.scale)
    return DualValue(p, bound_ns, cheapest(cost, table), table)


def bisect(sides: Sides) -> Iterator[DualValue]:
    """Yield the dual values of weights that close in on the best one."""
    low, high = 0, sides.scale
    rows = np.arange(len(sides.compute_ns))
    while low <= high:
        found = dual_function(sides, (low + high) // 2)
        yield found
        compute_ns = sides.compute_ns[rows, found.ways].sum()
        copy_ns = sides.copy_ns[rows, found.ways].sum()
        if compute_ns == copy_ns:
            return
        if compute_ns > copy_ns:
            low = found.p + 1
        else:
            high = found.p - 1


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
