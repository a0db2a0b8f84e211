"""The bound by a weight between computing and copying, and the plans met on the way to it.

Proof. With A the time of the layers, G that of the fetches and any integers 0 <= p <= q,
max(A, G) >= (p A + (q - p) G) / q, which is a sum over the layers; `completions` minimises it
over all ways that fit into the slots. As a function of p the minimum is concave, with slope A - G
at a plan that attains it: so bisection by the sign of A - G finds the best p.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .curves import Ints
from .knapsack import cheapest, completions
from .sides import Sides


@dataclass(frozen=True)
class Weighed:
    """One weight's answer: a lower bound in ns, the plan that attains the minimum, its table."""

    p: int
    bound_ns: int
    ways: Ints
    table: Ints


def weigh(sides: Sides, p: int) -> Weighed:
    """Return the bound of one weight."""
    cost = sides.weighted(p)
    table = completions(cost, sides.slots)
    bound_ns = -(-int(table[0, -1]) // sides.scale)
    return Weighed(p, bound_ns, cheapest(cost, table), table)


def bisect(sides: Sides) -> Iterator[Weighed]:
    """Yield the answers of weights that close in on the best one."""
    low, high = 0, sides.scale
    rows = np.arange(len(sides.compute_ns))
    while low <= high:
        found = weigh(sides, (low + high) // 2)
        yield found
        compute_ns = sides.compute_ns[rows, found.ways].sum()
        copy_ns = sides.copy_ns[rows, found.ways].sum()
        if compute_ns == copy_ns:
            return
        if compute_ns > copy_ns:
            low = found.p + 1
        else:
            high = found.p - 1
