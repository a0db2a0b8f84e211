"""Lower bounds on the makespan that need no solver, each with its proof.

Notation: expert i run in domain o, which TD-C2 allows, keeps device r busy for p[i,o,r] ns, where
the devices are the GPU (TD-C3), the CPU (TD-C4) and each DIMM (TD-C5), TriMoE Eq. 5 and 6, and in
schema 2 each memory channel (TD-C6) and the PCIe link (TD-C7). The GPU has its base load on top.
With copies (schema 2) o is a domain and a copy together; arrays have one entry per copy, and each
expert's least is over the entries of all its copies.
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.device_loads import IDLE, device_loads

from .instance import STRIPED, Instance

WEIGHT_SCALE = 4096
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

ROUNDS = 20
"""Updates of the multipliers."""

Weights = NDArray[np.float64]
Times = NDArray[np.int64]


def lower_bound(instance: Instance) -> int:
    """Return the best of this module's bounds."""
    return max(
        longest_expert_ns(instance),
        busiest_dimm_ns(instance),
        busiest_channel_ns(instance),
        lagrangian_bound_ns(instance),
    )


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the times' greatest common divisor."""
    _, c = instance.copy_columns
    times = [c.gpu_work_ns, c.cpu_ns, c.ndp_ns, c.pcie_ns, *_dimm_charges(instance)]
    if instance.channels is not None:
        times += [c.gpu_dram_ns, c.cpu_dram_ns]
    return gcd(instance.base_ns, int(np.gcd.reduce(np.concatenate(times)))) or 1


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long wherever it runs.

    Proof. Run in domain o, expert i alone keeps some device busy for max_r p[i,o,r], on the GPU
    after its base load, and the makespan is at least that. It runs in one of its domains, so the
    makespan is at least the least of them.
    """
    owner, c = instance.copy_columns
    charges, channel_reads = _dimm_charges(instance), _channel_reads(instance)
    reads = np.maximum(charges, channel_reads)
    gpu = np.maximum.reduce([instance.base_ns + c.gpu_work_ns, c.pcie_ns, reads[0]])
    host = np.minimum(gpu, np.maximum(c.cpu_ns, reads[1]))
    of_copy = np.where(c.dimm == STRIPED, host, np.minimum(host, c.ndp_ns))
    return int(_least(owner, of_copy).max())


def busiest_dimm_ns(instance: Instance) -> int:
    """Return the bound by the DIMM whose unavoidable work is largest.

    Proof. Whatever its domain, expert i keeps each DIMM it lies on busy for at least
    min_o p[i,o,d]; DIMM d's load is a sum over experts, so it is at least the sum of those minima.
    One with several copies counts for nothing: it may be elsewhere.
    """
    owner, c = instance.copy_columns
    alone = np.bincount(owner)[owner] == 1
    host = np.where(alone, _dimm_charges(instance).min(axis=0), 0)
    striped = (c.dimm == STRIPED) | ~alone
    own = [0] * instance.dimms
    least = np.minimum(host, c.ndp_ns)
    for dimm, floor in zip(c.dimm[~striped].tolist(), least[~striped].tolist(), strict=True):
        own[dimm] += floor
    return int(host[striped].sum()) + max(own)


def busiest_channel_ns(instance: Instance) -> int:
    """Return the bound by the reads of striped experts, which keep every channel busy.

    Proof. A striped expert runs on a host (TD-C2), which reads it for at least min_o p[i,o,c] on
    every channel c; what a localized expert adds may be nothing, on its NDP unit. 0 without
    channels, and 0 without striped experts. Experts with copies count for nothing.
    """
    owner, c = instance.copy_columns
    reads = _channel_reads(instance).min(axis=0)
    return int(reads[(c.dimm == STRIPED) & (np.bincount(owner)[owner] == 1)].sum())


def lagrangian_bound_ns(instance: Instance) -> int:
    """Return the Lagrangian bound: TD-C3 to TD-C7 relaxed, multipliers improved step by step.

    Proof. For any multipliers w >= 0 of the devices' rows with sum 1, the makespan is at least the
    weighted average of the device loads, which is at least w[GPU] times the GPU's base load plus
    sum_i min_o sum_r w[r] p[i,o,r]: each expert takes some domain (TD-C1), and no domain costs less
    than its cheapest. Any multipliers give a valid bound; the best ones give the linear relaxation.
    Multiplicative updates raise those of devices that the cheapest choices overload. They run in
    floats; the value returned is computed in integers from multipliers rounded to integers.
    """
    scaled = np.rint(_raise_overloaded(instance) * WEIGHT_SCALE).astype(np.int64)
    owner, _ = instance.copy_columns
    least = _least(owner, _options(instance, scaled).min(axis=0)).tolist()
    average = int(scaled[0]) * instance.base_ns + sum(least)  # Python's sum does not overflow
    bound: int = -(-average // int(scaled.sum()))
    return bound


def _least(owner: Times, values: Times) -> Times:
    """Return each expert's least value over its copies."""
    return np.asarray(np.minimum.reduceat(values, np.flatnonzero(np.diff(owner, prepend=-1))))


