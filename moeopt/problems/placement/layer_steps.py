"""The steps of each layer as arrays, equal ones merged, and which experts the GPU computes in them.

With some experts on the GPU, each row (layer and distinct step) is two machines: an expert that is
there takes `gpu_ns` on the one or `offload_ns` on the other, all others take theirs on the other,
and that pays a charge if it has any. The later machine is to end as early as possible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import checkpoint
from moeopt.core.compiled import compiled, part

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Floats = NDArray[np.float64]

FEW = 12
"""Rows with so many experts on the GPU or fewer are solved by trying all subsets."""

CELLS = 2**14
"""Most different sums of GPU times that the dynamic program for other rows tells apart."""


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
    longest = int(np.diff(start).max(initial=0))
    least, given = np.empty(CELLS + 1, np.int64), np.empty((longest, CELLS + 1), np.bool_)
    unproven: int = dispatch_rows(start, gpu_ns, offload_ns, fixed_ns, on, runs, least, given)
    return unproven


@compiled
def dispatch_rows(
    start: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    on: Flags,
    runs: Flags,
    least: Ints,
    given: Flags,
) -> int:
    """Do what `best_dispatch` says; to make arrays here would take half a second to compile.

    Parameters
    ----------
    least, given
        For own use: the least offload time by cell, and by entry of a row whether that gives it
        away. With few experts on the GPU: their places.
    """
    unproven = 0
    for row in range(len(start) - 1):
        first, end = start[row], start[row + 1]
        gpu, off, away, count = 0, 0, 0, 0
        shortest = np.int64(2**61)
        for i in range(first, end):
            if on[i]:
                gpu += gpu_ns[i]
                shortest = min(shortest, offload_ns[i])
                count += 1
            else:
                off += offload_ns[i]
                away += 1
        if gpu <= off + (fixed_ns if away else 0) or gpu <= off + fixed_ns + shortest:
            continue
        if count <= FEW:
            _by_subsets(first, end, gpu_ns, offload_ns, gpu, off + fixed_ns, on, runs, least)
        elif not _by_sums(
            first, end, gpu_ns, offload_ns, gpu, off + fixed_ns, on, runs, least, given
        ):
            unproven += 1
    return unproven


@part
def _by_subsets(
    first: int,
    end: int,
    gpu_ns: Ints,
    offload_ns: Ints,
    gpu: int,
    off: int,
    on: Flags,
    runs: Flags,
    place: Ints,
) -> None:
    """Try all subsets of the experts on the GPU; `off` has the charge, which giving away pays."""
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


@part
def _by_sums(
    first: int,
    end: int,
    gpu_ns: Ints,
    offload_ns: Ints,
    gpu: int,
    off: int,
    on: Flags,
    runs: Flags,
    least: Ints,
    given: Flags,
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
    for cell in range(cells):
        least[cell] = np.int64(2**61)
    least[0] = 0
    for i in range(first, end):
        for cell in range(cells):
            given[i - first, cell] = False
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


@dataclass(frozen=True)
class LayerSteps:
    """The steps of one layer in which it has tokens; steps with the same tokens are one row.

    Attributes
    ----------
    weight
        How many steps a row stands for, shape (rows,).
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert, gpu_ns, offload_ns
        Shape (entries,): an expert with tokens in the row, and its time on either side.
    row_of_step
        The row of every step, -1 where the layer has no tokens, shape (steps,).
    free_dispatch
        Whether experts on the GPU may be computed on the other side.
    """

    weight: Ints
    start: Ints
    expert: Ints
    gpu_ns: Ints
    offload_ns: Ints
    row_of_step: Ints
    free_dispatch: bool = False

    @property
    def rows(self) -> int:
        """Number of distinct steps."""
        return len(self.weight)

    @cached_property
    def pairs(self) -> int:
        """Pairs of entries of one row, in all rows: what looking at all swaps takes."""
        return int((np.diff(self.start) ** 2).sum())

    @cached_property
    def row(self) -> Ints:
        """The row of every entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.start))

    def computed(self, held: Flags, fixed_ns: int) -> Flags:
        """Return by entry whether the GPU computes it, dispatched best with some experts there."""
        on = held[self.expert]
        if not self.free_dispatch:
            return on
        runs = on.copy()
        best_dispatch(self.start, self.gpu_ns, self.offload_ns, fixed_ns, on, runs)
        return runs

    def dispatch_proven(self, held: Flags, fixed_ns: int) -> bool:
        """Tell whether `computed` is proven to be best in every row."""
        on = held[self.expert]
        runs = on.copy()
        arrays = (self.start, self.gpu_ns, self.offload_ns, fixed_ns, on, runs)
        return not self.free_dispatch or best_dispatch(*arrays) == 0

    @cached_property
    def cheapest_away_first(self) -> Ints:
        """The entries, row by row, by their offload time for each unit of GPU time."""
        ratio = self.offload_ns / np.maximum(1, self.gpu_ns)
        return np.lexsort((ratio, self.row))

    def sums(self, runs: Flags) -> tuple[Ints, Ints, Ints]:
        """Return what the GPU and the other side take, and how many are offloaded, by row.

        Parameters
        ----------
        runs
            Whether the GPU computes it, by entry.
        """
        row = self.row
        gpu = np.bincount(row[runs], self.gpu_ns[runs], self.rows)
        off = np.bincount(row[~runs], self.offload_ns[~runs], self.rows)
        count = np.bincount(row[~runs], minlength=self.rows)
        return gpu.astype(np.int64), off.astype(np.int64), count.astype(np.int64)

    def cost_ns(self, held: Flags, fixed_ns: int) -> int:
        """Return the layer's time over all steps with some experts on the GPU."""
        gpu, off, count = self.sums(self.computed(held, fixed_ns))
        return int((self.weight * np.maximum(gpu, off + fixed_ns * (count > 0))).sum())


