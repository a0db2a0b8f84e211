"""The clock of a run: when each device and link is free, layer after layer.

Every resource serves one task at a time, in the order of the layers. A layer begins with attention
on the GPU. From then on the routed experts run: on the GPU beside their uploads, on the CPU, on the
NDP units, and the DIMMs serve what all of them read. The next layer begins when everything that is
due has ended. Deferred work is due one layer later; copies into a cache are due never.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .migrations import PCIE, Transfer

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Begin:
    """What a layer needs before its experts are known, in ns.

    Attributes
    ----------
    attention_ns
        On the GPU, launches included.
    kv_ns, kv_read_ns
        How long PCIe and every DIMM are busy with a KV cache on the host.
    """

    attention_ns: int
    kv_ns: int = 0
    kv_read_ns: int = 0


@dataclass(frozen=True)
class LayerWork:
    """What a layer's experts ask of each device, in ns.

    Attributes
    ----------
    shared_ns
        Shared experts, on the GPU before the routed ones.
    gpu_ns, upload_ns
        Shape (items,): computing on the GPU in order, and how long PCIe must be busy before each
        may begin; 0: its weights are there.
    ready_ns
        Shape (items,): when weights are there that are on their way already, as times of the clock.
    gpu_reads_ns, cpu_reads_ns, later_reads_ns, ndp_ns
        Shape (dimms,): how long each DIMM is busy with reads of uploads, of the CPU, of the CPU's
        deferred work, and with the work of its own unit.
    cpu_ns, cpu_later_ns
        On the CPU, due in this layer and deferred.
    sync_ns
        Handing activations to CPU and units, or back, one way.
    ndp_delay_ns
        What is added until the units' outputs are there.
    moves
        Migrations, which must have ended before experts begin.
    copies
        Expert and PCIe time of copies into a cache, after everything else of this layer.
    ahead
        The same of experts of the next layer, uploaded while PCIe is idle before they are needed.
    uploads_early
        Whether uploads may begin before this layer does, as all experts are known to be needed.
    """

    shared_ns: int
    gpu_ns: Ints
    upload_ns: Ints
    ready_ns: Ints
    gpu_reads_ns: Ints
    cpu_reads_ns: Ints
    later_reads_ns: Ints
    ndp_ns: Ints
    cpu_ns: int = 0
    cpu_later_ns: int = 0
    sync_ns: int = 0
    ndp_delay_ns: int = 0
    moves: Sequence[Transfer] = ()
    copies: Sequence[tuple[int, int]] = ()
    ahead: Sequence[tuple[int, int]] = ()
    uploads_early: bool = False


@dataclass(frozen=True)
class Done:
    """When a layer's experts could begin, and when everything due had ended."""

    routed_ns: int
    end_ns: int


