"""A plan's steps in the event engine, task by task: for timelines and critical paths.

Times are those of `moeopt.systems.clock`, which adds up what each layer asks of each device; here
every task is kept, with what it waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.timeline import Resource, Timeline

from .migrations import PCIE, Transfer
from .work import CPU, GPU, NDP, Flags, Integers, LayerTimes, StepWork

FIRST, SECOND, LAST = range(3)
"""Priorities: shared experts, immediate CPU experts, reads; routed GPU and NDP work; deferred."""

HAND_OVER = "hand-over"


def resources(dimms: int, links: Sequence[str]) -> list[Resource]:
    """Return the resources of a machine: serial, but for hand-overs, which are pure delays."""
    devices = ["GPU", "CPU", *(f"DIMM {number}" for number in range(dimms)), *links]
    return [*map(Resource, devices), Resource(HAND_OVER, delay=True)]


@dataclass
class EventClock:
    """Adds the tasks of each step to an engine that has run the steps before."""

    dimms: int
    times: LayerTimes
    links: Sequence[str]

    def __post_init__(self) -> None:
        self.engine = Engine(resources(self.dimms, self.links))
        self.first_dimm = self.engine.index("DIMM 0")
        self._last: list[int] = []

    def run(self, work: StepWork, step: int) -> list[int]:
        """Return the times at which the layers of a step start, and at which it ends."""
        engine = self.engine
        waits, joins = self._last, list[int]()
        if self.times.step_ns:
            label = f"step {step}"
            waits = [engine.add("GPU", self.times.step_ns, after=waits, kind="step", label=label)]
        starts = []
        for layer in range(len(work.domain)):
            start, let, later = _Layer(self, work, layer, f"step {step} layer {layer}").add(waits)
            starts.append(start)
            waits, joins = let + joins, later
        engine.run()
        self._last = waits
        ends = [engine.finish_ns(handle) for handle in waits]
        return [*(engine.ready_ns(start) for start in starts), max(ends)]

    def timeline(self) -> Timeline:
        """Return everything that has run."""
        return self.engine.timeline()


class _Layer:
    """The tasks of one layer."""

    def __init__(self, clock: EventClock, work: StepWork, layer: int, label: str) -> None:
        self.engine, self.times, self.label = clock.engine, clock.times, label
        self.dimms, self.first_dimm = clock.dimms, clock.first_dimm
        self.layer, self.work = layer, work
        self.domain, self.dimm = work.domain[layer], work.dimm[layer]
        self.cost, self.dram = work.cost_ns[layer], work.dram_ns[layer]
        self.deferred = work.deferred[layer]

    def add(self, waits: list[int]) -> tuple[int, list[int], list[int]]:
        """Add the layer after `waits`.

        Returns
        -------
        tuple
            Its first task; what the next layer waits for; what the layer after that waits for.
        """
        t, layer = self.times, self.layer
        start = routed = self.one("GPU", t.attention_ns[layer], waits, kind="attention")
        if t.other_ns[layer]:
            routed = self.one("GPU", t.other_ns[layer], [start], kind="other")
        let = [routed]
        if t.shared_ns[layer]:
            let.append(self.one("GPU", t.shared_ns[layer], [routed], FIRST, kind="shared"))
        moves = self.transfers(self.work.transfers[layer], waits)
        go = [routed, *moves]
        let += moves
        on_gpu = self.domain == GPU
        let += self.on_gpu(go) + self.reads(on_gpu, go, FIRST)
        self.transfers(self.fetches(), go)
        outside, later = self.outside(go)
        return start, let + outside, later

    def on_gpu(self, go: list[int]) -> list[int]:
        """Add what the GPU computes: experts that are there, then each as its upload ends."""
        order, upload = self.work.gpu_order(self.layer), self.work.upload_ns[self.layer]
        there = order[upload[order] == 0]
        let = [self.many("GPU", self.cost[there], there, go, SECOND)] if len(there) else []
        for expert in order[len(there) :].tolist():
            uploads = [Transfer(PCIE, int(upload[expert]), "upload", expert)]
            copied, one = self.transfers(uploads, go), np.array([expert])
            let.append(self.many("GPU", self.cost[one], one, copied, SECOND))
        return let

    def outside(self, go: list[int]) -> tuple[list[int], list[int]]:
        """Add what CPU and NDP units do; returns what is due now, and what is deferred."""
        on_cpu, on_ndp = self.domain == CPU, self.domain == NDP
        if not on_cpu.any() and not on_ndp.any():
            return [], []
        after = self.hand_over(self.times.to_host_ns[self.layer], go)
        now = on_cpu & ~self.deferred
        due = self.experts("CPU", now, after, FIRST)
        if on_cpu.any() and not due:  # the CPU answers in its turn, if with nothing
            due = [self.one("CPU", 0, after, FIRST, kind="join")]
        if on_ndp.any():
            where = self.first_dimm + self.dimm[on_ndp]
            due.append(self.many(where, self.cost[on_ndp], np.flatnonzero(on_ndp), after, SECOND))
        back = self.times.to_gpu_ns[self.layer]
        let = self.hand_over(back, due) + self.reads(now, after, FIRST)
        late = self.experts("CPU", self.deferred, after, LAST)
        return let, self.hand_over(back, late) + self.reads(self.deferred, after, LAST)

    def one(
        self, resource: str, length: int, after: list[int], priority: int = FIRST, *, kind: str
    ) -> int:
        return self.engine.add(
            resource, length, after=after, priority=priority, kind=kind, label=self.label
        )

    def many(
        self,
        resource: str | Integers,
        lengths: Integers,
        experts: Integers,
        after: list[int],
        priority: int,
        kind: str = "expert",
    ) -> int:
        return self.engine.add_many(
            resource,
            lengths,
            after=after,
            priority=priority,
            kind=kind,
            label=self.label,
            number=experts,
        )

    def experts(self, device: str, mask: Flags, after: list[int], priority: int) -> list[int]:
        rows = np.flatnonzero(mask)
        return [self.many(device, self.cost[rows], rows, after, priority)] if len(rows) else []

    def reads(self, mask: Flags, after: list[int], priority: int) -> list[int]:
        """Occupy every DIMM that experts in `mask` lie on, expert by expert."""
        rows = np.flatnonzero(mask & (self.dram > 0))
        if not len(rows):
            return []
        striped = self.dimm[rows] == STRIPED
        times = np.where(striped, self.dimms, 1)
        reader = np.repeat(rows, times)
        turn = np.arange(len(reader)) - np.repeat(times.cumsum() - times, times)
        where = self.first_dimm + np.where(np.repeat(striped, times), turn, self.dimm[reader])
        return [self.many(where, self.dram[reader], reader, after, priority, kind="read")]

    def fetches(self) -> list[Transfer]:
        """Return what the cache fetches, in order."""
        copies = self.work.copies[self.layer]
        return [Transfer(PCIE, length, "fetch", expert) for expert, length in copies]

    def transfers(self, transfers: list[Transfer], after: list[int]) -> list[int]:
        return [
            self.engine.add(
                transfer.link,
                transfer.duration_ns,
                after=after,
                kind=transfer.kind,
                label=self.label,
                number=transfer.expert,
            )
            for transfer in transfers
        ]

    def hand_over(self, length: int, after: list[int]) -> list[int]:
        return [self.one(HAND_OVER, length, after, kind=HAND_OVER)] if length and after else after
