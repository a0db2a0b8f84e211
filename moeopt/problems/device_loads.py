"""Device loads of one layer's schedule on a fixed layout: the sums of TriMoE Eq. 5-7, compiled.

These sums stand in the checkers, in the simulator's engine, and here for every algorithm.

All that is known of the experts is in one table, since each array that a compiled function takes
costs compile time. `experts` is int64 of shape (7, experts), in ns: rows `GPU` and `CPU` hold the
host's time, row ``DRAM + domain`` how long the expert keeps busy each DIMM that it lies on, and
`PLACE` which DIMMs: see next. A schedule `domain` is int64 of shape (experts,): `GPU`, `CPU` or
`NDP`, or `IDLE` for an expert that runs nowhere.

An array `load` holds the GPU's time, the CPU's time, the reads of striped experts that keep every
DIMM busy, and then each DIMM's own work: ``[GPU, CPU, STRIPED_READS, OWN + 0, OWN + 1, ...]``. DIMM
d is busy for ``load[STRIPED_READS] + load[OWN + d]``. An expert changes the host that runs it and
one of the other entries, its place: `STRIPED_READS` if it is striped, else that of its DIMM. So a
move changes at most four numbers, however many DIMMs there are.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

GPU, CPU, NDP = 0, 1, 2
IDLE = -1
DRAM = 3
PLACE = 6
STRIPED_READS = 2
OWN = 3

Ints = NDArray[np.int64]


@compiled
def empty_table(rows: int, columns: int) -> Ints:
    """Return a table without values; Numba compiles `empty` anew for each constant in a shape."""
    return np.empty((rows, columns), np.int64)


@compiled
def table_of(
    gpu_ns: Ints, cpu_ns: Ints, ndp_ns: Ints, gpu_dram_ns: Ints, cpu_dram_ns: Ints, dimm: Ints
) -> Ints:
    """Return the table `experts`.

    Parameters
    ----------
    gpu_ns, cpu_ns, ndp_ns
        Time on the GPU (Eq. 1 or 2), the CPU (Eq. 3) or the NDP unit (Eq. 4), in ns: int64, of
        shape (experts,). `ndp_ns` is not looked at where an expert is striped.
    gpu_dram_ns, cpu_dram_ns
        How long the host's read keeps a DIMM busy, in ns; same shape.
    dimm
        The DIMM that holds the expert, negative if it is striped over all; same shape.
    """
    experts = empty_table(7, len(gpu_ns))
    for i in range(len(gpu_ns)):
        experts[NDP, i] = 0
        experts[GPU, i], experts[CPU, i] = gpu_ns[i], cpu_ns[i]
        experts[DRAM + GPU, i], experts[DRAM + CPU, i] = gpu_dram_ns[i], cpu_dram_ns[i]
        experts[DRAM + NDP, i] = 0 if dimm[i] < 0 else ndp_ns[i]
        experts[PLACE, i] = STRIPED_READS if dimm[i] < 0 else OWN + dimm[i]
    return experts


@compiled
def loads_of(experts: Ints, domain: Ints, dimms: int) -> Ints:
    """Return the loads of a schedule as an array `load` (Eq. 5 and 6)."""
    load = np.zeros(OWN + dimms, np.int64)
    for i in range(len(domain)):
        if domain[i] != IDLE:
            _add(experts, load, i, domain[i], 1)
    return load


@compiled
def busiest_dimm(load: Ints) -> Any:
    """Return the lowest of the DIMMs that are busy longest, as an index into `load`."""
    busiest = OWN
    for at in range(OWN + 1, len(load)):
        if load[at] > load[busiest]:
            busiest = at
    return busiest


@compiled
def makespan_of(load: Ints) -> Any:
    """Return the load of the busiest device (Eq. 7)."""
    return max(load[GPU], load[CPU], load[STRIPED_READS] + load[busiest_dimm(load)])


def device_loads(experts: Ints, domain: Ints, dimms: int) -> Ints:
    """Return how long each device is busy, in ns, shape (2 + dimms,): GPU, CPU, DIMM 0, 1, ..."""
    load = loads_of(experts, domain, dimms)
    return np.concatenate([load[:STRIPED_READS], load[STRIPED_READS] + load[OWN:]])


@compiled
def refine(experts: Ints, domain: Ints, dimms: int, every: bool, by_growth: bool) -> Any:
    """Improve a schedule in place by TriMoE's bottleneck-aware refinement; return its makespan.

    The bottleneck device's costliest expert is the candidate. Of the other devices it moves to the
    one that gives the least makespan, at a tie to the one whose own total grows least, as long as
    the makespan falls (TriMoE 4.2). `moeopt.problems.tri_domain.heuristics.trimoe` says what is
    settled where the paper is silent; of equally costly experts the first row comes first.

    Parameters
    ----------
    experts, domain, dimms
        The table, the schedule to start from, and the number of DIMMs.
    every
        Whether the device's other experts are candidates, too, once costlier ones cannot move.
    by_growth
        Whether a tie goes to the device whose own total grows least, or else to the cheapest path.
    """
    load = loads_of(experts, domain, dimms)
    while True:
        makespan = makespan_of(load)
        now, place = NDP, busiest_dimm(load)
        if load[GPU] == makespan:
            now = GPU
        elif load[CPU] == makespan:
            now = CPU
        row, to = -1, now
        while to == now:
            tried = row
            row = _costliest(experts, domain, now, place, tried)
            if row < 0 or (tried >= 0 and not every):
                return makespan
            to = _best_domain(experts, load, row, now, makespan, by_growth)
        _add(experts, load, row, now, -1)
        _add(experts, load, row, to, 1)
        domain[row] = to


@compiled
def _add(experts: Ints, load: Ints, row: int, domain: int, sign: int) -> None:
    """Add an expert's run in a domain to the loads; with `sign` -1, take it away."""
    if domain != NDP:
        load[domain] += sign * experts[domain, row]
    load[experts[PLACE, row]] += sign * experts[DRAM + domain, row]


@compiled
def _costliest(experts: Ints, domain: Ints, now: int, place: int, tried: int) -> int:
    """Return the costliest expert on a host, or on the NDP unit at `place`; -1 if none.

    Equal ones in order of the rows, and only what comes after the row `tried`, if that is not -1.
    """
    cost = DRAM + NDP if now == NDP else now
    found = -1
    for i in range(len(domain)):
        there = domain[i] == now and (now != NDP or experts[PLACE, i] == place)
        if there and tried >= 0:
            there = experts[cost, i] < experts[cost, tried] or (
                experts[cost, i] == experts[cost, tried] and i > tried
            )
        if there and (found < 0 or experts[cost, i] > experts[cost, found]):
            found = i
    return found


@compiled
def _best_domain(
    experts: Ints, load: Ints, row: int, now: int, makespan: int, by_growth: bool
) -> int:
    """Return the domain that lowers the makespan most, `now` if none does."""
    best, best_growth, best_domain = makespan, 0, now
    for to in range(2 if experts[PLACE, row] == STRIPED_READS else 3):
        if to == now:
            continue
        _add(experts, load, row, now, -1)
        _add(experts, load, row, to, 1)
        after = makespan_of(load)
        _add(experts, load, row, to, -1)
        _add(experts, load, row, now, 1)
        growth = experts[DRAM + NDP if to == NDP else to, row]
        if to == NDP and by_growth:  # its DIMM is relieved of the host's read at the same time
            growth -= experts[DRAM + now, row]
        if after < best or (after == best and best_domain != now and growth < best_growth):
            best, best_growth, best_domain = after, growth, to
    return best_domain
