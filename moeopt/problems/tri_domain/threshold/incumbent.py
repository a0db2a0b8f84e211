"""A good schedule at once: built for a few thresholds, then improved by moves."""

from typing import Any

import numpy as np

from moeopt.numeric.compiled import compiled

from .floor import simple_bound, striped_reads
from .loads import (
    CPU,
    GPU,
    NDP,
    OWN,
    STRIPED_READS,
    Domains,
    Ints,
    busiest_dimm,
    loads_of,
    makespan_of,
    move,
    tables,
)

ROUNDS = 7
"""Thresholds that a schedule is built for."""

MOVES = 12
"""Moves off the busiest device afterwards."""

FINE = 1 << 16
"""Steps per unit in which the ratio of two costs is compared."""


@compiled
def quick_schedule(
    gpu_ns: Ints,
    cpu_ns: Ints,
    ndp_ns: Ints,
    gpu_dram_ns: Ints,
    cpu_dram_ns: Ints,
    dimm: Ints,
    dimms: int,
) -> tuple[int, Domains]:
    """Return the makespan and the domains of a good schedule, in some ten microseconds.

    Compiled; other compiled code may call it.

    Parameters
    ----------
    gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm
        The active experts' columns as in `moeopt.problems.tri_domain.instance.Columns`: int64, of
        shape (experts,), `dimm` -1 and `ndp_ns` 0 where an expert is striped.
    dimms
        Number of DIMMs.

    Returns
    -------
    makespan_ns, domain
        `domain` is int8 of shape (experts,): 0 GPU, 1 CPU, 2 NDP.
    """
    host, dram, place = tables(gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm)
    return first_schedule(host, dram, place, dimms)


@compiled
def first_schedule(host: Ints, dram: Ints, place: Ints, dimms: int) -> tuple[int, Domains]:
    """Return the best of the schedules built for thresholds found by bisection, after some moves.

    A threshold for which the schedule built is late is taken for too low; the best so far is the
    highest of interest.
    """
    by_saving, by_ratio = orders(host, dram)
    low: Any = simple_bound(host, dram, place, dimms)
    domain = built(host, dram, place, dimms, by_saving, by_ratio, low)
    best = makespan_of(loads_of(host, dram, place, domain, dimms))
    high = best
    for _ in range(ROUNDS):
        threshold = low + (high - low) // 2
        if threshold <= low:
            break
        other = built(host, dram, place, dimms, by_saving, by_ratio, threshold)
        makespan = makespan_of(loads_of(host, dram, place, other, dimms))
        if makespan < best:
            best, domain = makespan, other
        if makespan <= threshold:
            high = makespan
        else:
            low = threshold
    load = loads_of(host, dram, place, domain, dimms)
    if best > low:
        for _ in range(MOVES):
            if not single_move(host, dram, place, domain, load):
                break
    return makespan_of(load), domain


@compiled
def orders(host: Ints, dram: Ints) -> tuple[Ints, Ints]:
    """Return the rows by falling relief of their DIMM, and by rising ratio of GPU to CPU time."""
    experts = host.shape[1]
    saving, ratio = np.empty(experts, np.int64), np.empty(experts, np.int64)
    for i in range(experts):
        saving[i] = min(dram[GPU, i], dram[CPU, i]) - dram[NDP, i]
        ratio[i] = FINE * (host[GPU, i] / (host[CPU, i] + 1.0))
    return np.argsort(saving), np.argsort(ratio)


