"""The best that the GPU's own work allows: labels (computation, NDP work given up) of one unit.

Let NDP work remain, so that activations are due. A unit that gives up slices adds `a` to the GPU's
computations and takes `b` off its own work W.

Theorem. Let k be a transfer if no expert is resident, else 0. A solution in which something is
given up has a makespan of at least max(N a + k + due, W - b + due) for some undominated pair (a, b)
of one unit.

Proof. The GPU side is at least the sum of all computations; if no expert is resident, the first of
them waits for a transfer. N times the least `a` of a unit is at most that sum, and an undominated
pair has at most that unit's `a` and at least its `b`. qed

Where all experts are resident, or none is and no computation is shorter than a transfer, the GPU
side is N a + k by the closed form of the flow shop: if every unit does the same, the bound is
attained.

The labels are a bounded knapsack's: expert after expert, by falling b / a, in parcels of 1, 2,
4, ... slices, which make up every count. Dropped are labels that another one dominates, and those
that cannot end below the best solution known: even with the rest of the GPU's time filled at the
next expert's ratio too little work is given up.
"""

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.search import Search

from .instance import Instance

Ints = NDArray[np.int64]
Step = tuple["Parcel", Ints, NDArray[np.bool_]]
"""A parcel, and for each label after it the label before and whether the parcel was given up."""

MAX_LABELS = 100_000
"""Some 20 ms of work per parcel."""


class UnfinishedError(Exception):
    """There are too many labels, or the search was stopped."""


@dataclass(frozen=True)
class Parcel:
    """Some slices of one expert on one unit: what they cost the GPU and take off the unit."""

    row: int
    slices: int
    a: int
    b: int


@dataclass(frozen=True)
class Label:
    """How many slices of each expert one unit gives up, and the bound's value for that."""

    slices: tuple[int, ...]
    value_ns: int


def best_label(instance: Instance, below_ns: int, search: Search) -> Label | None:
    """Return a label of the least value, if that is below `below_ns`; else None.

    Parameters
    ----------
    instance
        Its sums are below 2**62.
    below_ns
        At most the makespan of leaving everything to the units.
    search
        Says when to stop.

    Raises
    ------
    UnfinishedError
        If there are too many labels or the search is stopped.
    """
    units, work = instance.ndp_units, sum(e.slice_ndp_ns for e in instance.experts)
    work *= instance.slices_per_unit
    due = instance.gpu_overhead_ns
    if not any(expert.resident for expert in instance.experts):
        due += instance.slice_transfer_ns
    room = (below_ns - 1 - due) // units
    need = work + instance.ndp_overhead_ns - (below_ns - 1)
    if room < 0:
        return None
    a, b = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    steps: list[Step] = []
    for parcel in _parcels(instance):
        if search.stopped:
            raise UnfinishedError("stopped")
        kept = np.flatnonzero(_can_end(a, b, parcel, room, need))
        a, b, parent, took = _joined(a[kept], b[kept], parcel, room)
        steps.append((parcel, kept[parent], took))
        if len(a) > MAX_LABELS:
            raise UnfinishedError("too many labels")
    if not len(a):
        return None
    values = np.maximum(units * a + due, work - b + instance.ndp_overhead_ns)
    best = int(values.argmin())
    if values[best] >= below_ns:
        return None
    return Label(_slices(instance, steps, best), int(values[best]))


def _parcels(instance: Instance) -> list[Parcel]:
    """Return what a unit may give up, by falling ratio; residents first among equals."""
    experts = instance.experts
    useful = [row for row, expert in enumerate(experts) if expert.slice_ndp_ns]
    useful.sort(
        key=lambda row: (
            Fraction(experts[row].slice_gpu_ns, experts[row].slice_ndp_ns),
            not experts[row].resident,
        )
    )
    found = []
    for row in useful:
        left, size = instance.slices_per_unit, 1
        while left:
            count = min(size, left)
            a, b = experts[row].slice_gpu_ns * count, experts[row].slice_ndp_ns * count
            found.append(Parcel(row, count, a, b))
            left, size = left - count, 2 * size
    return found


def _can_end(a: Ints, b: Ints, parcel: Parcel, room: int, need: int) -> NDArray[np.bool_]:
    """Tell which labels can still give up `need` within `room`: b + (room - a) x ratio >= need.

    The product is taken in Python's integers where int64 could overflow.
    """
    if (abs(need) + int(b[-1:].sum())) * parcel.a + room * parcel.b >= 2**62:
        a, b = a.astype(object), b.astype(object)
    able: NDArray[np.bool_] = (b - need) * parcel.a + (room - a) * parcel.b >= 0
    return able.astype(np.bool_)


def _joined(
    a: Ints, b: Ints, parcel: Parcel, room: int
) -> tuple[Ints, Ints, Ints, NDArray[np.bool_]]:
    """Return the undominated labels without and with a parcel, by rising `a`, and their origins."""
    able = np.flatnonzero(a + parcel.a <= room)
    parent = np.concatenate([np.arange(len(a)), able])
    took = np.arange(len(parent)) >= len(a)
    a, b = a[parent] + took * parcel.a, b[parent] + took * parcel.b
    order = np.lexsort((-b, a))
    best = np.maximum.accumulate(b[order])
    first = np.ones(len(order), dtype=np.bool_)
    first[1:] = best[1:] > best[:-1]
    chosen = order[first]
    return a[chosen], b[chosen], parent[chosen], took[chosen]


def _slices(instance: Instance, steps: list[Step], label: int) -> tuple[int, ...]:
    """Follow a label back to the parcels that it gave up."""
    counts = [0] * len(instance.experts)
    for parcel, parent, took in reversed(steps):
        counts[parcel.row] += parcel.slices * bool(took[label])
        label = int(parent[label])
    return tuple(counts)
