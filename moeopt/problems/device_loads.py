"""Device loads of one layer's schedule on a fixed layout: the sums of TriMoE Eq. 5-7, compiled.

These sums stand in the checkers, in the simulator's engine, and here for every algorithm. All that
is known of the experts is in one table, since each array that a compiled function takes
costs compile time. `experts` is int64 of shape (7, experts), in ns: rows `GPU` and `CPU` hold the
host's time, row ``DRAM + domain`` how long the expert keeps busy each DIMM that it lies on, and
`PLACE` which DIMMs: see next. A schedule `domain` is int64 of shape (experts,): `GPU`, `CPU` or
`NDP`, or `IDLE` for an expert that runs nowhere.

An array `load` holds the GPU's time, the CPU's time, the reads of striped experts that keep every
DIMM busy, and then each DIMM's own work: ``[GPU, CPU, STRIPED_READS, OWN + 0, OWN + 1, ...]``. DIMM
d is busy for ``load[STRIPED_READS] + load[OWN + d]``. An expert changes the host that runs it and
one of the other entries, its place: `STRIPED_READS` if it is striped, else that of its DIMM. So a
move changes at most four numbers, however many DIMMs there are.

Schema 2 (`moeopt.problems.host_memory`): `table_for` returns the table of whatever fields there
are, and everything here takes it. It has five rows more: `PCIE`, how long a run on the GPU keeps
the link busy; ``READ + host``, how long the host's read keeps a channel busy; `CHANNEL`, 0 for a
striped expert, which all channels serve, or 1 + its DIMM's channel, counted by rising number; and
`PATH`, what the whole path to the GPU costs, for row `GPU` then holds the computation alone. Row
``DRAM + host`` holds the share that a striped read takes of each DIMM. A last column beyond the
schedule's experts is the GPU's base load. After the DIMMs' entries `load` has the link's, that of
reads that keep every channel busy, and each channel's own: ``[..., PCIe, STRIPED, 0, 1, ...]``.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import inner, part, short
from moeopt.problems.host_memory import HostMemory

GPU, CPU, NDP = 0, 1, 2
IDLE = -1
DRAM = 3
PLACE = 6
PCIE = 7
READ = 8
CHANNEL = 10
PATH = 11
STRIPED_READS = 2
OWN = 3
CHANNELS = 3
"""What a bottleneck is called that is no domain."""

Ints = NDArray[np.int64]


def table_for(
    memory: HostMemory,
    gpu_ns: Ints,
    cpu_ns: Ints,
    ndp_ns: Ints,
    gpu_dram_ns: Ints,
    cpu_dram_ns: Ints,
    dimm: Ints,
    gpu_calc_ns: Ints | None = None,
    pcie_ns: Ints | None = None,
) -> Ints:
    """Return the table `experts` of an instance of schema 1 or 2.

    Parameters
    ----------
    memory
        The instance, or whatever has its channels, share and base load.
    gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm
        As in `table_of`: complete paths, and complete reads, before any share is taken of them.
    gpu_calc_ns, pcie_ns
        The two parts of the GPU's work in ns, shape (experts,); None where it is one.
    """
    plain = table_of(gpu_ns, cpu_ns, ndp_ns, gpu_dram_ns, cpu_dram_ns, dimm)
    fields = (memory.channels, memory.dimm_share, memory.gpu_base_ns, pcie_ns)
    if all(field is None for field in fields):
        return plain
    size = plain.shape[1]
    experts = np.zeros((PATH + 1, size + (memory.base_ns > 0)), np.int64)
    experts[: PLACE + 1, :size] = plain
    experts[PATH, :size] = gpu_ns
    if gpu_calc_ns is not None and pcie_ns is not None:
        experts[GPU, :size], experts[PCIE, :size] = gpu_calc_ns, pcie_ns
    if memory.channels is not None:
        experts[READ : READ + NDP, :size] = plain[DRAM : DRAM + NDP]
        channel_of = np.unique(memory.channels, return_inverse=True)[1]
        experts[CHANNEL, :size] = np.where(dimm < 0, 0, 1 + channel_of[dimm])
    if memory.dimm_share is not None:
        part, whole = memory.dimm_share
        reads = plain[DRAM : DRAM + NDP]
        experts[DRAM : DRAM + NDP, :size] = np.where(dimm < 0, -(-reads * part // whole), reads)
    experts[GPU, size:], experts[PLACE, size:] = memory.base_ns, STRIPED_READS
    return experts


@inner
def empty_table(rows: int, columns: int) -> Ints:
    """Return a table without values; Numba compiles `empty` anew for each constant in a shape."""
    return np.empty((rows, columns), np.int64)


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
    experts = np.zeros((PLACE + 1, len(gpu_ns)), np.int64)
    experts[GPU], experts[CPU] = gpu_ns, cpu_ns
    experts[DRAM + GPU], experts[DRAM + CPU] = gpu_dram_ns, cpu_dram_ns
    experts[DRAM + NDP] = np.where(dimm < 0, 0, ndp_ns)
    experts[PLACE] = np.where(dimm < 0, STRIPED_READS, OWN + dimm)
    return experts


@short(4096)
def loads_of(experts: Ints, domain: Ints, dimms: int) -> Ints:
    """Return the loads of a schedule as an array `load` (Eq. 5 and 6)."""
    entries = OWN + dimms
    if len(experts) > PCIE:
        channels = 1
        for i in range(experts.shape[1]):
            channels = max(channels, experts[CHANNEL, i])
        entries += 2 + channels
    load = np.zeros(entries, np.int64)
    for i in range(experts.shape[1]):
        if i >= len(domain):
            load[GPU] += experts[GPU, i]
        elif domain[i] != IDLE:
            put(experts, load, dimms, i, domain[i], 1)
    return load


@inner
def busiest(load: Ints, begin: int, end: int) -> int:
    """Return the first of the largest of the entries from `begin` to before `end`, as an index."""
    found = begin
    for at in range(begin + 1, end):
        if load[at] > load[found]:
            found = at
    return found


@short(4096)
def makespan_of(load: Ints, dimms: int) -> Any:
    """Return the load of the busiest device (Eq. 7), or of the PCIe link or a channel if longer."""
    link = OWN + dimms
    dimm = load[STRIPED_READS] + load[busiest(load, OWN, link)]
    makespan = max(load[GPU], load[CPU], dimm)
    if len(load) > link:
        channel = load[link + 1] + load[busiest(load, link + 2, len(load))]
        makespan = max(makespan, load[link], channel)
    return makespan


def device_loads(experts: Ints, domain: Ints, dimms: int) -> Ints:
    """Return how long each device is busy, in ns: GPU, CPU, DIMM 0, 1, ..., shape (2 + dimms,).

    The table of an instance of schema 2 gives the PCIe link and the channels after the DIMMs, up to
    the last channel that some DIMM with experts lies on.
    """
    load = loads_of(experts, domain, dimms)
    link = OWN + dimms
    dimm = load[STRIPED_READS] + load[OWN:link]
    channel = load[link + 1 : link + 2] + load[link + 2 :]
    return np.concatenate([load[:STRIPED_READS], dimm, load[link : link + 1], channel])


@short(4096)
def refine(experts: Ints, domain: Ints, dimms: int, every: bool, by_growth: bool) -> Any:
    """Improve a schedule in place by TriMoE's bottleneck-aware refinement; return its makespan.

    The bottleneck device's costliest expert is the candidate. Of the other devices it moves to the
    one that gives the least makespan, at a tie to the one whose own total grows least, as long as
    the makespan falls (TriMoE 4.2). `moeopt.problems.tri_domain.heuristics.trimoe` says what is
    assumed where the paper is silent; of equally costly experts the first row comes first.

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
        makespan = makespan_of(load, dimms)
        device, place = _bottleneck(load, dimms, makespan)
        row, moves = -1, False
        while not moves:
            tried = row
            row = _costliest(experts, domain, device, place, tried)
            if row < 0 or (tried >= 0 and not every):
                return makespan
            now = domain[row]
            to = _best_domain(experts, load, dimms, row, now, makespan, by_growth)
            moves = to != now
        put(experts, load, dimms, row, now, -1)
        put(experts, load, dimms, row, to, 1)
        domain[row] = to


