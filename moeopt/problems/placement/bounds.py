"""How much of the GPU a placement may take, and lower bounds, each with its proof."""

from dataclasses import dataclass
from math import gcd

import numpy as np

from .instance import Instance, Restriction
from .layer_steps import Flags, Ints, LayerSteps


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


PARTS = 8
"""Shares of the two sides that are tried: multiples of an eighth."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: the costs' greatest common divisor."""
    sides = ((layer.gpu_ns, layer.offload_ns) for layer in instance.layer_steps)
    found = {int(np.gcd.reduce(ns)) for of_layer in sides for ns in of_layer}
    return gcd(instance.layer_offload_fixed_ns, *found) or 1


def lower_bound(instance: Instance) -> int:
    """Return the best of a few bounds that weigh the two sides.

    Proof. A layer in one step takes max(G, O) at least, with G the sum of its experts on the GPU
    and O that of the others, the fixed charge left out. For a share p of 8, max(G, O) >=
    (p G + (8 - p) O) / 8. Summed over all steps, O counts what all experts would take less what
    those on the GPU take: so 8 times the objective is at least (8 - p) times the offload time of
    all experts, plus the sum over the experts on the GPU of p times their GPU time less (8 - p)
    times their offload time, over all steps. `knapsack_bound` bounds that sum from below. With
    free dispatch an expert on the GPU adds that difference or 0 in each step: the lesser counts.
    """
    capacity = capacity_of(instance)
    if capacity.least > capacity.most:
        return 0
    layers = instance.layer_steps
    off = sum(int((layer.weight[layer.row] * layer.offload_ns).sum()) for layer in layers)
    bounds = []
    for p in range(PARTS + 1):
        cost = np.array([_weighed(layer, p, instance.experts) for layer in layers])
        chosen, _ = knapsack_bound(cost, capacity)
        bounds.append(-(-((PARTS - p) * off + chosen) // PARTS))
    return max(0, *bounds)


def _weighed(layer: LayerSteps, p: int, experts: int) -> Ints:
    """Return what each expert on the GPU adds to the sides, weighed, over all steps of a layer."""
    added = p * layer.gpu_ns - (PARTS - p) * layer.offload_ns
    if layer.free_dispatch:
        added = np.minimum(0, added)
    return _over_steps(layer, added, experts)


def summed(layer: LayerSteps, experts: int) -> tuple[Ints, Ints]:
    """Return each expert's time on the GPU and offloaded, over all steps of a layer."""
    gpu, off = (_over_steps(layer, ns, experts) for ns in (layer.gpu_ns, layer.offload_ns))
    return gpu, off


def _over_steps(layer: LayerSteps, ns: Ints, experts: int) -> Ints:
    total = np.zeros(experts, dtype=np.int64)
    np.add.at(total, layer.expert, layer.weight[layer.row] * ns)
    return total
