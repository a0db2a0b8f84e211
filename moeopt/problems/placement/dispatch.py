"""Which experts on the GPU it computes, where the other side may: in every row the best choice.

With some experts on the GPU, each row (layer and distinct step) is two machines: an expert that is
there takes `gpu_ns` on the one or `offload_ns` on the other, all others take theirs on the other,
and that pays a charge if it has any. The later machine is to end as early as possible.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FEW = 12
"""Rows with so many experts on the GPU or fewer are solved by trying all subsets."""

CELLS = 2**14
"""Most different sums of GPU times that the dynamic program for other rows tells apart."""


@compiled
def best_dispatch(
    start: Ints, gpu_ns: Ints, offload_ns: Ints, fixed_ns: int, on: Flags, runs: Flags
) -> int:
    """Choose who computes what in every row; return how many rows may not have the best choice.

    Parameters
    ----------
    start, gpu_ns, offload_ns
        As in `LayerSteps`.
    on
        By entry, whether the expert is on the GPU.
    runs
        By entry, whether the GPU computes it: equal to `on` at first, then the choice.

    Notes
    -----
    Nothing is to be gained where the GPU is the earlier side, or where it is later by no more than
    what the other side would be with its shortest additional expert. Else up to `FEW` experts are
    tried subset by subset; more by a dynamic program over the sums of GPU times given away, each
    with the least offload time for it. It is exact where those sums are multiples of a unit that
    gives at most `CELLS` of them; else times are rounded down to such a unit, the GPU ends no later
    than is reckoned, and the row counts as not proven.
    """
    unproven = 0
    for row in range(len(start) - 1):
        first, end = start[row], start[row + 1]
        gpu, off, away, count = 0, 0, 0, 0
        least = np.int64(2**61)
        for i in range(first, end):
            if on[i]:
                gpu += gpu_ns[i]
                least = min(least, offload_ns[i])
                count += 1
            else:
                off += offload_ns[i]
                away += 1
        if gpu <= off + (fixed_ns if away else 0) or gpu <= off + fixed_ns + least:
            continue
        if count <= FEW:
            _by_subsets(first, end, gpu_ns, offload_ns, gpu, off + fixed_ns, on, runs)
        elif not _by_sums(first, end, gpu_ns, offload_ns, gpu, off + fixed_ns, on, runs):
            unproven += 1
    return unproven


@compiled
def _by_subsets(
    first: int, end: int, gpu_ns: Ints, offload_ns: Ints, gpu: int, off: int, on: Flags, runs: Flags
) -> None:
    """Try all subsets of the experts on the GPU; `off` has the charge, which giving away pays."""
    place = np.empty(FEW, dtype=np.int64)
    count = 0
    for i in range(first, end):
        if on[i]:
            place[count] = i
            count += 1
    best, best_subset = gpu, 0
    for subset in range(1, 1 << count):
        given, taken = 0, 0
        for bit in range(count):
            if subset >> bit & 1:
                given += gpu_ns[place[bit]]
                taken += offload_ns[place[bit]]
        value = max(gpu - given, off + taken)
        if value < best:
            best, best_subset = value, subset
    for bit in range(count):
        if best_subset >> bit & 1:
            runs[place[bit]] = False


@compiled
def _by_sums(
    first: int, end: int, gpu_ns: Ints, offload_ns: Ints, gpu: int, off: int, on: Flags, runs: Flags
) -> bool:
    """Choose by a dynamic program over sums of GPU times; return whether that is exact."""
    unit = 0
    for i in range(first, end):
        if on[i]:
            a, b = unit, gpu_ns[i]
            while b:
                a, b = b, a % b
            unit = a
    exact = gpu // unit <= CELLS
    if not exact:
        unit = -(-gpu // CELLS)
    cells = gpu // unit + 1
    far = np.int64(2**61)
    least = np.full(cells, far)
    least[0] = 0
    given = np.zeros((end - first, cells), dtype=np.bool_)
    for i in range(first, end):
        if on[i]:
            units = gpu_ns[i] // unit
            for cell in range(cells - 1, units - 1, -1):
                taken = least[cell - units] + offload_ns[i]
                if taken < least[cell]:
                    least[cell] = taken
                    given[i - first, cell] = True
    best, best_cell = gpu, 0
    for cell in range(1, cells):
        value = max(gpu - cell * unit, off + least[cell])
        if value < best:
            best, best_cell = value, cell
    for i in range(end - 1, first - 1, -1):
        if given[i - first, best_cell]:
            runs[i] = False
            best_cell -= gpu_ns[i] // unit
    return exact