@part
def _bottleneck(load: Ints, dimms: int, makespan: int) -> tuple[int, int]:
    """Return the first of GPU (or its PCIe link), CPU, NDP and channels that is the bottleneck.

    With `NDP` comes the entry of the lowest DIMM, with `CHANNELS` the lowest channel as the table
    numbers them.
    """
    link = OWN + dimms
    dimm = busiest(load, OWN, link)
    if load[GPU] == makespan or (len(load) > link and load[link] == makespan):
        return GPU, 0
    if load[CPU] == makespan:
        return CPU, 0
    if load[STRIPED_READS] + load[dimm] == makespan:
        return NDP, dimm
    return CHANNELS, busiest(load, link + 2, len(load)) - link - 1


@short(2**20)
def put(experts: Ints, load: Ints, dimms: int, row: int, domain: int, sign: int) -> None:
    """Add an expert's run in a domain to the loads; with `sign` -1, take it away."""
    if domain != NDP:
        load[domain] += sign * experts[domain, row]
    load[experts[PLACE, row]] += sign * experts[DRAM + domain, row]
    if domain != NDP and len(experts) > PCIE:
        link = OWN + dimms
        load[link + 1 + experts[CHANNEL, row]] += sign * experts[READ + domain, row]
        if domain == GPU:
            load[link] += sign * experts[PCIE, row]


