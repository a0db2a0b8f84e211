"""Lower bounds on the total time that need no solver, each with its proof."""

from math import gcd

import numpy as np

from .capacity import capacity_of, knapsack_bound
from .instance import Instance
from .layer_steps import Ints, LayerSteps

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