@dataclass
class Clock:
    """When each resource is free, and how long it has been busy.

    Attributes
    ----------
    now_ns
        When the next layer begins.
    """

    dimms: int
    now_ns: int = 0
    gpu_busy_ns: int = 0
    cpu_busy_ns: int = 0
    link_busy_ns: dict[str, int] = field(default_factory=dict)
    _link_free: dict[str, int] = field(default_factory=dict)
    _cpu_free: int = 0
    _gate: int = 0
    _waiting: tuple[int, list[tuple[int, int]]] = (0, [])

    def __post_init__(self) -> None:
        self.dimm_busy_ns = np.zeros(self.dimms, dtype=np.int64)
        self.ndp_busy_ns = np.zeros(self.dimms, dtype=np.int64)
        self._dimm_free = np.zeros(self.dimms, dtype=np.int64)

    @property
    def pcie_free_ns(self) -> int:
        """When PCIe is free."""
        return self._link_free.get(PCIE, 0)

    @property
    def end_ns(self) -> int:
        """When everything has ended: transfers may outlast the last layer."""
        return max(self.now_ns, self._gate, *self._link_free.values(), 0)

    def outside(self, length_ns: int) -> None:
        """Let the GPU do what belongs to no layer."""
        self.gpu_busy_ns += length_ns
        self.now_ns += length_ns

    def begin(self, begin: Begin) -> tuple[int, dict[int, int]]:
        """Run attention; return when experts are known, and when those uploaded ahead are there."""
        at = self.now_ns
        there = self._uploaded_ahead(at)
        routed = at + begin.attention_ns
        if begin.kv_ns:
            routed = max(routed, self._transfer(PCIE, at, begin.kv_ns))
            self._dimm_free = np.maximum(self._dimm_free, at) + begin.kv_read_ns
            self.dimm_busy_ns += begin.kv_read_ns
        there |= self._uploaded_ahead(routed)
        self._waiting = (0, [])
        self.gpu_busy_ns += begin.attention_ns
        return routed, there

    def run(self, routed: int, work: LayerWork) -> tuple[Done, dict[int, int]]:
        """Run a layer's experts; return its times, and when the copies into its cache end."""
        at = self.now_ns
        gpu_free, go = routed + work.shared_ns, routed
        for move in work.moves:
            go = max(go, self._transfer(move.link, at, move.duration_ns))
        end = max(self._on_gpu(work, go, max(gpu_free, go)), self._on_dimms(work, go))
        outside = go + work.sync_ns
        due = end
        if work.cpu_ns:
            self._cpu_free = max(self._cpu_free, outside) + work.cpu_ns
            due = max(due, self._cpu_free + work.sync_ns)
        gate = 0
        if work.cpu_later_ns:
            self._cpu_free = max(self._cpu_free, outside) + work.cpu_later_ns
            gate = self._later_reads(work, outside, self._cpu_free + work.sync_ns)
        self.cpu_busy_ns += work.cpu_ns + work.cpu_later_ns
        self.now_ns, self._gate = max(due, self._gate), gate
        copied = {
            expert: self._transfer(PCIE, go, length)
            for expert, length in work.copies
        }
        self._waiting = (go, list(work.ahead))
        return Done(go, self.now_ns), copied

    def _on_gpu(self, work: LayerWork, go: int, free: int) -> int:
        """Return when the GPU is done: its items in order, each once its weights are there."""
        self.gpu_busy_ns += work.shared_ns
        if not len(work.gpu_ns):
            return free
        uploads = work.upload_ns.cumsum()
        total = int(uploads[-1])
        # What is computed from each item on waits for that item's weights.
        left = work.gpu_ns[::-1].cumsum()[::-1]
        end = max(free + int(left[0]), int((work.ready_ns + left).max()))
        if total:
            ready = 0 if work.uploads_early else go
            start = max(self.pcie_free_ns, ready)
            self._transfer(PCIE, ready, total)
            moved = work.upload_ns > 0
            end = max(end, start + int((uploads + left)[moved].max()))
        self.gpu_busy_ns += int(left[0])
        return end

    def _on_dimms(self, work: LayerWork, go: int) -> int:
        """Return when all reads and the units' outputs are there; the units begin after reads."""
        free = np.maximum(self._dimm_free, go) + work.gpu_reads_ns
        end = int((free * (work.gpu_reads_ns > 0)).max(initial=0))
        outside = go + work.sync_ns
        if work.cpu_reads_ns.any() or work.ndp_ns.any():
            free = np.maximum(free, outside) + work.cpu_reads_ns
            end = max(end, int((free * (work.cpu_reads_ns > 0)).max(initial=0)))
            free = free + work.ndp_ns
            back = work.sync_ns + work.ndp_delay_ns
            end = max(end, int(((free + back) * (work.ndp_ns > 0)).max(initial=0)))
        self._dimm_free = free
        self.dimm_busy_ns += work.gpu_reads_ns + work.cpu_reads_ns + work.ndp_ns
        self.ndp_busy_ns += work.ndp_ns
        return end

    def _later_reads(self, work: LayerWork, outside: int, gate: int) -> int:
        asked = work.later_reads_ns
        if asked.any():
            self._dimm_free = np.maximum(self._dimm_free, outside) + asked
            self.dimm_busy_ns += asked
            gate = max(gate, int(self._dimm_free[asked > 0].max()))
        return gate

    def _uploaded_ahead(self, until: int) -> dict[int, int]:
        """Upload what waits for an idle link and can begin before a time; the rest goes on waiting."""
        ready, waiting = self._waiting
        there = {}
        while waiting and max(self.pcie_free_ns, ready) < until:
            expert, length = waiting.pop(0)
            there[expert] = self._transfer(PCIE, ready, length)
        return there

    def _transfer(self, link: str, ready: int, length_ns: int) -> int:
        free = max(self._link_free.get(link, 0), ready) + length_ns
        self._link_free[link] = free
        self.link_busy_ns[link] = self.link_busy_ns.get(link, 0) + length_ns
        return free
