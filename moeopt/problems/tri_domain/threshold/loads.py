"""Device loads of a schedule in compiled code: how they are laid out, and what one move changes.

All that is known of the experts is in one table, since each array that a compiled function takes
costs compile time. `experts` has shape (7, experts): rows `GPU` and `CPU` hold the host's time, row
``DRAM + domain`` how long the DIMMs are busy, and `PLACE` which DIMMs: see next.

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
DRAM = 3
PLACE = 6
STRIPED_READS = 2
OWN = 3

Ints = NDArray[np.int64]
Domains = NDArray[np.int8]


@compiled
def room_for(rows: int, columns: int) -> Ints:
    """Return a table without values; Numba compiles `empty` anew for each constant in a shape."""
    return np.empty((rows, columns), np.int64)


@compiled
def table_of(
    gpu_ns: Ints, cpu_ns: Ints, ndp_ns: Ints, gpu_dram_ns: Ints, cpu_dram_ns: Ints, dimm: Ints
) -> Ints:
    """Return the table `experts`; what does not apply to an expert is 0."""
    experts = room_for(7, len(gpu_ns))
    for i in range(len(gpu_ns)):
        experts[NDP, i] = 0
        experts[GPU, i], experts[CPU, i] = gpu_ns[i], cpu_ns[i]
        experts[DRAM + GPU, i], experts[DRAM + CPU, i] = gpu_dram_ns[i], cpu_dram_ns[i]
        experts[DRAM + NDP, i] = 0 if dimm[i] < 0 else ndp_ns[i]
        experts[PLACE, i] = STRIPED_READS if dimm[i] < 0 else OWN + dimm[i]
    return experts


@compiled
def loads_of(experts: Ints, domain: Domains, dimms: int) -> Ints:
    """Return the loads of a schedule."""
    load = np.zeros(OWN + dimms, np.int64)
    for i in range(len(domain)):
        if domain[i] != NDP:
            load[domain[i]] += experts[domain[i], i]
        load[experts[PLACE, i]] += experts[DRAM + domain[i], i]
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
