"""A lower bound that needs no solver: budgets priced per bit."""

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms import knapsack

from .instance import Instance

Ints = NDArray[np.int64]

SIGNIFICANT = 61
"""Bits of the largest number that the priced sums may reach, in int64."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: what all losses have in common."""
    return int(np.gcd.reduce(instance.losses, axis=None)) or 1


def lower_bound(instance: Instance) -> int:
    """Return a bound on the summed loss.

    Proof. Leaving out BW-C4 and BW-C5 only adds solutions. Then the layers have nothing in common,
    or one budget if the model has one; `priced` bounds each part from below.
    """
    budget = instance.model_budget_bits
    if budget is not None:
        return priced(instance.losses, instance.bits, budget)
    pairs = zip(instance.layer_losses, instance.layer_budgets, strict=True)
    return sum(priced(losses, instance.bits, limit or 0) for losses, limit in pairs)


def priced(losses: Ints, bits: tuple[int, ...], budget: int) -> int:
    """Return a bound on the summed loss of experts that share a budget: the Lagrangian dual.

    A bit has any price of at least 0 (proof at `knapsack.priced`), tried in multiples of 2^-k, so
    that all is in integers; where k < 0 the losses are rounded down first, which lowers the bound.

    Parameters
    ----------
    losses
        Shape (experts, widths).
    bits, budget
        The widths, and the largest sum of them.
    """
    largest = len(losses) * (int(losses.max()) + 1) * (bits[-1] + 1)
    k = min(SIGNIFICANT - largest.bit_length(), 20)
    scaled = losses << k if k >= 0 else losses >> -k
    widths = np.array(bits, dtype=np.int64)

    price = knapsack.capacity_price(widths, scaled, budget)
    prices = {max(price - 1, 0), price}
    best = max(knapsack.priced(widths, scaled, budget, of) for of in prices)
    return -(-best >> k) if k >= 0 else best << -k
