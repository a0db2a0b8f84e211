"""An assignment as a schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterable, Iterator
from typing import Literal

from moeopt.problems.view import Bar, Difference, Lane, different_domains

from .check import loads
from .instance import Expert, Instance
from .solution import Solution

Piece = tuple[int, str, Literal["work", "read", "transfer"]]


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per device: GPU, CPU, DIMMs, then the PCIe link and the channels, if any.

    The order on a device is free (Eq. 5 and 6 are sums): longest first, and on a DIMM the hosts'
    reads before its own NDP work.
    """
    pairs = list(zip(instance.experts, solution.assignment, strict=True))
    on_gpu = [e for e, d in pairs if d == "gpu"]
    base: list[Piece] = [(instance.base_ns, "base", "work")]
    gpu: list[Piece] = [(e.gpu_work_ns, str(e.expert), "work") for e in on_gpu]
    host = [
        _lane("GPU", base + gpu),
        _lane("CPU", ((e.cpu_ns, str(e.expert), "work") for e, d in pairs if d == "cpu")),
    ]
    reads = [(e, e.gpu_dram_ns if d == "gpu" else e.cpu_dram_ns) for e, d in pairs if d != "ndp"]
    for dimm in range(instance.dimms):
        charges = [(e, instance.charge_ns(e, read)) for e, read in reads]
        own = [e for e, d in pairs if d == "ndp" and e.dimm == dimm]
        host.append(_lane(f"DIMM {dimm}", _dimm_pieces({dimm}, charges, own)))
    if instance.two_parts:
        host.append(_lane("PCIe", ((e.pcie_ns or 0, str(e.expert), "transfer") for e in on_gpu)))
    for channel in sorted(set(instance.channels or ())):
        dimms = {dimm for dimm, of in enumerate(instance.channels or ()) if of == channel}
        host.append(_lane(f"channel {channel}", _dimm_pieces(dimms, reads, [])))
    return host


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return on which device the makespan is, and how many devices share it.

    After `trimoe` this is where the refinement stopped: it ends on a bottleneck that it cannot
    relieve. Ties as in the refinement: GPU (or its PCIe link), CPU, lowest DIMM, channel.
    """
    load = loads(instance, solution)
    devices = {
        "gpu": load.gpu_ns,
        "pcie": load.pcie_ns,
        "cpu": load.cpu_ns,
        "dimm": max(load.dimm_ns),
        "channel": max(load.channel_ns, default=0),
    }
    makespan = load.makespan_ns
    hosts = [load.gpu_ns, load.cpu_ns, load.pcie_ns]
    tied = [*hosts, *load.dimm_ns, *load.channel_ns].count(makespan)
    bottleneck = next(name for name, busy in devices.items() if busy == makespan)
    return {"bottleneck": bottleneck, "devices_at_makespan": tied}


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that run in different domains, by their tokens."""
    yield from different_domains(instance.experts, ours.assignment, best.assignment)


def _dimm_pieces(
    dimms: set[int], reads: list[tuple[Expert, int]], own: list[Expert]
) -> Iterable[Piece]:
    """Yield the host reads of experts that lie on some DIMMs or on all, and NDP work."""
    for expert, dram_ns in reads:
        if expert.dimm is None or expert.dimm in dimms:
            yield dram_ns, str(expert.expert), "read"
    for expert in own:
        yield expert.ndp_ns or 0, str(expert.expert), "work"


def _lane(device: str, pieces: Iterable[Piece]) -> Lane:
    bars, clock = [], 0
    for length, label, kind in sorted(pieces, key=lambda piece: (piece[2], -piece[0], piece[1])):
        if length:
            bars.append(Bar(clock, clock + length, label, kind))
            clock += length
    return Lane(device, tuple(bars))
