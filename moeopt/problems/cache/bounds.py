"""Lower bounds on the trace's time that need no solver, each with its proof.

The Lagrangian relaxation of the two sides: a weight between computing and copying.

The objective is the later of two sides, T >= A and T >= G, with A the time of the layers and G that
of the fetches. Relaxed with multipliers, which must sum to 1 since T is free, they leave a weighted
sum, separable by layer, under the limit on the slots: a multiple-choice knapsack (`cheapest`).

Proof. For any integers 0 <= p <= q, max(A, G) >= (p A + (q - p) G) / q, which is a sum over the
layers; `cheapest` minimises it over all ways that fit into the slots. As a function of p the
minimum is concave, and A - G at a plan that attains it is a supergradient: so bisection by the
sign of A - G finds the best p.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

import numpy as np

from moeopt.algorithms.knapsack import FAR, Knapsack, capacity_price, priced
from moeopt.algorithms.lagrangian import Tangent, bisection

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


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: the costs' greatest common divisor."""
    return gcd(*(getattr(instance, name) for name in COSTS)) or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the best weight of computing, and price of the slots.

    Proof. For weights p and q - p as above q times the objective of ways w is at least
    sum_l c_l(w_l) with c = p A + (q - p) G, which `priced` bounds for any price of a slot. Any
    weight gives a valid bound; the best is found by bisection.
    """
    sides = sides_of(instance)

    def dual(p: int) -> Tangent[int]:
        price = slot_price(sides, p)
        return Tangent(p, priced_ns(sides, p, price), _excess(sides, p, price), price)

    return max(0, *(found.value for found in bisection(dual, sides.scale)))


def slot_price(sides: Sides, p: int) -> int:
    """Return a price of a slot of about the best bound at a weight."""
    cost = sides.weighted(p)
    return capacity_price(np.arange(cost.shape[1]), cost, sides.slots)


def priced_ns(sides: Sides, p: int, price: int) -> int:
    """Return the bound of one weight and one price, in integers."""
    cost = sides.weighted(p)
    return -(-priced(np.arange(cost.shape[1]), cost, sides.slots, price) // sides.scale)


def _excess(sides: Sides, p: int, price: int) -> int:
    """Return what computing exceeds copying by in the cheapest ways at a price."""
    cost = sides.weighted(p)
    ways = (cost + price * np.arange(cost.shape[1])).argmin(axis=1)
    rows = np.arange(len(cost))
    return int((sides.compute_ns[rows, ways] - sides.copy_ns[rows, ways]).sum())


@dataclass(frozen=True)
class DualValue:
    """The dual function at one weight.

    Attributes
    ----------
    p
        The weight of computing, of `Sides.scale`.
    bound_ns
        The lower bound.
    price
        Of a slot, about the best.
    ways
        A plan that attains the minimum, shape (layers,).
    """

    p: int
    bound_ns: int
    price: int
    ways: Ints


def dual_function(sides: Sides, p: int) -> DualValue:
    """Return the bound of one weight."""
    total, ways = cheapest(sides.weighted(p), sides.slots)
    return DualValue(p, -(-total // sides.scale), slot_price(sides, p), ways)


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


def cheapest(cost: Ints, slots: int) -> tuple[int, Ints]:
    """Return the ways that cost least, and what they cost.

    Parameters
    ----------
    cost
        Shape (layers, counts): of a layer with 0, 1, ... ways.
    slots
        Most ways to give.
    """
    fewer = np.minimum.accumulate(cost, axis=1)[:, :-1]  # as cheap with fewer ways: of no use
    useful = np.column_stack([cost[:, :1], np.where(cost[:, 1:] < fewer, cost[:, 1:], FAR)])
    table = Knapsack(np.arange(cost.shape[1]), useful[::-1], slots)
    best = int(table.costs_at.argmin())
    return int(table.costs_at[best]), table.choice(best)[::-1]
