"""The checker: what makes an assignment valid and what it costs. Knows nothing of solvers."""

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .instance import (
    DOMAINS,
    STRIPED,
    Copy,
    Domain,
    Expert,
    Instance,
    Solution,
    runs_of,
    solution_of,
)

CONSTRAINTS = {
    "TD-C1": "each expert runs in exactly one domain",
    "TD-C2": "an expert runs from a copy that it has, on NDP from a localized one, on its DIMM",
    "TD-C3": "the GPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "TD-C4": "the CPU's costs sum to at most the makespan (TriMoE Eq. 5)",
    "TD-C5": "a DIMM's NDP work and host reads sum to at most the makespan (TriMoE Eq. 6)",
    "TD-C6": "a memory channel's host reads sum to at most the makespan",
    "TD-C7": "the transfers over PCIe sum to at most the makespan",
}


OBJECTIVE = ("makespan_ns",)
"""What is minimised, in order of importance; the name ends with the unit."""


FEW = 24
"""Up to so many experts are added up one by one, which is faster there than with arrays."""

NUMBER: dict[Domain | None, int] = {None: -1} | {d: k for k, d in enumerate(DOMAINS)}


class Loads(NamedTuple):
    """How long each device is busy, in ns.

    `dimm_ns` has one entry per DIMM. `channel_ns` has one per memory channel, by rising
    number, and none where channels are no limit; `pcie_ns` is 0 where a run on the GPU is one piece
    of work.
    """

    gpu_ns: int
    cpu_ns: int
    dimm_ns: tuple[int, ...]
    channel_ns: tuple[int, ...] = ()
    pcie_ns: int = 0

    @property
    def makespan_ns(self) -> int:
        """The load of the busiest of them (TriMoE Eq. 7)."""
        return max(self.gpu_ns, self.cpu_ns, *self.dimm_ns, *self.channel_ns, self.pcie_ns)


def loads(instance: Instance, solution: Solution) -> Loads:
    """Return the busy time of every device under an assignment (TriMoE Eq. 5 and 6).

    A striped expert that a host reads keeps every channel busy, and every DIMM for its share; a
    localized one its own DIMM and that one's channel. NDP work keeps no channel busy.
    Work in a domain that the expert may not use counts for nothing, and one run from a copy that it
    has not counts as run from its first; `violations` reports both.
    """
    if len(instance.experts) > FEW and solution.source is None:
        return _added_up(instance, _numbers(instance, solution.assignment))
    gpu, cpu, pcie, every_dimm, every_channel = instance.base_ns, 0, 0, 0, 0
    dimm = [0] * instance.dimms
    channel_of = instance.channels or ()
    channel = dict.fromkeys(sorted(channel_of), 0)
    pairs = zip(instance.experts, solution.assignment, strict=False)
    for row, (expert, domain) in enumerate(pairs):
        lie = used_copy(expert, solution.source_of(row)) or expert
        read = work = 0
        if domain == "gpu":
            gpu += lie.gpu_work_ns
            pcie += lie.pcie_ns or 0
            read = lie.gpu_dram_ns
        elif domain == "cpu":
            cpu += lie.cpu_ns
            read = lie.cpu_dram_ns
        elif domain == "ndp" and lie.ndp_ns is not None:
            work = lie.ndp_ns
        if lie.dimm is None:
            every_dimm += instance.striped_charge_ns(read)
            every_channel += read
        else:
            dimm[lie.dimm] += read + work
            if channel_of:
                channel[channel_of[lie.dimm]] += read
    return Loads(
        gpu,
        cpu,
        tuple(every_dimm + own for own in dimm),
        tuple(every_channel + own for own in channel.values()),
        pcie,
    )


def _numbers(instance: Instance, assignment: Sequence[Domain | None]) -> NDArray[np.int64]:
    """Return each expert's domain by its place in `DOMAINS`; -1 if it runs nowhere."""
    size = len(instance.experts)
    known = map(NUMBER.__getitem__, assignment[:size])
    run = np.fromiter(known, np.int64, min(len(assignment), size))
    return run if len(run) == size else np.append(run, [NUMBER[None]] * (size - len(run)))