@compiled
def built(
    host: Ints,
    dram: Ints,
    place: Ints,
    dimms: int,
    by_saving: Ints,
    by_ratio: Ints,
    threshold: int,
) -> Domains:
    """Return a schedule that keeps the DIMMs within a threshold if few experts' leaving does.

    An expert leaves NDP for the host that keeps its DIMM busy for less time, the CPU at a tie. Of
    each DIMM the experts that relieve it most leave until one more suffices, and that is the one
    that relieves it least of those that do. What hosts run starts on the CPU; the GPU takes over by
    rising ratio as long as the later host gets earlier.
    """
    domain = np.full(len(place), NDP, np.int8)
    reads = striped_reads(dram, place)
    excess = np.full(dimms, reads[0] - threshold, np.int64)
    sufficient = np.full(dimms, -1, np.int64)
    for i in range(len(place)):
        if place[i] == STRIPED_READS:
            domain[i] = CPU
        else:
            excess[place[i] - OWN] += dram[NDP, i]
    for i in by_saving:
        d = place[i] - OWN
        if place[i] == STRIPED_READS or excess[d] <= 0:
            continue
        to = GPU if dram[GPU, i] < dram[CPU, i] else CPU
        saving = dram[NDP, i] - dram[to, i]
        if saving <= 0:
            continue
        if saving >= excess[d]:
            sufficient[d] = i
        elif sufficient[d] >= 0:
            excess[d] = 0
        else:
            domain[i] = to
            excess[d] -= saving
    for leaving in sufficient:
        if leaving >= 0:
            domain[leaving] = GPU if dram[GPU, leaving] < dram[CPU, leaving] else CPU
    gpu, cpu = 0, 0
    for i in range(len(place)):
        gpu += host[GPU, i] if domain[i] == GPU else 0
        cpu += host[CPU, i] if domain[i] == CPU else 0
    for i in by_ratio:
        if domain[i] == CPU and (place[i] == STRIPED_READS or dram[GPU, i] <= dram[CPU, i]):
            later = max(gpu + host[GPU, i], cpu - host[CPU, i])
            if later < max(gpu, cpu):
                gpu += host[GPU, i]
                cpu -= host[CPU, i]
                domain[i] = GPU
    return domain


@compiled
def single_move(host: Ints, dram: Ints, place: Ints, domain: Domains, load: Ints) -> bool:
    """Make the move off the bottleneck after which the devices it touches are free earliest."""
    makespan = makespan_of(load)
    at = bottleneck(load, makespan)
    longest = load[busiest_dimm(load)]
    best, best_i, best_to = makespan, -1, 0
    for i in range(len(domain)):
        for to in range(2 if place[i] == STRIPED_READS else 3):
            if to != domain[i] and relieves(host, dram, place, domain, at, i, to):
                touched = after(host, dram, place, domain, load, longest, i, to)
                if touched < best:
                    best, best_i, best_to = touched, i, to
    if best_i < 0:
        return False
    move(host, dram, place, domain, load, best_i, best_to)
    return True


@compiled
def bottleneck(load: Ints, makespan: int) -> Any:
    """Return the device that attains the makespan as an index into `load`: GPU, CPU or a DIMM's."""
    if load[GPU] == makespan:
        return GPU
    if load[CPU] == makespan:
        return CPU
    return busiest_dimm(load)


@compiled
def relieves(host: Ints, dram: Ints, place: Ints, domain: Domains, at: int, i: int, to: int) -> Any:
    """Return whether device `at`, an index into `load`, is less busy once `i` runs in `to`."""
    now = domain[i]
    if at < OWN:
        return now == at and host[now, i] > 0
    return (place[i] == at or place[i] == STRIPED_READS) and dram[to, i] < dram[now, i]


@compiled
def after(
    host: Ints, dram: Ints, place: Ints, domain: Domains, load: Ints, longest: int, i: int, to: int
) -> Any:
    """Return the largest load of the hosts and of the DIMMs that `i` touches once it runs in `to`.

    `longest` is the largest work of a DIMM's own. A host that stays above the makespan's other
    devices counts, too: a step is only worth it if it lowers both.
    """
    now = domain[i]
    gpu, cpu = load[GPU], load[CPU]
    if now == GPU:
        gpu -= host[GPU, i]
    elif now == CPU:
        cpu -= host[CPU, i]
    if to == GPU:
        gpu += host[GPU, i]
    elif to == CPU:
        cpu += host[CPU, i]
    change = dram[to, i] - dram[now, i]
    own = longest if place[i] == STRIPED_READS else load[place[i]]
    return max(gpu, cpu, load[STRIPED_READS] + own + change if change != 0 else 0)