@inner
def _path_cost(experts: Ints, row: int, domain: int) -> Any:
    """Return what an expert's path costs (Eq. 1-4)."""
    if domain == NDP:
        return experts[DRAM + NDP, row]
    if domain == GPU and len(experts) > PCIE:
        return experts[PATH, row]
    return experts[domain, row]


@part
def _costliest(experts: Ints, domain: Ints, device: int, place: int, tried: int) -> int:
    """Return the costliest expert on a device, -1 if none: a host, or the NDP unit at `place`.

    On a channel these are the localized experts that hosts read through it. Equal ones come in
    order of the rows, and only those after the row `tried`, if that is not -1.
    """
    found, most, last = -1, -1, -1
    if tried >= 0:
        last = _path_cost(experts, tried, domain[tried])
    for i in range(len(domain)):
        there = domain[i] == device
        if device == NDP:
            there = there and experts[PLACE, i] == place
        elif device == CHANNELS:
            there = (domain[i] == GPU or domain[i] == CPU) and experts[CHANNEL, i] == place
        if not there:
            continue
        cost = _path_cost(experts, i, domain[i])
        if cost > most and (tried < 0 or cost < last or (cost == last and i > tried)):
            found, most = i, cost
    return found


@part
def _best_domain(
    experts: Ints, load: Ints, dimms: int, row: int, now: int, makespan: int, by_growth: bool
) -> int:
    """Return the domain that lowers the makespan most, `now` if none does."""
    best, best_growth, best_domain = makespan, 0, now
    put(experts, load, dimms, row, now, -1)
    for to in range(2 if experts[PLACE, row] == STRIPED_READS else 3):
        if to == now:
            continue
        put(experts, load, dimms, row, to, 1)
        after = makespan_of(load, dimms)
        put(experts, load, dimms, row, to, -1)
        growth = _path_cost(experts, row, to)
        if by_growth and to == NDP:  # its DIMM is relieved of the host's read at the same time
            growth -= experts[DRAM + now, row]
        elif by_growth:
            growth = experts[to, row]
        if after < best or (after == best and best_domain != now and growth < best_growth):
            best, best_growth, best_domain = after, growth, to
    put(experts, load, dimms, row, now, 1)
    return best_domain
