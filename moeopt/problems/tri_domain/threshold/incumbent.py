"""The bracket to start from: a simple bound, and a schedule built for a few thresholds."""

from typing import Any

import numpy as np

from moeopt.core.compiled import part, rising, short
from moeopt.problems.device_loads import (
    CPU,
    DRAM,
    GPU,
    NDP,
    OWN,
    PLACE,
    STRIPED_READS,
    Ints,
    busiest,
    loads_of,
    makespan_of,
)

ROUNDS = 7
"""Thresholds that a schedule is built for."""

MOVES = 12
"""Moves off the busiest device afterwards."""

FINE = 1 << 16
"""Steps per unit in which the ratio of two costs is compared."""


@short(4096)
def first_schedule(experts: Ints, dimms: int) -> tuple[int, Ints]:
    """Return the best of the schedules built for thresholds found by bisection, after some moves.

    A threshold for which the schedule built is late is taken for too low; the best so far is the
    highest of interest.
    """
    saving, ratio = keys(experts)
    by_saving, by_ratio = rising(saving), rising(ratio)
    low, reads, _ = simple_bound(experts, dimms)
    best, high, threshold = -1, -1, low
    domain = np.empty(0, np.int64)
    for _ in range(ROUNDS + 1):
        other = built(experts, dimms, by_saving, by_ratio, reads, threshold)
        makespan = makespan_of(loads_of(experts, other, dimms), dimms)
        if best < 0 or makespan < best:
            best, domain = makespan, other
        if high < 0 or makespan <= threshold:
            high = makespan
        else:
            low = threshold
        threshold = low + (high - low) // 2
        if threshold <= low:
            break
    if best > low:
        best = improve(experts, domain, loads_of(experts, domain, dimms), dimms)
    return best, domain


@short(4096)
def simple_bound(experts: Ints, dimms: int) -> tuple[int, int, int]:
    """Return a lower bound, and the least and the most that all striped reads can take.

    The bound is the larger of two: the longest expert and the busiest DIMM. Proofs are in
    `moeopt.problems.tri_domain.bounds`.
    """
    longest, least, most = 0, 0, 0
    own = np.zeros(OWN + dimms, np.int64)
    for i in range(experts.shape[1]):
        gpu_read, cpu_read = experts[DRAM + GPU, i], experts[DRAM + CPU, i]
        alone = min(max(experts[GPU, i], gpu_read), max(experts[CPU, i], cpu_read))
        if experts[PLACE, i] == STRIPED_READS:
            least += min(gpu_read, cpu_read)
            most += max(gpu_read, cpu_read)
        else:
            alone = min(alone, experts[DRAM + NDP, i])
            own[experts[PLACE, i]] += min(gpu_read, cpu_read, experts[DRAM + NDP, i])
        longest = max(longest, alone)
    for at in range(OWN, len(own)):
        longest = max(longest, least + own[at])
    return longest, least, most


@part
def keys(experts: Ints) -> tuple[Ints, Ints]:
    """Return by what to order the rows: falling relief of the DIMM, rising GPU to CPU time."""
    size = experts.shape[1]
    saving, ratio = np.empty(size, np.int64), np.empty(size, np.int64)
    for i in range(size):
        saving[i] = min(experts[DRAM + GPU, i], experts[DRAM + CPU, i]) - experts[DRAM + NDP, i]
        ratio[i] = FINE * (experts[GPU, i] / (experts[CPU, i] + 1.0))
    return saving, ratio


