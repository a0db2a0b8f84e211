"""TriMoE's bottleneck-aware refinement (TriMoE 4.2), kept incremental: a move costs O(DIMMs)."""

from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Instance

GPU, CPU, NDP = range(3)

Choice = NDArray[np.int64]
"""One of GPU, CPU, NDP per expert."""


def refine(instance: Instance, choice: Choice) -> Choice:
    """Move the bottleneck's costliest expert while that lowers the makespan.

    `moeopt.problems.tri_domain.heuristics.trimoe` says what the paper states and what is settled.
    """
    schedule = _Schedule(instance, choice)
    while (candidate := schedule.costliest_on_bottleneck()) is not None:
        moves = [schedule.after(candidate, to) for to in schedule.other_domains(candidate)]
        makespan, _, domain = min(moves)
        if makespan >= schedule.makespan_ns:
            break
        schedule.move(candidate, domain)
    return schedule.choice


class _Schedule:
    """Device loads under a choice, kept up to date move by move.

    Plain integers and one heap per device: with 18 devices and 256 experts the arrays are too short
    for NumPy calls to pay.
    """

    def __init__(self, instance: Instance, choice: Choice) -> None:
        c = instance.columns
        self.choice = choice.copy()
        self.cost = [c.gpu_ns.tolist(), c.cpu_ns.tolist(), c.ndp_ns.tolist()]
        self.dram = [c.gpu_dram_ns.tolist(), c.cpu_dram_ns.tolist(), c.ndp_ns.tolist()]
        self.expert, self.dimm = c.expert.tolist(), c.dimm.tolist()
        self.host = [0, 0]
        self.every_dimm = 0
        self.own = [0] * instance.dimms
        # Per device (GPU, CPU, DIMM 0...): its experts, costliest first, with stale entries left
        # in.
        self.queues: list[list[tuple[int, int, int]]] = [[] for _ in range(2 + instance.dimms)]
        for row, domain in enumerate(choice.tolist()):
            self._add(row, domain, 1)
            self.queues[self._device(row, domain)].append(self._entry(row, domain))
        for queue in self.queues:
            heapify(queue)

    @property
    def makespan_ns(self) -> int:
        return max(*self.host, self.every_dimm + max(self.own))

    def costliest_on_bottleneck(self) -> int | None:
        """Return the row to move away: None if the bottleneck device runs nothing."""
        loads = [*self.host, *(self.every_dimm + own for own in self.own)]
        device = loads.index(max(loads))
        queue = self.queues[device]
        while queue:
            row = queue[0][2]
            if self._device(row, int(self.choice[row])) == device:
                return row
            heappop(queue)
        return None

    def other_domains(self, row: int) -> list[int]:
        able = (GPU, CPU) if self.dimm[row] == STRIPED else (GPU, CPU, NDP)
        return [domain for domain in able if domain != self.choice[row]]

    def after(self, row: int, domain: int) -> tuple[int, int, int]:
        """Return (makespan, growth of the receiver's total, domain) if `row` moved there."""
        now = int(self.choice[row])
        self._add(row, now, -1)
        self._add(row, domain, 1)
        makespan = self.makespan_ns
        self._add(row, domain, -1)
        self._add(row, now, 1)
        growth = self.cost[domain][row]
        if domain == NDP:  # its DIMM is relieved of the host's read at the same time
            growth -= self.dram[now][row]
        return makespan, growth, domain

    def move(self, row: int, domain: int) -> None:
        self._add(row, int(self.choice[row]), -1)
        self._add(row, domain, 1)
        self.choice[row] = domain
        heappush(self.queues[self._device(row, domain)], self._entry(row, domain))

    def _device(self, row: int, domain: int) -> int:
        return 2 + self.dimm[row] if domain == NDP else domain

    def _entry(self, row: int, domain: int) -> tuple[int, int, int]:
        return (-self.cost[domain][row], self.expert[row], row)

    def _add(self, row: int, domain: int, sign: int) -> None:
        if domain != NDP:
            self.host[domain] += sign * self.cost[domain][row]
        if self.dimm[row] == STRIPED:
            self.every_dimm += sign * self.dram[domain][row]
        else:
            self.own[self.dimm[row]] += sign * self.dram[domain][row]