def _dimm_charges(instance: Instance) -> Times:
    """Return how long a read by GPU or CPU keeps a DIMM busy, in ns, of shape (2, copies)."""
    _, c = instance.copy_columns
    reads = np.stack([c.gpu_dram_ns, c.cpu_dram_ns])
    part, whole = instance.dimm_share or (1, 1)
    return np.where(c.dimm == STRIPED, -(-reads * part // whole), reads)


def _channel_reads(instance: Instance) -> Times:
    """Return how long a read by GPU or CPU keeps a channel busy; 0 without channels."""
    _, c = instance.copy_columns
    return np.stack([c.gpu_dram_ns, c.cpu_dram_ns]) * (instance.channels is not None)


def _options(instance: Instance, weights: NDArray[np.generic]) -> NDArray[np.generic]:
    """Return each copy's weighted time on GPU, CPU and NDP, of shape (3, copies).

    One weight per device, in the order of `moeopt.problems.device_loads.device_loads`.
    """
    _, c = instance.copy_columns
    striped = c.dimm == STRIPED
    link = 2 + instance.dimms
    read = np.where(striped, weights[2:link].sum(), weights[2 + np.maximum(c.dimm, 0)])
    gpu, cpu = read * _dimm_charges(instance)
    gpu = gpu + weights[0] * c.gpu_work_ns
    cpu = cpu + weights[1] * c.cpu_ns
    if len(weights) > link:
        gpu += weights[link] * c.pcie_ns
        channel_of = np.unique(instance.channels or [0] * instance.dimms, return_inverse=True)[1]
        own = weights[link + 1 + np.where(striped, 0, channel_of[c.dimm])]
        reads = np.where(striped, weights[link + 1 :].sum(), own) * _channel_reads(instance)
        gpu, cpu = gpu + reads[0], cpu + reads[1]
    return np.stack([gpu, cpu, np.where(striped, gpu, read * c.ndp_ns)])


def _raise_overloaded(instance: Instance) -> Weights:
    """Return the best multipliers found, one per device as in `_options`."""
    owner, columns = instance.copy_columns
    table, copies = instance.table_of(columns), len(owner)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    devices = len(device_loads(table, np.ones(copies, np.int64), instance.dimms))
    log_w = np.zeros(devices)
    best, best_value = np.full(devices, 1 / devices), -1.0
    for step in range(ROUNDS):
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        options = _options(instance, w)
        choice = options.argmin(axis=0)  # never NDP where striped: it costs what the GPU does
        cost = options.min(axis=0)
        least = np.minimum.reduceat(cost, first)
        value = float(least.sum() + w[0] * instance.base_ns)
        if value > best_value:
            best, best_value = w, value
        if copies > len(first):  # of equally cheap copies the first is the one that runs
            at = np.flatnonzero(cost == least[owner])
            unused = np.ones(copies, dtype=np.bool_)
            unused[at[np.unique(owner[at], return_index=True)[1]]] = False
            choice[unused] = IDLE
        load = device_loads(table, choice, instance.dimms)
        log_w += (load / max(load.max(), 1.0)) / (1 + step) ** 0.5
    return best