@part
def built(
    experts: Ints, dimms: int, by_saving: Ints, by_ratio: Ints, reads: int, threshold: int
) -> Ints:
    """Return a schedule that keeps the DIMMs within a threshold if few experts' leaving does.

    An expert leaves NDP for the host that keeps its DIMM busy for less time, the CPU at a tie. Of
    each DIMM the experts that relieve it most leave until one more suffices, and that is the one
    that relieves it least of those that do. What hosts run starts on the CPU; the GPU takes over by
    rising ratio as long as the later host gets earlier. `reads` is what striped ones take at least.
    """
    size = experts.shape[1]
    domain = np.empty(size, np.int64)
    excess, sufficient = np.empty(OWN + dimms, np.int64), np.empty(OWN + dimms, np.int64)
    for at in range(len(excess)):
        excess[at], sufficient[at] = reads - threshold, -1
    for i in range(size):
        domain[i] = CPU if experts[PLACE, i] == STRIPED_READS else NDP
        excess[experts[PLACE, i]] += experts[DRAM + NDP, i]
    for n in range(size):
        i = by_saving[n]
        at = experts[PLACE, i]
        to = GPU if experts[DRAM + GPU, i] < experts[DRAM + CPU, i] else CPU
        saving = experts[DRAM + NDP, i] - experts[DRAM + to, i]
        if at == STRIPED_READS or excess[at] <= 0 or saving <= 0:
            continue
        if saving >= excess[at]:
            sufficient[at] = i
        elif sufficient[at] >= 0:
            excess[at] = 0
        else:
            domain[i] = to
            excess[at] -= saving
    for at in range(OWN, len(sufficient)):
        i = sufficient[at]
        if i >= 0:
            domain[i] = GPU if experts[DRAM + GPU, i] < experts[DRAM + CPU, i] else CPU
    gpu, cpu = 0, 0
    for i in range(size):
        gpu += experts[GPU, i] if domain[i] == GPU else 0
        cpu += experts[CPU, i] if domain[i] == CPU else 0
    for n in range(size):
        i = by_ratio[n]
        no_longer_read = experts[DRAM + GPU, i] <= experts[DRAM + CPU, i]
        if domain[i] == CPU and (experts[PLACE, i] == STRIPED_READS or no_longer_read):
            later = max(gpu + experts[GPU, i], cpu - experts[CPU, i])
            if later < max(gpu, cpu):
                gpu += experts[GPU, i]
                cpu -= experts[CPU, i]
                domain[i] = GPU
    return domain


@part
def improve(experts: Ints, domain: Ints, load: Ints, dimms: int) -> Any:
    """Move experts off the busiest device and return the makespan.

    Each time the move is made after which the hosts and the DIMMs that it touches are free
    earliest. A host that stays above the makespan's other devices counts, too: a step is only worth
    it if it lowers both.
    """
    makespan = makespan_of(load, dimms)
    for _ in range(MOVES):
        heavy = busiest(load, OWN, len(load))
        by_dimm = load[GPU] < makespan and load[CPU] < makespan
        best, best_i, best_to = makespan, -1, 0
        for i in range(len(domain)):
            place, now = experts[PLACE, i], domain[i]
            dimm = heavy if place == STRIPED_READS else place
            for to in range(2 if place == STRIPED_READS else 3):
                change = experts[DRAM + to, i] - experts[DRAM + now, i]
                if to == now or (by_dimm and (dimm != heavy or change >= 0)):
                    continue
                gpu, cpu = load[GPU], load[CPU]
                if now != NDP:
                    gpu -= experts[GPU, i] * (1 - now)
                    cpu -= experts[CPU, i] * now
                if to != NDP:
                    gpu += experts[GPU, i] * (1 - to)
                    cpu += experts[CPU, i] * to
                touched = max(gpu, cpu)
                if change != 0:
                    touched = max(touched, load[STRIPED_READS] + load[dimm] + change)
                if touched < best:
                    best, best_i, best_to = touched, i, to
        if best_i < 0:
            break
        now = domain[best_i]
        load[experts[PLACE, best_i]] -= experts[DRAM + now, best_i]
        load[experts[PLACE, best_i]] += experts[DRAM + best_to, best_i]
        if now != NDP:
            load[now] -= experts[now, best_i]
        if best_to != NDP:
            load[best_to] += experts[best_to, best_i]
        domain[best_i] = best_to
        makespan = makespan_of(load, dimms)
    return makespan
