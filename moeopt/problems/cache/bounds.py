"""Lower bounds on the trace's time that need no solver, each with its proof."""

from math import gcd

import numpy as np

from .instance import COSTS, Instance
from .sides import Sides, sides_of

ROUNDS = 24
"""Halvings of the weight and of the multiplier."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: the costs' greatest common divisor."""
    return gcd(*(getattr(instance, name) for name in COSTS)) or 1


def lower_bound(instance: Instance) -> int:
    """Return the bound of the best weight of computing, and multiplier of the slots.

    Proof. For weights p and q - p as in `lagrangian` and any multiplier m >= 0 per slot, q times
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
