"""Timing a step by sums: all queues are first come, first served with known ready times.

The same latencies as `moeopt.planner.decode.events`, without a task: within a layer everything
on a resource becomes ready at one of two known times, so its end is a sum.
"""

from dataclasses import dataclass

import numpy as np

from moeopt.planner.decode.migrations import PCIE
from moeopt.planner.decode.work import CPU, GPU, NDP, Flags, Integers, LayerTimes, StepWork
from moeopt.problems.tri_domain.layout_rule import STRIPED


@dataclass(frozen=True)
class _Sums:
    """What a step asks of each resource; arrays of shape (layers,) or (layers, DIMMs)."""

    gpu: list[int]
    cpu_now: list[int]
    cpu_later: list[int]
    on_cpu: list[bool]
    later: list[bool]
    gpu_reads: Integers
    cpu_reads: Integers
    ndp: Integers
    on_ndp: Flags
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
        self._cpu_free = 0
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

        The same as `moeopt.planner.decode.events.EventClock.run`.
        """
        sums = _sums(work, self.dimms)
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
        """Let the DIMMs serve: reads for the GPU, for the CPU, NDP work, then deferred reads."""
        for ready, asked in ((go, sums.gpu_reads[layer]), (outside, sums.cpu_reads[layer])):
            if asked.any():
                self._dimm_free = np.maximum(self._dimm_free, ready) + asked
                end = max(end, int(self._dimm_free[asked > 0].max()))
        mine = sums.on_ndp[layer]
        if mine.any():
            self._dimm_free = np.maximum(self._dimm_free, outside) + sums.ndp[layer]
            end = max(end, int(self._dimm_free[mine].max()) + self.times.to_gpu_ns[layer])
        asked = sums.later_reads[layer]
        if asked.any():
            self._dimm_free = np.maximum(self._dimm_free, outside) + asked
            gate = max(gate, int(self._dimm_free[asked > 0].max()))
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
        for part in (sums.gpu_reads, sums.cpu_reads, sums.ndp, sums.later_reads):
            self._dimm_busy += part.sum(axis=0)


def _sums(work: StepWork, dimms: int) -> _Sums:
    gpu, cpu, ndp = (work.domain == domain for domain in (GPU, CPU, NDP))
    later = work.deferred
    now = cpu & ~later if later.any() else cpu

    def device(mask: Flags, length_ns: Integers = work.cost_ns) -> list[int]:
        total: list[int] = (length_ns * mask).sum(axis=1).tolist()
        return total

    def flags(mask: Flags) -> list[bool]:
        return [bool(row.any()) for row in mask]

    busy, count = _at_dimms(work, ndp, work.cost_ns, dimms)
    return _Sums(
        gpu=device(gpu),
        cpu_now=device(now),
        cpu_later=device(later),
        on_cpu=flags(cpu),
        later=flags(later),
        gpu_reads=_at_dimms(work, gpu, work.dram_ns, dimms)[0],
        cpu_reads=_at_dimms(work, now, work.dram_ns, dimms)[0],
        ndp=busy,
        on_ndp=count > 0,
        later_reads=_at_dimms(work, later, work.dram_ns, dimms)[0],
        fetches=device(work.fetched, work.fetch_ns),
        fetched=flags(work.fetched),
    )


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
