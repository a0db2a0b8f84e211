"""Lower bounds on the trace's time that need no solver, each with its proof.

The Lagrangian relaxation of the two sides: a weight between computing and copying.

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
from math import gcd

import numpy as np

from moeopt.core.clock import spend

from .instance import COSTS, Instance, Ints

LARGEST = 2**61


@dataclass(frozen=True)
class Sides:
    """What each layer costs at each number of ways, in ns: shape (layers, counts).

    Attributes
    ----------
    compute_ns, copy_ns
        Time of the layers; time of the fetches.
    slots
        Most ways in all, never more than there are experts.
    """

    compute_ns: Ints
    copy_ns: Ints
    slots: int

    @property
    def scale(self) -> int:
        """The power of two up to 2**20 that weights are counted in: sums stay in 64 bits."""
        longest = int(self.compute_ns.max(axis=1).sum() + self.copy_ns.max(axis=1).sum())
        return 1 << max(0, min(20, (LARGEST // max(1, longest)).bit_length() - 1))

    def weighted(self, p: int) -> Ints:
        """Return p times the one plus scale - p times the other."""
        return p * self.compute_ns + (self.scale - p) * self.copy_ns

    def trace_ns(self, ways: Ints) -> int:
        """Return the objective of a plan."""
        rows = np.arange(len(ways))
        return int(max(self.compute_ns[rows, ways].sum(), self.copy_ns[rows, ways].sum()))


def sides_of(instance: Instance) -> Sides:
    """Return computing and copying of every layer at every number of ways."""
    curves = instance.curves
    slots = min(instance.slots, instance.layers * instance.experts)
    return Sides(curves.layer_ns, curves.fetches * instance.fetch_ns, slots)


ROUNDS = 24
"""Halvings of the weight and of the multiplier."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: the costs' greatest common divisor."""
    return gcd(*(getattr(instance, name) for name in COSTS)) or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the best weight of computing, and multiplier of the slots.

    Proof. For weights p and q - p as above and any multiplier m >= 0 per slot, q times
    the objective of ways w is at least sum_l c_l(w_l) with c = p A + (q - p) G. Since
    sum_l w_l <= S, that is at least sum_l (c_l(w_l) + m w_l) - m S, and each layer's term at least
    its minimum over w_l. Any weight and multiplier give a valid bound; both are found by bisection
    in floats, and the bound is computed from them in integers.
    """
    sides = sides_of(instance)
    low, high, best = 0, sides.scale, 0
    for _ in range(ROUNDS):
        p = (low + high) // 2
        multiplier, slope = _best_multiplier(sides, p)
        best = max(best, dual_ns(sides, p, multiplier))
        if low >= high:
            break
        low, high = (p + 1, high) if slope > 0 else (low, p)
    return best


def dual_ns(sides: Sides, p: int, multiplier: int) -> int:
    """Return the bound of one weight and one multiplier, in integers."""
    ways = np.arange(sides.compute_ns.shape[1])
    least = (sides.weighted(p) + multiplier * ways).min(axis=1)
    total: int = sum(least.tolist()) - multiplier * sides.slots
    return -(-total // sides.scale)


def _best_multiplier(sides: Sides, p: int) -> tuple[int, float]:
    """Return a multiplier of about the best bound, and what computing exceeds copying by there."""
    cost = sides.weighted(p)
    rows, ways = np.arange(len(cost)), np.arange(cost.shape[1])
    low, high = 0, int((cost.max(axis=1) - cost.min(axis=1)).max())
    while low < high:
        multiplier = (low + high) // 2
        used = int((cost + multiplier * ways).argmin(axis=1).sum())
        low, high = (multiplier + 1, high) if used > sides.slots else (low, multiplier)
    chosen = (cost + low * ways).argmin(axis=1)
    excess = sides.compute_ns[rows, chosen] - sides.copy_ns[rows, chosen]
    return low, float(excess.sum())


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
        here, after = table[layer], table[layer + 1]
        here[:] = cost[layer, 0] + after
        for ways in range(1, min(counts - 1, slots) + 1):
            np.minimum(here[ways:], cost[layer, ways] + after[:-ways], out=here[ways:])
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