def layer_steps_of(
    steps: Sequence[Sequence[Sequence[tuple[int, int]]]],
    gpu_ns: Sequence[Sequence[int]],
    offload_ns: Sequence[Sequence[int]],
    widths: Sequence[Sequence[int]] | None = None,
    *,
    free_dispatch: bool = False,
) -> list[LayerSteps]:
    """Return the merged steps of every layer.

    Parameters
    ----------
    steps
        By step and layer: (expert, tokens) of each expert with tokens; at least one step.
    gpu_ns, offload_ns
        By width, the time of an expert on either side by its tokens; beyond the end the last slope
        continues.
    widths
        By layer and expert, which of these; the first if None.
    free_dispatch
        See `LayerSteps`.
    """
    gpu, off = (np.array(tables, dtype=np.int64) for tables in (gpu_ns, offload_ns))
    found = []
    for layer, of_layer in enumerate(zip(*steps, strict=True)):
        weight, start, expert, tokens, row_of_step = _merged(of_layer)
        checkpoint(0.0)  # they are kept with the instance: a second solve would not report them
        width = np.zeros_like(expert) if widths is None else np.array(widths[layer])[expert]
        times = _times_of(gpu, width, tokens), _times_of(off, width, tokens)
        found.append(LayerSteps(weight, start, expert, *times, row_of_step, free_dispatch))
    return found


def _times_of(tables: Ints, width: Ints, tokens: Ints) -> Ints:
    """Return what tables of times say; beyond their end the last slope continues."""
    last = tables.shape[1] - 1
    within = tables[width, np.minimum(tokens, last)]
    slope = tables[width, last] - tables[width, last - 1]
    return np.asarray(within + np.maximum(tokens - last, 0) * slope)


def total_ns(layers: list[LayerSteps], held: Flags, fixed_ns: int) -> int:
    """Return the objective of flags of shape (layers, experts)."""
    return sum(layer.cost_ns(row, fixed_ns) for layer, row in zip(layers, held, strict=True))


def _merged(steps: Sequence[Sequence[tuple[int, int]]]) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return weight, start, expert, tokens and row_of_step."""
    rows: dict[tuple[tuple[int, int], ...], int] = {}
    row_of_step = np.full(len(steps), -1)
    for number, active in enumerate(steps):
        if active:
            row_of_step[number] = rows.setdefault(tuple(sorted(active)), len(rows))
    entries = np.array([pair for row in rows for pair in row], dtype=np.int64).reshape(-1, 2)
    start = np.cumsum([0, *(len(row) for row in rows)], dtype=np.int64)
    weight = np.bincount(row_of_step[row_of_step >= 0], minlength=len(rows))
    return weight, start, entries[:, 0].copy(), entries[:, 1], row_of_step
