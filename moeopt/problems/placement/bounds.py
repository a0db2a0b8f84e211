"""Lower bounds on the total time that need no solver, each with its proof."""

from math import gcd

import numpy as np

from .capacity import capacity_of, knapsack_bound
from .instance import Instance, expert_ns
from .layer_steps import Ints, LayerSteps

PARTS = 8
"""Shares of the two sides that are tried: multiples of an eighth."""


def objective_grid(instance: Instance) -> int:
    """Return a number that every objective is a multiple of: the costs' greatest common divisor."""
    counts = {n for step in instance.steps for layer in step for _, n in layer}
    tables = (instance.gpu_expert_ns, instance.offload_expert_ns)
    found = {expert_ns(table, n) for table in tables for n in counts}
    return gcd(instance.layer_offload_fixed_ns, *found) or 1


def lower_bound(instance: Instance) -> int:
    """Return the best of a few bounds that weigh the two sides.

    Proof. A layer in one step takes max(G, O) at least, with G the sum of its experts on the GPU
    and O that of the others, the fixed charge left out. For a share p of 8, max(G, O) >=
    (p G + (8 - p) O) / 8. Summed over all steps, O counts what all experts would take less what
    those on the GPU take: so 8 times the objective is at least (8 - p) times the offload time of
    all experts, plus the sum over the experts on the GPU of p times their GPU time less (8 - p)
    times their offload time, over all steps. `knapsack_bound` bounds that sum from below.
    """
    capacity = capacity_of(instance)
    if capacity.least > capacity.most:
        return 0
    gpu, off = (np.zeros(capacity.sizes.shape, dtype=np.int64) for _ in range(2))
    for row, layer in enumerate(instance.layer_steps):
        gpu[row], off[row] = summed(layer, instance.experts)
    bounds = []
    for p in range(PARTS + 1):
        chosen, _ = knapsack_bound(p * gpu - (PARTS - p) * off, capacity)
        bounds.append(-(-((PARTS - p) * int(off.sum()) + chosen) // PARTS))
    return max(0, *bounds)


def summed(layer: LayerSteps, experts: int) -> tuple[Ints, Ints]:
    """Return each expert's time on the GPU and offloaded, over all steps of a layer."""
    weight = layer.weight[layer.row]
    sums = []
    for ns in (layer.gpu_ns, layer.offload_ns):
        total = np.zeros(experts, dtype=np.int64)
        np.add.at(total, layer.expert, weight * ns)
        sums.append(total)
    return sums[0], sums[1]
