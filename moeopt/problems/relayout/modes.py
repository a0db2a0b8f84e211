"""The assignment modes of each expert, in steps of the costs' common divisor."""

from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from .instance import Domain, Expert, Instance, Kind, active_experts, costs_ns, reads_ns
from .migrations import link_moves_allowed, link_use, prefetch_allowed


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    costs = [cost for expert in active_experts(instance) for cost in costs_ns(expert)]
    return gcd(instance.base_ns, *reads_ns(instance), *costs) or 1


@dataclass(frozen=True)
class Mode:
    """One migration or none, and a domain; times in steps.

    Attributes
    ----------
    row
        The expert's row in the instance.
    domain, kind
        Where it runs and how it migrates before; None if it does not.
    gpu, cpu, pcie
        Time on the hosts and on PCIe.
    reads
        1 if a host reads it striped, else 0.
    on_channel
        Whether a host reads it from the one DIMM where it lies then, which counts for that DIMM's
        channel.
    stays
        Time on the DIMM where it lies today.
    arrives
        Time on the DIMM where it is brought, None if to none. Which DIMM that is, is left open.
    """

    row: int
    domain: Domain
    kind: Kind | None = None
    gpu: int = 0
    cpu: int = 0
    pcie: int = 0
    reads: int = 0
    on_channel: bool = False
    stays: int = 0
    arrives: int | None = None


class Modes:
    """An instance as modes of its active experts, and the limits on migrations.

    Attributes
    ----------
    step_ns
        Every time is a multiple of it.
    of
        The modes of each active expert. Left out are those that another one replaces: a host's
        read of a localized expert that NDP serves in no more time of the same DIMM, and a GPU hit
        after a needless migration.
    base
        The GPU's load before any expert.
    striped_read, localized_read, channel_read
        How long a host's read keeps DIMMs busy, and a striped one every channel.
    reads
        Every number of striped reads that a solution may have.
    dimm
        Row -> the DIMM where the expert lies today, -1 if striped.
    """

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        self.step_ns = objective_grid(instance)
        self.dimms = instance.dimms
        self.base = instance.base_ns // self.step_ns
        charge_ns = instance.striped_charge_ns(instance.dram_striped_ns)
        self.striped_read = charge_ns // self.step_ns
        limited = instance.channels is not None
        self.channel_read = instance.dram_striped_ns // self.step_ns if limited else 0
        self.localized_read = instance.dram_localized_ns // self.step_ns
        self.prefetches = prefetch_allowed(instance)
        self.relayout_fits, self.rebalance_fits = link_moves_allowed(instance)
        self.dimm = instance.columns.dimm.tolist()
        self.rows = np.flatnonzero(instance.columns.tokens).tolist()
        self.of = {row: self._modes(row, instance.experts[row]) for row in self.rows}
        self.link_moves = self._most_link_moves()
        self._forced = sum(all(m.reads or m.kind for m in self.of[row]) for row in self._striped())
        most = len(self._striped()) + self.link_moves
        least = max(0, self._forced - self.prefetches - self.link_moves)
        self.reads = range(least, min(most, len(self.rows)) + 1)

    def leavers_allowed(self, reads: int) -> int:
        """Return how many localized experts may leave their DIMMs, at most, with so many reads.

        Striped experts that are not resident and yet not read must migrate as well.
        """
        return self.prefetches + self.link_moves - max(0, self._forced - reads)

    def link_ns(self, mode: Mode) -> int:
        """Return what a mode's migration takes of all links' windows together."""
        use = link_use(self.instance)
        if mode.kind in ("stripe", "localize"):
            return use.relayout_ns
        return use.rebalance_ns if mode.kind == "rebalance" else 0

    def _striped(self) -> list[int]:
        return [row for row in self.rows if self.dimm[row] < 0]

    def _most_link_moves(self) -> int:
        """Return how many experts the links can carry, at most."""
        link = link_use(self.instance)
        shortest = min(
            link.relayout_ns if self.relayout_fits else link.window_ns + 1,
            link.rebalance_ns if self.rebalance_fits else link.window_ns + 1,
        )
        if shortest == 0:
            return len(self.rows)
        return min(len(self.rows), link.window_ns // shortest)

    def _modes(self, row: int, expert: Expert) -> list[Mode]:
        step, striped = self.step_ns, expert.dimm is None
        ndp = expert.ndp_ns // step
        cpu = {True: expert.cpu_striped_ns // step, False: expert.cpu_localized_ns // step}
        hit = expert.gpu_work_ns(in_memory=True, striped=striped) // step

        def missing(kind: Kind | None, striped: bool, **on_dimms: Any) -> Mode:
            gpu = expert.gpu_work_ns(in_memory=False, striped=striped) // step
            pcie = expert.pcie_ns(striped=striped) // step
            return Mode(row, "gpu", kind, gpu=gpu, pcie=pcie, **on_dimms)

        found = []
        if expert.resident:
            found.append(Mode(row, "gpu", gpu=hit))
        elif self.prefetches:
            found.append(Mode(row, "gpu", "prefetch", gpu=hit))
        if striped or self.relayout_fits:
            kind: Kind | None = None if striped else "stripe"
            found.append(Mode(row, "cpu", kind, cpu=cpu[True], reads=1))
            if not expert.resident:
                found.append(missing(kind, True, reads=1))
        read = self.localized_read
        hosts_help = ndp > read
        if not striped:
            found.append(Mode(row, "ndp", stays=ndp))
            if hosts_help:
                found.append(Mode(row, "cpu", cpu=cpu[False], on_channel=True, stays=read))
            if hosts_help and not expert.resident:
                found.append(missing(None, False, on_channel=True, stays=read))
        if self.relayout_fits if striped else self.rebalance_fits:
            kind = "localize" if striped else "rebalance"
            found.append(Mode(row, "ndp", kind, arrives=ndp))
            if hosts_help:
                found.append(Mode(row, "cpu", kind, cpu=cpu[False], on_channel=True, arrives=read))
                if not expert.resident:
                    found.append(missing(kind, False, on_channel=True, arrives=read))
        return found
