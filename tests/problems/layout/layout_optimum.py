"""The optimum of tiny instances by trying everything, in compiled loops.

Numbered as in the instance alone: costs are read from its fields, not from arrays of the package.
`test_layout_oracle` holds it against `moeopt.problems.layout.oracle`.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled
from moeopt.problems.layout.instance import COSTS, Instance
from moeopt.problems.layout.solution import DOMAINS, Solution

Ints = NDArray[np.int64]


def optimum(instance: Instance) -> tuple[int, Solution]:
    """Return the least objective of an instance of schema 1 or 2, and a solution that has it."""
    scenarios = instance.scenarios
    tokens = np.array([of.tokens for of in scenarios], dtype=np.int64)
    cost = np.array([[getattr(of, name) for name in COSTS] for of in scenarios], dtype=np.int64)
    pcie = np.zeros((len(scenarios), 2, instance.experts), dtype=np.int64)
    for s, of in enumerate(scenarios):
        if of.gpu_calc_ns is not None:
            cost[s, 1:3] = of.gpu_calc_ns
            pcie[s] = of.pcie_striped_ns, of.pcie_localized_ns
    cost = np.concatenate([cost, pcie], axis=1)
    weight = np.array([of.weight for of in scenarios], dtype=np.int64)
    rows = np.flatnonzero(tokens.any(axis=0))
    slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    sizes = np.array([instance.dimms, instance.hbm_slots, slots])
    part, whole = instance.dimm_share or (1, 1)
    charge = (instance.dram_striped_ns * part + whole - 1) // whole
    full = 0 if instance.channels is None else 1
    reads = [charge, instance.dram_localized_ns, instance.dram_striped_ns * full]
    reads = np.array([*reads, instance.dram_localized_ns * full, instance.gpu_base_ns or 0])
    channel = np.zeros(instance.dimms, dtype=np.int64)
    if instance.channels is not None:
        channel[:] = [sorted(instance.channels).index(of) for of in instance.channels]
    resident = np.zeros(instance.experts, dtype=np.int64)
    dimm = np.full(instance.experts, -1, dtype=np.int64)
    domain = np.full(tokens.shape, -1, dtype=np.int64)
    best = _search(tokens, cost, weight, rows, sizes, reads, channel, resident, dimm, domain)
    solution = Solution(
        instance=instance.name,
        resident=tuple(bool(of) for of in resident),
        dimm=tuple(None if of < 0 else of for of in dimm.tolist()),
        assignment=tuple(
            tuple(None if of < 0 else DOMAINS[of] for of in row) for row in domain.tolist()
        ),
    )
    return int(best), solution


@compiled
def _search(
    tokens: Ints,
    cost: Ints,
    weight: Ints,
    rows: Ints,
    sizes: Ints,
    reads: Ints,
    channel: Ints,
    resident: Ints,
    dimm: Ints,
    domain: Ints,
) -> int:
    """Count through residents, DIMMs and domains like numbers; the last three hold the best.

    Where all DIMMs are identical, only layouts that number them by first use are looked at.
    """
    scenarios = len(tokens)
    dimms, hbm_slots, dimm_slots = sizes
    now_resident, now_dimm = np.zeros_like(resident), np.full_like(dimm, -1)
    now_domain, trial = np.full_like(domain, -1), np.full_like(dimm, -1)
    best = np.iinfo(np.int64).max
    for code in range((2 * (dimms + 1)) ** len(rows)):
        left, kept, used, ordered = code, 0, 0, True
        held = np.zeros(dimms, np.int64)
        for row in rows:
            now_resident[row], left = left % 2, left // 2
            now_dimm[row], left = left % (dimms + 1) - 1, left // (dimms + 1)
            kept += now_resident[row]
            if now_dimm[row] >= 0:
                held[now_dimm[row]] += 1
                ordered = ordered and (now_dimm[row] <= used or channel.max() > 0)
                used = max(used, now_dimm[row] + 1)
        if not ordered or kept > hbm_slots or held.max() > dimm_slots:
            continue
        value = 0
        for s in range(scenarios):
            least = np.iinfo(np.int64).max
            active = 0
            for row in rows:
                active += tokens[s, row] > 0
            for number in range(3**active):
                rest, valid = number, True
                for row in rows:
                    trial[row] = -1
                    if tokens[s, row]:
                        trial[row], rest = rest % 3, rest // 3
                        valid = valid and (trial[row] < 2 or now_dimm[row] >= 0)
                if valid:
                    span = _makespan(cost[s], reads, channel, now_resident, now_dimm, trial)
                    if span < least:
                        least = span
                        for row in rows:  # copying arrays as wholes takes seconds to compile
                            now_domain[s, row] = trial[row]
            value += weight[s] * least
        if value < best:
            best = value
            for row in rows:
                resident[row], dimm[row] = now_resident[row], now_dimm[row]
                for s in range(scenarios):
                    domain[s, row] = now_domain[s, row]
    return best


@compiled
def _makespan(
    cost: Ints, reads: Ints, channel: Ints, resident: Ints, dimm: Ints, domain: Ints
) -> int:
    """Return the load of the busiest device; `cost` is in the order of `COSTS`, then PCIe's."""
    gpu, cpu, pcie, every, every_channel = reads[4], 0, 0, 0, 0
    own, local = np.zeros(len(channel), np.int64), np.zeros(len(channel), np.int64)
    for row in range(len(domain)):
        at = dimm[row]
        if domain[row] == 2:
            own[at] += cost[5, row]
            continue
        if domain[row] < 0:
            continue
        if domain[row] == 0 and resident[row]:
            gpu += cost[0, row]
            continue
        if domain[row] == 0:
            gpu += cost[2 if at >= 0 else 1, row]
            pcie += cost[7 if at >= 0 else 6, row]
        else:
            cpu += cost[4 if at >= 0 else 3, row]
        if at >= 0:
            own[at] += reads[1]
            local[channel[at]] += reads[3]
        else:
            every += reads[0]
            every_channel += reads[2]
    return max(gpu, cpu, pcie, every + own.max(), every_channel + local.max())
