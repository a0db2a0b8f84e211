"""An assignment as a schedule to look at, and the facts about it that reports ask for."""

from collections.abc import Iterator
from typing import Literal

from moeopt.core.view import (
    Changes,
    Difference,
    Lane,
    different_domains,
    expert_words,
    longest_first,
    replaced,
)

from .check import loads
from .instance import DOMAINS, Instance, Solution, modes_of

Piece = tuple[int, str, Literal["work", "read", "transfer"]]


def lanes(instance: Instance, solution: Solution) -> list[Lane]:
    """Return one lane per device: GPU, CPU, DIMMs, then the PCIe link and the channels, if any.

    The order on a device is free (Eq. 5 and 6 are sums): longest first, and on a DIMM the hosts'
    reads before its own NDP work.
    """
    pieces: dict[str, list[Piece]] = {
        name: [] for group in instance.modes.groups for name in group.members
    }
    pieces["GPU"].append((instance.base_ns, "base", "work"))
    for expert, mode in zip(instance.experts, modes_of(instance, solution).tolist(), strict=True):
        for entry in instance.modes.entries(mode):
            pieces[entry.member].append((entry.ns, str(expert.expert), entry.kind))
    return [longest_first(name, of) for name, of in pieces.items()]


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


def changes(instance: Instance, solution: Solution) -> Changes:
    """Yield every other domain of each expert, from each of its copies."""
    for row, (expert, domain) in enumerate(zip(instance.experts, solution.assignment, strict=True)):
        here, what = solution.source_of(row), expert_words(expert.expert, expert.tokens)
        for number, lie in enumerate(expert.lies):
            source = lie.dimm if number else None
            for other in DOMAINS if lie.ndp_ns is not None else DOMAINS[:2]:
                if (other, source) == (domain, here):
                    continue
                update: dict[str, object] = {
                    "assignment": replaced(solution.assignment, row, other)
                }
                if instance.has_copies:
                    sources = solution.source or (None,) * len(instance.experts)
                    update["source"] = replaced(sources, row, source)
                copy = "" if source is None else f", copy on DIMM {source}"
                yield f"{what} from {domain} to {other}{copy}", solution.model_copy(update=update)
