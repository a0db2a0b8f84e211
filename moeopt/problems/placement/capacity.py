"""How much of the GPU a placement may and must take."""

from dataclasses import dataclass

import numpy as np

from .instance import Instance, Restriction
from .layer_steps import Flags, Ints


@dataclass(frozen=True)
class Capacity:
    """Limits on the slots taken, from the GPU's and the host's memory.

    Attributes
    ----------
    sizes
        Slots of every expert, shape (layers, experts).
    least, most
        Slots that must and that may be taken; nothing is feasible if `least` is above `most`.
    restriction
        As in the instance.
    """

    sizes: Ints
    least: int
    most: int
    restriction: Restriction | None

    def allows(self, held: Flags) -> bool:
        """Tell whether flags of shape (layers, experts) keep all rules."""
        used = int(self.sizes[held].sum())
        counts = held.sum(axis=1)
        if self.restriction == "whole-layers" and not set(counts.tolist()) <= {0, held.shape[1]}:
            return False
        if self.restriction == "equal-counts" and counts.min() < counts.max():
            return False
        return self.least <= used <= self.most


def capacity_of(instance: Instance) -> Capacity:
    """Return the limits of an instance.

    The host holds everything, which fits or does not; without a copy it holds what is not on the
    GPU, so that the GPU must take what does not fit.
    """
    total = int(instance.sizes.sum())
    least = instance.gpu_slots if instance.fill else 0
    if instance.host_slots is not None:
        lacking = max(0, total - instance.host_slots)
        least = max(least, lacking)
        if instance.host_copy and lacking:
            least = total + 1
    most = min(instance.gpu_slots, total)
    return Capacity(instance.sizes, least, most, instance.restriction)


def knapsack_bound(cost: Ints, capacity: Capacity) -> tuple[int, int]:
    """Return a lower bound on the sum of the costs of the experts chosen, and its multiplier.

    It is the Lagrangian bound of a 0-1 knapsack with a lower and an upper limit: the bound of its
    linear relaxation, in integers.

    Parameters
    ----------
    cost
        Of having each expert on the GPU, shape (layers, experts); may be negative.

    Notes
    -----
    Proof. For a multiplier u >= 0 per slot and a set X with sizes of at most `most`,
    cost(X) >= sum over X of (cost + u size) - u most >= sum of all min(0, cost + u size) - u most;
    likewise for u <= 0 with `least`. Restrictions are left out. The multiplier is the one at which
    the limit is just met; with sizes of 1 the bound is exact.
    """
    flat, sizes = cost.ravel(), capacity.sizes.ravel()
    worth = -(flat // sizes)  # an expert is better left out if a slot is dearer than this
    order = np.argsort(-worth, kind="stable")
    taken = np.cumsum(sizes[order])
    bends = [
        int(worth[order[min(int(np.searchsorted(taken, limit)), len(order) - 1)]])
        for limit in (capacity.most, capacity.least)
    ]
    multiplier = bends[0] if bends[0] > 0 else min(0, bends[1])
    limit = capacity.most if multiplier > 0 else capacity.least
    return int(np.minimum(0, flat + multiplier * sizes).sum()) - multiplier * limit, multiplier
