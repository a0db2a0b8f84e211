"""Device loads of a schedule in compiled code: how they are laid out, and what one move changes.

An array `load` holds the GPU's time, the CPU's time, the striped reads that keep every DIMM busy
and then each DIMM's own work: ``[GPU, CPU, STRIPED_READS, OWN + 0, OWN + 1, ...]``. DIMM d is busy
for ``load[STRIPED_READS] + load[OWN + d]``. An expert changes the host that runs it and one of the
other entries, its place: `STRIPED_READS` if it is striped, else that of its DIMM.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

GPU, CPU, NDP = 0, 1, 2
STRIPED_READS = 2
OWN = 3

Ints = NDArray[np.int64]
Domains = NDArray[np.int8]


@compiled
def tables(
    gpu_ns: Ints, cpu_ns: Ints, ndp_ns: Ints, gpu_dram_ns: Ints, cpu_dram_ns: Ints, dimm: Ints
) -> tuple[Ints, Ints, Ints]:
    """Return host time and DIMM time by domain and expert, (3, experts), and places, (experts,).

    A striped expert's DIMM time on NDP is never read.
    """
    experts = len(gpu_ns)
    host = np.zeros((3, experts), np.int64)
    dram = np.empty((3, experts), np.int64)
    place = np.empty(experts, np.int64)
    for i in range(experts):
        host[GPU, i], host[CPU, i] = gpu_ns[i], cpu_ns[i]
        dram[GPU, i], dram[CPU, i], dram[NDP, i] = gpu_dram_ns[i], cpu_dram_ns[i], ndp_ns[i]
        place[i] = STRIPED_READS if dimm[i] < 0 else OWN + dimm[i]
    return host, dram, place


@compiled
def loads_of(host: Ints, dram: Ints, place: Ints, domain: Domains, dimms: int) -> Ints:
    """Return the loads of a schedule."""
    load = np.zeros(OWN + dimms, np.int64)
    for i in range(len(domain)):
        if domain[i] != NDP:
            load[domain[i]] += host[domain[i], i]
        load[place[i]] += dram[domain[i], i]
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
    """Return the load of the busiest device."""
    return max(load[GPU], load[CPU], load[STRIPED_READS] + load[busiest_dimm(load)])


@compiled
def move(host: Ints, dram: Ints, place: Ints, domain: Domains, load: Ints, i: int, to: int) -> None:
    """Let expert `i` run in domain `to`."""
    now = domain[i]
    if now != NDP:
        load[now] -= host[now, i]
    if to != NDP:
        load[to] += host[to, i]
    load[place[i]] += dram[to, i] - dram[now, i]
    domain[i] = to


@compiled
def trimmed(table: Ints, rows: int, columns: int) -> Ints:
    """Return a copy of the first rows and columns of a table."""
    out = np.empty((rows, columns), np.int64)
    for row in range(rows):
        for column in range(columns):
            out[row, column] = table[row, column]
    return out
