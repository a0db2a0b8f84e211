"""Timing a step: every expert, read, transfer and hand-over as a task of the engine, or by sums.

Where all queues are first come, first served with known ready times, both give the same latencies:
within a layer everything on a resource becomes ready at one of two known times, so that its end is
a sum.
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
        let += self.experts("GPU", on_gpu, go, SECOND) + self.reads(on_gpu, go, FIRST)
        self.transfers(self.fetches(), go)
        outside, later = self.outside(go)
        return start, let + outside, later

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
        """Return what the cache fetches, in the order in which the experts are mentioned."""
        work, layer = self.work, self.layer
        rows = np.flatnonzero(work.fetched[layer])
        if work.order is not None:
            rows = rows[work.order[layer, rows].argsort()]
        return [Transfer(PCIE, int(work.fetch_ns[layer, e]), "fetch", int(e)) for e in rows]

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


@dataclass(frozen=True)
class _Sums:
    """What a step asks of each resource, by layer, and of each DIMM, shape (layers, DIMMs).

    `due` has reads for the GPU and for the CPU, NDP work, and whether there is any. `host_ns`, of
    shape (layers, 1), is when CPU and NDP units begin after the GPU may; 0 if they have nothing.
    `alone` is when all that is due is there, see `_served`, if all DIMMs are free.
    """

    gpu: list[int]
    cpu_now: list[int]
    cpu_later: list[int]
    on_cpu: list[bool]
    later: list[bool]
    due: Integers
    host_ns: Integers
    alone: list[int]
    later_reads: Integers
    fetches: list[int]
    fetched: list[bool]


@dataclass
class SumClock:
    """Carries the time at which each resource is free from step to step.

    Attributes
    ----------
    now_ns
        When the next step starts.
    """

    dimms: int
    times: LayerTimes
    now_ns: int = 0

    def __post_init__(self) -> None:
        self._dimm_free = np.zeros(self.dimms, dtype=np.int64)
        self._dimm_busy = np.zeros(self.dimms, dtype=np.int64)
        self._cpu_free = self._dimms_late = 0
        self._link_free: dict[str, int] = {}
        self._busy: dict[str, int] = {"GPU": 0, "CPU": 0}

    @property
    def makespan_ns(self) -> int:
        """When the last task ends: transfers may outlast the last step."""
        return max(self.now_ns, *self._link_free.values(), 0)

    def busy_ns(self) -> dict[str, int]:
        """Return how long each resource has been busy, by name."""
        dimms = {f"DIMM {row}": busy for row, busy in enumerate(self._dimm_busy.tolist())}
        return self._busy | dimms

    def run(self, work: StepWork, step: int) -> list[int]:
        """Return the times at which the layers of a step start, and at which it ends.

        The same as `moeopt.systems.clocks.EventClock.run`.
        """
        sums = _sums(work, self.dimms, self.times)
        self._count(sums)
        at = self.now_ns + self.times.step_ns
        starts, joins = [], 0
        for layer in range(len(sums.gpu)):
            starts.append(at)
            at, later = self._layer(layer, at, sums, work)
            at, joins = max(at, joins), later
        self.now_ns = at
        return [*starts, at]

    def _layer(self, layer: int, at: int, sums: _Sums, work: StepWork) -> tuple[int, int]:
        """Return when the layer lets the next one start, and when its deferred experts have ended.

        The latter is 0 if there are none.
        """
        t = self.times
        routed = at + t.attention_ns[layer] + t.other_ns[layer]
        gpu_free = routed + t.shared_ns[layer]
        go = routed
        for transfer in work.transfers[layer]:
            go = max(go, self._transfer(transfer.link, at, transfer.duration_ns))
        end = max(gpu_free, go)
        if sums.gpu[layer]:
            end += sums.gpu[layer]
        outside = go + t.to_host_ns[layer]
        back = t.to_gpu_ns[layer]
        gate = 0
        if sums.on_cpu[layer]:
            self._cpu_free = max(self._cpu_free, outside) + sums.cpu_now[layer]
            end = max(end, self._cpu_free + back)
            self._cpu_free += sums.cpu_later[layer]
            if sums.later[layer]:
                gate = self._cpu_free + back
        end, gate = self._dimms(layer, go, outside, sums, end, gate)
        if sums.fetched[layer]:
            self._transfer(PCIE, go, sums.fetches[layer])
        return end, gate

    def _dimms(
        self, layer: int, go: int, outside: int, sums: _Sums, end: int, gate: int
    ) -> tuple[int, int]:
        """Let the DIMMs serve what is due now, then deferred reads; they alone outlast a layer."""
        if go >= self._dimms_late and not sums.later[layer]:
            return max(end, go + sums.alone[layer]), gate
        free = np.maximum(self._dimm_free - go, 0)
        back = self.times.to_gpu_ns[layer]
        free, length = _served(free, sums.due[:, layer], sums.host_ns[layer], back)
        end = max(end, go + int(length))
        self._dimm_free = go + free
        asked = sums.later_reads[layer]
        if asked.any():
            self._dimm_free = np.maximum(self._dimm_free, outside) + asked
            gate = max(gate, int(self._dimm_free[asked > 0].max()))
        self._dimms_late = int(self._dimm_free.max())
        return end, gate

    def _transfer(self, link: str, ready: int, duration_ns: int) -> int:
        free = max(self._link_free.get(link, 0), ready) + duration_ns
        self._link_free[link] = free
        self._busy[link] = self._busy.get(link, 0) + duration_ns
        return free

    def _count(self, sums: _Sums) -> None:
        t = self.times
        own = sum(t.attention_ns) + sum(t.other_ns) + sum(t.shared_ns) + t.step_ns
        self._busy["GPU"] += sum(sums.gpu) + own
        self._busy["CPU"] += sum(sums.cpu_now) + sum(sums.cpu_later)
        self._dimm_busy += sums.due[:3].sum(axis=(0, 1)) + sums.later_reads.sum(axis=0)


def _sums(work: StepWork, dimms: int, times: LayerTimes) -> _Sums:
    gpu, cpu, ndp = (work.domain == domain for domain in (GPU, CPU, NDP))
    later = work.deferred
    now = cpu & ~later if later.any() else cpu

    def device(mask: Flags, length_ns: Integers = work.cost_ns) -> list[int]:
        total: list[int] = (length_ns * mask).sum(axis=1).tolist()
        return total

    def flags(mask: Flags) -> list[bool]:
        there: list[bool] = mask.max(axis=1).tolist()
        return there

    busy, count = _at_dimms(work, ndp, work.cost_ns, dimms)
    reads = (_at_dimms(work, mask, work.dram_ns, dimms)[0] for mask in (gpu, now))
    due = np.stack([*reads, busy, count > 0])
    host_ns = np.array(times.to_host_ns) * (now | ndp).any(axis=1)
    back_ns = np.array(times.to_gpu_ns)[:, None]
    return _Sums(
        gpu=device(gpu),
        cpu_now=device(now),
        cpu_later=device(later),
        on_cpu=flags(cpu),
        later=flags(later),
        due=due,
        host_ns=host_ns[:, None],
        alone=_served(np.zeros_like(busy), due, host_ns[:, None], back_ns)[1].tolist(),
        later_reads=_at_dimms(work, later, work.dram_ns, dimms)[0],
        fetches=device(work.fetched, work.fetch_ns),
        fetched=flags(work.fetched),
    )


def _served(
    free: Integers, due: Integers, host_ns: Integers, back_ns: Integers | int
) -> tuple[Integers, Integers]:
    """Return when each DIMM has served what is due, and when all outputs are there.

    From the GPU's start on, as are `free`, when each DIMM is, and `host_ns`; outputs of NDP units
    take `back_ns`.
    """
    gpu_reads, cpu_reads, ndp, on_ndp = due
    free = free + gpu_reads
    end = (free * (gpu_reads > 0)).max(axis=-1)
    free = np.maximum(free, host_ns) + cpu_reads
    end = np.maximum(end, (free * (cpu_reads > 0)).max(axis=-1))
    free = free + ndp
    return free, np.maximum(end, ((free + back_ns) * on_ndp).max(axis=-1))


def _at_dimms(
    work: StepWork, mask: Flags, length: Integers, dimms: int
) -> tuple[Integers, Integers]:
    """Return the summed lengths and the number of experts per layer and DIMM.

    A striped expert loads every DIMM.
    """
    layers = len(mask)
    total = np.zeros((layers, dimms), dtype=np.int64)
    count = np.zeros((layers, dimms), dtype=np.int64)
    if mask.any():
        striped = mask & (work.dimm == STRIPED)
        total += (length * striped).sum(axis=1)[:, None]
        count += striped.sum(axis=1)[:, None]
        rows = np.nonzero(mask & (work.dimm != STRIPED))
        where = (rows[0], work.dimm[rows])
        np.add.at(total, where, length[rows])
        np.add.at(count, where, 1)
    return total, count