def _added_up(instance: Instance, run: NDArray[np.int64]) -> Loads:
    """Return the loads of many experts, all run from their first copies: `loads` with arrays."""
    c = instance.columns
    gpu, cpu = run == NUMBER["gpu"], run == NUMBER["cpu"]
    read = np.where(gpu, c.gpu_dram_ns, c.cpu_dram_ns * cpu)
    busy = read + c.ndp_ns * (run == NUMBER["ndp"])
    if instance.dimm_share is not None:
        part, whole = instance.dimm_share
        busy = np.where(c.dimm == STRIPED, -(-read * part // whole), busy)
    dimm = np.zeros(instance.dimms + 1, np.int64)  # at the end, where -1 leads, what all have
    np.add.at(dimm, c.dimm, busy)
    channel: list[int] = []
    if instance.channels is not None:
        numbers, of_dimm = np.unique(instance.channels, return_inverse=True)
        own = np.zeros(len(numbers) + 1, np.int64)
        np.add.at(own, np.append(of_dimm, -1)[c.dimm], read)
        channel = (own[:-1] + own[-1]).tolist()
    return Loads(
        instance.base_ns + int(c.gpu_work_ns.dot(gpu)),
        int(c.cpu_ns.dot(cpu)),
        tuple((dimm[:-1] + dimm[-1]).tolist()),
        tuple(channel),
        int(c.pcie_ns.dot(gpu)),
    )


def used_copy(expert: Expert, source: int | None) -> Expert | Copy | None:
    """Return the copy of an expert on a DIMM, its first for None; None if there is none such."""
    if source is None:
        return expert
    return next((copy for copy in expert.copies or () if copy.dimm == source), None)


def violations(
    instance: Instance, solution: Solution, makespan_ns: int | None = None
) -> list[tuple[str, str]]:
    """Return what is wrong with a solution, as (constraint ID, sentence); empty if it is valid.

    Parameters
    ----------
    instance, solution
        The problem and the decision to check.
    makespan_ns
        The makespan claimed for the solution, if there is a claim: TD-C3 to TD-C7 hold a schedule
        to it. Without a claim the makespan is whatever the assignment gives.
    """
    found = []
    if len(solution.assignment) != len(instance.experts):
        count = f"{len(solution.assignment)} entries for {len(instance.experts)} experts"
        found.append(("TD-C1", f"assignment has {count}"))
    looked_at = () if _all_run(instance, solution) else instance.experts
    for row, (expert, domain) in enumerate(zip(looked_at, solution.assignment, strict=False)):
        source = solution.source_of(row)
        lie = used_copy(expert, source)
        if domain is None:
            found.append(("TD-C1", f"assignment[{row}]: expert {expert.expert} runs nowhere"))
        elif lie is None:
            reason = f"expert {expert.expert} has no further copy on DIMM {source}"
            found.append(("TD-C2", f"source[{row}]: {reason}"))
        elif domain == "ndp" and lie.dimm is None:
            reason = f"expert {expert.expert} is striped and cannot run on NDP"
            found.append(("TD-C2", f"assignment[{row}]: {reason}"))
    if solution.source is not None and len(solution.source) != len(instance.experts):
        count = f"{len(solution.source)} entries for {len(instance.experts)} experts"
        found.append(("TD-C2", f"source has {count}"))
    if makespan_ns is not None:
        found += _overruns(instance, loads(instance, solution), makespan_ns)
    return found


def _all_run(instance: Instance, solution: Solution) -> bool:
    """Tell whether every one of many experts runs where it may, from its first copy."""
    if len(instance.experts) <= FEW or solution.source is not None:
        return False
    run, striped = _numbers(instance, solution.assignment), instance.columns.dimm == STRIPED
    return not ((run == NUMBER[None]) | (run == NUMBER["ndp"]) & striped).any()


def objective(instance: Instance, solution: Solution) -> int:
    """Return the makespan in ns (TriMoE Eq. 7)."""
    return loads(instance, solution).makespan_ns


def _overruns(instance: Instance, load: Loads, makespan_ns: int) -> list[tuple[str, str]]:
    if load.makespan_ns <= makespan_ns:
        return []
    devices = [("TD-C3", "the GPU", load.gpu_ns), ("TD-C4", "the CPU", load.cpu_ns)]
    devices += [("TD-C5", f"DIMM {d}", busy) for d, busy in enumerate(load.dimm_ns)]
    numbers = sorted(set(instance.channels or ()))
    channels = zip(numbers, load.channel_ns, strict=True)
    devices += [("TD-C6", f"channel {c}", busy) for c, busy in channels]
    devices.append(("TD-C7", "the PCIe link", load.pcie_ns))
    claim = f"past the claimed makespan of {makespan_ns} ns"
    return [
        (rule, f"{device} is busy for {busy} ns, {claim}")
        for rule, device, busy in devices
        if busy > makespan_ns
    ]


MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return prod(len(runs) for runs in runs_of(instance))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of domains and copies, valid or not: the checker decides."""
    for runs in product(*runs_of(instance)):
        yield solution_of(instance, runs)
