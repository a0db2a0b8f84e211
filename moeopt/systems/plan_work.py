"""What a plan's decisions for a step ask of each device, as work for the clock."""

from collections.abc import Iterator

import numpy as np

from moeopt.problems.tri_domain.layout_rule import STRIPED

from .clock import LayerWork, OnGpu
from .work import CPU, GPU, NDP, Flags, Integers, LayerTimes, StepWork


def works(work: StepWork, dimms: int, times: LayerTimes, first: int = 0) -> Iterator[LayerWork]:
    """Yield the work of each layer, from the first of a step or from another.

    Uploads overlap what the GPU computes, as in systems: an expert is computed once it is there.
    Where a run is one path, it keeps the GPU busy for all of it (TriMoE Eq. 2, 5).
    """
    gpu, cpu, ndp = (_runs_on(work, domain) for domain in (GPU, CPU, NDP))
    late = work.deferred
    now = cpu & ~late
    uploads = _at_dimms(work, gpu, work.dram_ns, dimms)
    reads = _at_dimms(work, now, work.dram_ns, dimms)
    later = _at_dimms(work, late, work.dram_ns, dimms)
    own = _at_dimms(work, ndp, work.cost_ns, dimms)
    there = _at_dimms(work, ndp, np.ones_like(work.cost_ns), dimms)
    now_ns, late_ns = (_sums(work, mask) for mask in (now, late))
    gpu_ns, uploaded = _sums(work, gpu), np.any(work.upload_ns, axis=1).tolist()
    on_cpu = np.any(cpu, axis=1).tolist()
    for layer in range(len(work.domain)):
        yield LayerWork(
            gpu=_on_gpu(work, layer) if uploaded[layer] else OnGpu(gpu_ns[layer]),
            gpu_reads_ns=None if uploads is None else uploads[layer],
            cpu_reads_ns=None if reads is None else reads[layer],
            later_reads_ns=None if later is None else later[layer],
            ndp_ns=None if own is None else own[layer],
            on_ndp=None if there is None else there[layer] > 0,
            shared_ns=times.shared_ns[first + layer],
            on_cpu=on_cpu[layer],
            cpu_ns=now_ns[layer],
            cpu_later_ns=late_ns[layer],
            to_host_ns=times.to_host_ns[first + layer],
            to_gpu_ns=times.to_gpu_ns[first + layer],
            moves=work.transfers[layer],
            copies=work.copies[layer],
        )


def _on_gpu(work: StepWork, layer: int) -> OnGpu:
    order = work.gpu_order(layer)
    return OnGpu.of(work.cost_ns[layer, order], work.upload_ns[layer, order])


def _runs_on(work: StepWork, domain: int) -> Flags:
    return np.asarray(work.domain == domain)


def _sums(work: StepWork, mask: Flags) -> list[int]:
    total: list[int] = (work.cost_ns * mask).sum(axis=1).tolist()
    return total


def _at_dimms(work: StepWork, mask: Flags, length: Integers, dimms: int) -> Integers | None:
    """Return the summed lengths per layer and DIMM; a striped expert loads every DIMM."""
    if not mask.any():
        return None
    striped = mask & (work.dimm == STRIPED)
    total = np.zeros((len(mask), dimms), dtype=np.int64)
    total += (length * striped).sum(axis=1)[:, None]
    rows = np.nonzero(mask & (work.dimm != STRIPED))
    np.add.at(total, (rows[0], work.dimm[rows]), length[rows])
    return total
