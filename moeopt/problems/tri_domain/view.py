"""An assignment as a schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterable, Iterator
from typing import Literal

from moeopt.problems.view import Bar, Difference, Lane, different_domains

from .check import loads
from .instance import Expert, Instance
from .solution import Solution

Piece = tuple[int, str, Literal["work", "read"]]


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per device: GPU, CPU, DIMMs.

    The order on a device is free (Eq. 5 and 6 are sums): longest first, and on a DIMM the hosts'
    reads before its own NDP work.
    """
    pairs = list(zip(instance.experts, solution.assignment, strict=True))
    host = [
        _lane("GPU", ((e.gpu_ns, str(e.expert), "work") for e, d in pairs if d == "gpu")),
        _lane("CPU", ((e.cpu_ns, str(e.expert), "work") for e, d in pairs if d == "cpu")),
    ]
    reads = [(e, e.gpu_dram_ns if d == "gpu" else e.cpu_dram_ns) for e, d in pairs if d != "ndp"]
    for dimm in range(instance.dimms):
        own = [e for e, d in pairs if d == "ndp" and e.dimm == dimm]
        host.append(_lane(f"DIMM {dimm}", _dimm_pieces(dimm, reads, own)))
    return host


def facts(instance: Instance, solution: Solution) -> dict[str, str | int]:
    """Return on which device the makespan is, and how many devices share it.

    After `trimoe` this is where the refinement stopped: it ends on a bottleneck that it cannot
    relieve. Ties as in the refinement: GPU, CPU, lowest DIMM.
    """
    load = loads(instance, solution)
    devices = {"gpu": load.gpu_ns, "cpu": load.cpu_ns, "dimm": max(load.dimm_ns)}
    makespan = load.makespan_ns
    tied = [load.gpu_ns, load.cpu_ns, *load.dimm_ns].count(makespan)
    bottleneck = next(name for name, busy in devices.items() if busy == makespan)
    return {"bottleneck": bottleneck, "devices_at_makespan": tied}


def differences(instance: Instance, ours: Solution, best: Solution) -> Iterator[Difference]:
    """Yield the experts that run in different domains, by their tokens."""
    yield from different_domains(instance.experts, ours.assignment, best.assignment)


def _dimm_pieces(dimm: int, reads: list[tuple[Expert, int]], own: list[Expert]) -> Iterable[Piece]:
    for expert, dram_ns in reads:
        if expert.dimm is None or expert.dimm == dimm:
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
