"""Lower bounds on the makespan that need no solver, each with its proof."""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .check import johnson_ns
from .instance import INT64_SUMS_NS, Instance
from .relaxations import link_relaxation

WEIGHT_SCALE = 16


def lower_bound(instance: Instance) -> int:
    """Return a bound on every solution.

    Proof. Either the GPU takes every slice, and the makespan is that of its flow shop without any
    activations; or some NDP work remains, and `shared_work_ns` holds, and what the link alone needs
    (`relaxations`). The smaller of the two cases is a bound on both.
    """
    everything = johnson_ns(instance, [instance.slices] * len(instance.experts))
    shared = shared_work_ns(instance)
    if instance.horizon_ns <= INT64_SUMS_NS:
        shared = max(shared, link_relaxation(instance).makespan_ns)
    return min(everything, shared)


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the times' greatest common divisor."""
    times = [instance.slice_transfer_ns, instance.activation_ns]
    for expert in instance.experts:
        times += [expert.slice_gpu_ns, expert.slice_ndp_ns]
    return gcd(*times) or 1


def shared_work_ns(instance: Instance) -> int:
    """Return the bound by weighted averages over link, GPU and units, where NDP work remains.

    Proof. The makespan is at least the link's time, at least the GPU's, and at least the average of
    the units' (each with the activations that are due on its side), so it is at least any weighted
    average of the three. A slice adds its transfer to the first and its computation to the second
    if it is taken, and 1/N of its NDP time to the third if it is not: at least the smaller of the
    two weighted costs. Every weighting of sum `WEIGHT_SCALE` is evaluated, in integers, with the
    units' average multiplied out.
    """
    c = instance.columns
    link_ns = np.where(c.resident, 0, instance.slice_transfer_ns)
    units = instance.ndp_units
    weights = _weightings()
    link, gpu, ndp = weights.T[:, :, None]
    taken = (link * link_ns + gpu * c.slice_gpu_ns) * units
    cost = np.minimum(taken, ndp * c.slice_ndp_ns).astype(object).sum(axis=1) * instance.slices
    overhead = [
        (int(on_link + on_gpu) * instance.gpu_overhead_ns + int(on_ndp) * instance.ndp_overhead_ns)
        * units
        for on_link, on_gpu, on_ndp in weights
    ]
    best = max(int(of) + due for of, due in zip(cost, overhead, strict=True))
    return -(-best // (WEIGHT_SCALE * units))


def _weightings() -> NDArray[np.int64]:
    """Return every triple of non-negative integers with sum `WEIGHT_SCALE`, shape (triples, 3)."""
    grid = np.arange(WEIGHT_SCALE + 1)
    first, second = (part.ravel() for part in np.meshgrid(grid, grid))
    triples = np.stack([first, second, WEIGHT_SCALE - first - second], axis=1)
    return triples[triples[:, 2] >= 0]
