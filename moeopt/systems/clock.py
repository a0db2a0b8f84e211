"""The clock of a run: when each device and link is free, layer after layer.

Every resource serves one task at a time, in the order of the layers. A layer begins with attention
on the GPU. From then on the routed experts run: on the GPU beside their uploads, on the CPU, on the
NDP units, and the DIMMs serve what all of them read. The next layer begins when everything that is
due has ended. Deferred work is due one layer later; copies into a cache are due never.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.tri_domain.layout_rule import STRIPED

from .migrations import PCIE, Transfer

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Begin(NamedTuple):
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


class OnGpu(NamedTuple):
    """A layer's routed experts on the GPU: computed in order, each once its weights are there.

    Attributes
    ----------
    total_ns
        Computing alone.
    upload_ns
        How long PCIe is busy with the weights of those that are not there.
    behind_ns
        From the first upload's beginning until the end, if only uploads were waited for.
    ready_ns
        When all would have ended if only weights were waited for that are on their way already.
    """

    total_ns: int = 0
    upload_ns: int = 0
    behind_ns: int = 0
    ready_ns: int = 0

    @classmethod
    def of(cls, compute_ns: Ints, upload_ns: Ints, ready_ns: Ints | None = None) -> Self:
        """Return the work of items in order, arrays of shape (items,).

        Parameters
        ----------
        compute_ns, upload_ns
            Computing, and how long PCIe must be busy before; 0: the weights are there.
        ready_ns
            When weights are there that are on their way already, as times of the clock.
        """
        if not len(compute_ns):
            return cls()
        uploads, left = upload_ns.cumsum(), compute_ns[::-1].cumsum()[::-1]
        moved = upload_ns > 0
        return cls(
            total_ns=int(left[0]),
            upload_ns=int(uploads[-1]),
            behind_ns=int((uploads + left)[moved].max(initial=0)),
            ready_ns=0 if ready_ns is None else int(((ready_ns + left) * (ready_ns > 0)).max()),
        )


class LayerWork(NamedTuple):
    """What a layer's experts ask of each device, in ns.

    Attributes
    ----------
    gpu
        Routed experts on the GPU.
    gpu_reads_ns, cpu_reads_ns, later_reads_ns, ndp_ns
        Shape (dimms,): how long each DIMM is busy with reads of uploads, of the CPU, of the CPU's
        deferred work, and with the work of its own unit; None: not at all.
    on_ndp
        Shape (dimms,): whether a unit has anything to do; None: where that takes time.
    shared_ns
        Shared experts, on the GPU before the routed ones.
    on_cpu, cpu_ns, cpu_later_ns
        Whether the CPU has anything to do, due in this layer and deferred.
    to_host_ns, to_gpu_ns
        Handing activations to CPU and units, and back.
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

    gpu: OnGpu = OnGpu()
    gpu_reads_ns: Ints | None = None
    cpu_reads_ns: Ints | None = None
    later_reads_ns: Ints | None = None
    ndp_ns: Ints | None = None
    on_ndp: Flags | None = None
    shared_ns: int = 0
    on_cpu: bool = False
    cpu_ns: int = 0
    cpu_later_ns: int = 0
    to_host_ns: int = 0
    to_gpu_ns: int = 0
    ndp_delay_ns: int = 0
    moves: Sequence[Transfer] = ()
    copies: Sequence[tuple[int, int]] = ()
    ahead: Sequence[tuple[int, int]] = ()
    uploads_early: bool = False


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
        """When everything has ended: transfers and reads may outlast the last layer."""
        dimms = int(self._dimm_free.max(initial=0))
        return max(self.now_ns, self._gate, self._cpu_free, dimms, *self._link_free.values())

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

    def run(self, routed: int, work: LayerWork) -> dict[int, int]:
        """Run a layer's experts; return when each copy into its cache ends, by expert."""
        at, go = self.now_ns, routed
        for move in work.moves:
            go = max(go, self._transfer(move.link, at, move.duration_ns))
            if move.read_ns:
                there = slice(None) if move.dimm == STRIPED else slice(move.dimm, move.dimm + 1)
                self._dimm_free[there] = np.maximum(self._dimm_free[there], at) + move.read_ns
                self.dimm_busy_ns[there] += move.read_ns
        outside = go + work.to_host_ns
        due = max(
            self._on_gpu(work, go, max(routed + work.shared_ns, go)), self._on_dimms(work, go)
        )
        gate = 0
        if work.on_cpu:  # the CPU answers in its turn, if with nothing
            self._cpu_free = max(self._cpu_free, outside) + work.cpu_ns
            due = max(due, self._cpu_free + work.to_gpu_ns)
            if work.cpu_later_ns or work.later_reads_ns is not None:
                self._cpu_free += work.cpu_later_ns
                gate = self._later_reads(work, outside, self._cpu_free + work.to_gpu_ns)
            self.cpu_busy_ns += work.cpu_ns + work.cpu_later_ns
        self.now_ns, self._gate = max(due, self._gate), gate
        self._waiting = (go, list(work.ahead))
        return {expert: self._transfer(PCIE, go, length) for expert, length in work.copies}

    def _on_gpu(self, work: LayerWork, go: int, free: int) -> int:
        """Return when the GPU is done: its items in order, each once its weights are there."""
        gpu = work.gpu
        self.gpu_busy_ns += work.shared_ns + gpu.total_ns
        end = max(free + gpu.total_ns, gpu.ready_ns)
        if gpu.upload_ns:
            ready = 0 if work.uploads_early else go
            start = max(self.pcie_free_ns, ready)
            self._transfer(PCIE, ready, gpu.upload_ns)
            end = max(end, start + gpu.behind_ns)
        return end

    def _on_dimms(self, work: LayerWork, go: int) -> int:
        """Return when all reads and the units' outputs are there; the units begin after reads."""
        uploads, reads, ndp = work.gpu_reads_ns, work.cpu_reads_ns, work.ndp_ns
        end, outside = 0, go + work.to_host_ns
        free = self._dimm_free  # a DIMM without work of a kind does not wait for its beginning
        if uploads is not None:
            free = np.where(uploads > 0, np.maximum(free, go) + uploads, free)
            end = int((free * (uploads > 0)).max(initial=0))
            self.dimm_busy_ns += uploads
        if reads is not None:
            free = np.where(reads > 0, np.maximum(free, outside) + reads, free)
            end = max(end, int((free * (reads > 0)).max(initial=0)))
            self.dimm_busy_ns += reads
        if ndp is not None:
            there = ndp > 0 if work.on_ndp is None else work.on_ndp
            free = np.where(there, np.maximum(free, outside) + ndp, free)
            back = work.to_gpu_ns + work.ndp_delay_ns
            end = max(end, int(((free + back) * there).max(initial=0)))
            self.dimm_busy_ns += ndp
            self.ndp_busy_ns += ndp
        self._dimm_free = free
        return end

    def _later_reads(self, work: LayerWork, outside: int, gate: int) -> int:
        asked = work.later_reads_ns
        if asked is not None:
            waited = np.maximum(self._dimm_free, outside) + asked
            self._dimm_free = np.where(asked > 0, waited, self._dimm_free)
            self.dimm_busy_ns += asked
            gate = max(gate, int((self._dimm_free * (asked > 0)).max()))
        return gate

    def _uploaded_ahead(self, until: int) -> dict[int, int]:
        """Upload what waits for an idle link and can begin before a time; the rest waits on."""
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
