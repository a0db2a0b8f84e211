"""Lower bounds on the makespan that need no solver, each with its proof.

Notation: expert i run in domain o, which TD-C2 allows, keeps device r busy for p[i,o,r] ns, where
the devices are the GPU (TD-C3), the CPU (TD-C4) and each DIMM (TD-C5), TriMoE Eq. 5 and 6.
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Instance, costs_ns

WEIGHT_SCALE = 4096
"""Multipliers are rounded to this resolution before the bound is computed in integers."""

ROUNDS = 20
"""Updates of the multipliers."""

Weights = NDArray[np.float64]


def lower_bound(instance: Instance) -> int:
    """Return the best of this module's bounds."""
    return max(
        longest_expert_ns(instance), busiest_dimm_ns(instance), lagrangian_bound_ns(instance)
    )


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    return gcd(*(cost for expert in instance.experts for cost in costs_ns(expert))) or 1


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long wherever it runs.

    Proof. Run in domain o, expert i alone keeps some device busy for max_r p[i,o,r], and the
    makespan is at least that. It runs in one of its domains, so the makespan is at least the least
    of them.
    """
    c = instance.columns
    host = np.minimum(np.maximum(c.gpu_ns, c.gpu_dram_ns), np.maximum(c.cpu_ns, c.cpu_dram_ns))
    return int(np.where(c.dimm == STRIPED, host, np.minimum(host, c.ndp_ns)).max())


def busiest_dimm_ns(instance: Instance) -> int:
    """Return the bound by the DIMM whose unavoidable work is largest.

    Proof. Whatever its domain, expert i keeps each DIMM it lies on busy for at least
    min_o p[i,o,d]; DIMM d's load is a sum over experts, so it is at least the sum of those minima.
    """
    c = instance.columns
    host = np.minimum(c.gpu_dram_ns, c.cpu_dram_ns)
    striped = c.dimm == STRIPED
    own = [0] * instance.dimms
    least = np.minimum(host, c.ndp_ns)
    for dimm, floor in zip(c.dimm[~striped].tolist(), least[~striped].tolist(), strict=True):
        own[dimm] += floor
    return int(host[striped].sum()) + max(own)


def lagrangian_bound_ns(instance: Instance) -> int:
    """Return the Lagrangian bound: TD-C3 to TD-C5 relaxed, multipliers improved step by step.

    Proof. For any multipliers w >= 0 of the devices' rows with sum 1, the makespan is at least the
    weighted average of the device loads, which is at least sum_i min_o sum_r w[r] p[i,o,r]: each
    expert takes some domain (TD-C1), and no domain costs less than its cheapest. Any multipliers
    give a valid bound; the best ones give the linear relaxation. Multiplicative updates raise those
    of devices that the cheapest choices overload. They run in floats; the value returned is
    computed in integers from multipliers rounded to integers.
    """
    weights = _raise_overloaded(instance)
    scaled = [round(w * WEIGHT_SCALE) for w in weights.tolist()]
    total, every_dimm = sum(scaled), sum(scaled[2:])
    average = 0
    for expert in instance.experts:
        read = every_dimm if expert.dimm is None else scaled[2 + expert.dimm]
        options = [
            scaled[0] * expert.gpu_ns + read * expert.gpu_dram_ns,
            scaled[1] * expert.cpu_ns + read * expert.cpu_dram_ns,
        ]
        if expert.ndp_ns is not None:
            options.append(read * expert.ndp_ns)
        average += min(options)
    bound: int = -(-average // total)
    return bound


def _raise_overloaded(instance: Instance) -> Weights:
    """Return the best multipliers found, of shape (2 + dimms,): GPU, CPU, DIMMs."""
    from moeopt.problems.device_loads import device_loads, table_of  # compiled when first run

    c = instance.columns
    experts = table_of(c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    striped = c.dimm == STRIPED
    own_dimm = np.where(striped, 0, c.dimm)
    rows = np.arange(len(striped))
    log_w = np.zeros(2 + instance.dimms)
    best, best_value = np.full(len(log_w), 1 / len(log_w)), -1.0
    for step in range(ROUNDS):
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        read = np.where(striped, w[2:].sum(), w[2 + own_dimm])
        options = np.stack(
            [
                w[0] * c.gpu_ns + read * c.gpu_dram_ns,
                w[1] * c.cpu_ns + read * c.cpu_dram_ns,
                np.where(striped, np.inf, read * c.ndp_ns),
            ]
        )
        choice = options.argmin(axis=0)
        value = float(options[choice, rows].sum())
        if value > best_value:
            best, best_value = w, value
        load = device_loads(experts, choice, instance.dimms)
        log_w += (load / max(load.max(), 1.0)) / (1 + step) ** 0.5
    return best
