"""Lower bounds on the makespan that need no solver, each with its proof.

Two of them are relaxations of the case in which NDP work remains, each solved exactly: link, and
GPU.

Given a makespan, every NDP unit is asked the same: to give up enough of its work W. Activations are
due on both sides.

**The link** (`link_relaxation`): residents are computed for free, and computations last at most a
transfer `w`.

Lemma (units are alike). A makespan C asks the same of every unit: give up work of W + due - C or
more, with W one unit's work on the experts that are not resident. Giving up slices by falling NDP
time does so with the fewest, m*. So N m* slices or more pass.

Theorem. With computations of at most `w`, the least makespan is reached by a *plan*: every unit
gives up its m longest slices, except that one unit may give up a slice of another expert for the
last of them.

Proof. Then the closed form of the flow shop is `w y` and the shortest computation among the y
pulled slices: the work after the first transfer is hidden behind the others. Let a solution have
makespan C. If y > N m*, its GPU side is at least w N m* + w, and the plan with m* and no exchange
takes no longer on either side. If y = N m*, each unit gives up m* slices. Let expert l have the
shortest computation of those pulled. The unit that gives up a slice of l gives up at most l and its
m* - 1 longest others, and that is enough for C. So the plan with m* and l is within C on the NDP
side, and its GPU side, which has l among its slices, is at most w y and l's computation. If l is
among the m* longest anyway, so is the plan without exchange. qed

Where a computation is longer than `w` it counts as `w` here: all plans get shorter, and the least
one is a lower bound.

**The GPU** (`gpu_relaxation`): its computations alone. A unit that gives up slices adds `a` to the
GPU's computations and takes `b` off its own work W, here on all experts.

Theorem. Let k be a transfer if no expert is resident, else 0. A solution in which something is
given up has a makespan of at least max(N a + k + due, W - b + due) for some undominated pair (a, b)
of one unit.

Proof. The GPU side is at least the sum of all computations; if no expert is resident, the first of
them waits for a transfer. N times the least `a` of a unit is at most that sum, and an undominated
pair has at most that unit's `a` and at least its `b`. qed

Where all experts are resident, or none is and no computation is shorter than a transfer, the GPU
side is N a + k by the closed form of the flow shop: if every unit does the same, the bound is
attained.

The pairs are labels of a bounded knapsack (`moeopt.algorithms.labels`; Nemhauser and Ullmann 1969):
experts by falling b / a, those with equal times together, in parcels of 1, 2, 4, ... slices, which
make up every count and are given up or not, within the GPU's time and the work that must be given
up to end below the best solution known.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.labels import LabelSetting, whole_prices
from moeopt.core.search import Feasibility, Search

from .check import johnson_ns
from .instance import Instance

Ints = NDArray[np.int64]
MAX_STATES = 100_000
"""Labels after a parcel, before it is left to another method."""

NOBODY = -1


@dataclass(frozen=True)
class LinkPlan:
    """What each unit gives up of the experts that are not resident.

    Attributes
    ----------
    order
        Rows of these experts by falling NDP time.
    each
        m: slices of every unit, in that order.
    exchanged
        Row of the expert that one unit gives up for its last slice; `NOBODY` for none.
    makespan_ns
        With residents for free and computations of at most a transfer.
    """

    order: tuple[int, ...]
    each: int
    exchanged: int
    makespan_ns: int


def link_relaxation(instance: Instance) -> LinkPlan:
    """Return the best plan; its makespan is a bound on every solution in which NDP work remains.

    Proof: the theorem on the link in the module's text.
    """
    experts, most = instance.experts, instance.slices_per_unit
    order = sorted(
        (row for row, expert in enumerate(experts) if not expert.resident),
        key=lambda row: (-experts[row].slice_ndp_ns, experts[row].slice_gpu_ns),
    )
    ndp = np.array([experts[row].slice_ndp_ns for row in order], dtype=np.int64)
    times = np.array([experts[row].slice_gpu_ns for row in order], dtype=np.int64)
    compute = np.minimum(times, instance.slice_transfer_ns)
    each = np.arange(most * len(order) + 1, dtype=np.int64)
    given = np.concatenate([[0], np.cumsum(np.repeat(ndp, most))])
    shortest = np.minimum.accumulate(np.repeat(compute, most))
    sent = each * (instance.ndp_units * instance.slice_transfer_ns)
    work = int(ndp.sum()) * most
    gpu = sent + instance.gpu_overhead_ns
    gpu[1:] += shortest
    plain = np.maximum(gpu, work - given + instance.ndp_overhead_ns)
    best = int(plain.argmin())
    plan = LinkPlan(tuple(order), best, NOBODY, int(plain[best]))
    for position in range(1, len(order)):
        # An exchange for a slice further down the order, only where its computation is shorter.
        longest = int(np.searchsorted(-shortest, -compute[position]))
        shorter = each[1 : min(longest, position * most) + 1]
        if not len(shorter):
            continue
        left = work - given[shorter - 1] - ndp[position] + instance.ndp_overhead_ns
        both = sent[shorter] + compute[position] + instance.gpu_overhead_ns
        makespans = np.maximum(both, left)
        best = int(makespans.argmin())
        if makespans[best] < plan.makespan_ns:
            found = int(shorter[best]), order[position], int(makespans[best])
            plan = LinkPlan(plan.order, *found)
    return plan


def taken_slices(instance: Instance, plan: LinkPlan) -> tuple[tuple[int, ...], ...]:
    """Return the slices that a plan takes, per expert and unit, and all of the residents'."""
    most, units = instance.slices_per_unit, instance.ndp_units
    rows = [[most if expert.resident else 0] * units for expert in instance.experts]
    for position, row in enumerate(plan.order):
        rows[row] = [min(most, max(0, plan.each - position * most))] * units
    if plan.exchanged != NOBODY:
        rows[plan.order[(plan.each - 1) // most]][0] -= 1
        rows[plan.exchanged][0] += 1
    return tuple(tuple(row) for row in rows)


@dataclass(frozen=True)
class Parcel:
    """Some slices of experts with equal times: what they cost the GPU and take off the unit.

    `rows` are these experts, residents first: in this order slices are given up.
    """

    rows: tuple[int, ...]
    slices: int
    a: int
    b: int


@dataclass(frozen=True)
class UnitState:
    """How many slices of each expert one unit gives up, and the bound's value for that."""

    slices: tuple[int, ...]
    value_ns: int


class Answer(NamedTuple):
    """Whether a makespan can be met, with the best state if it can; `note` says why unknown."""

    feasibility: Feasibility
    state: UnitState | None = None
    note: str = ""


REFUTED = Answer(Feasibility.INFEASIBLE)


def gpu_relaxation(instance: Instance, below_ns: int, search: Search) -> Answer:
    """Tell whether a state has a value below `below_ns`, and return one of the least value.

    The answer is unknown if there are too many states or the search is stopped.

    Parameters
    ----------
    instance
        Its sums are below 2**62.
    below_ns
        At most the makespan of leaving everything to the units.
    search
        Says when to stop.
    """
    units, work = instance.ndp_units, sum(e.slice_ndp_ns for e in instance.experts)
    work *= instance.slices_per_unit
    due = instance.gpu_overhead_ns
    if not any(expert.resident for expert in instance.experts):
        due += instance.slice_transfer_ns
    capacity = (below_ns - 1 - due) // units
    need = work + instance.ndp_overhead_ns - (below_ns - 1)
    if capacity < 0:
        return REFUTED
    parcels = _parcels(instance)
    groups = [np.array([[0, 0], [parcel.a, -parcel.b]]) for parcel in parcels]
    price = _price(parcels, capacity)
    labels = LabelSetting(groups, np.array([capacity, -need]), price, ranked=(0, 1))
    found = labels.run(MAX_STATES, lambda: search.stopped)
    if not labels.complete:
        return Answer(Feasibility.UNKNOWN, note="stopped" if search.stopped else "too many states")
    values = np.maximum(units * found[:, 0] + due, work + found[:, 1] + instance.ndp_overhead_ns)
    if values.min(initial=below_ns) >= below_ns:
        return REFUTED
    best = int(values.argmin())
    slices: Counter[tuple[int, ...]] = Counter()
    for parcel, taken in zip(parcels, labels.choice(best), strict=True):
        slices[parcel.rows] += parcel.slices * taken
    counts = [0] * len(instance.experts)
    for rows, given in slices.items():
        for n, row in enumerate(rows):
            before = n * instance.slices_per_unit
            counts[row] = min(max(0, given - before), instance.slices_per_unit)
    return Answer(Feasibility.FEASIBLE, UnitState(tuple(counts), int(values[best])))


def _price(parcels: Sequence[Parcel], capacity: int) -> Ints:
    """Return a price of the GPU's time and of work: the ratio at which the time is used up.

    Parcels come by falling ratio, as they do in the linear relaxation.
    """
    a = np.array([parcel.a for parcel in parcels], dtype=np.int64)
    b = np.array([parcel.b for parcel in parcels], dtype=np.int64)
    last = int(np.searchsorted(a.cumsum(), capacity, side="right"))
    if last == len(parcels):
        return np.zeros(2, dtype=np.int64)
    ratio = np.array([b[last], a[last]], dtype=np.float64)
    return whole_prices(ratio / ratio.max(), np.array([a.sum(), b.sum()]))


def _parcels(instance: Instance) -> list[Parcel]:
    """Return what a unit may give up, by falling ratio."""
    kinds: dict[tuple[int, int], list[int]] = {}
    for row, expert in enumerate(instance.experts):
        if expert.slice_ndp_ns:
            kinds.setdefault((expert.slice_gpu_ns, expert.slice_ndp_ns), []).append(row)
    found = []
    for gpu_ns, ndp_ns in sorted(kinds, key=lambda times: Fraction(*times)):
        alike = kinds[gpu_ns, ndp_ns]
        alike.sort(key=lambda row: not instance.experts[row].resident)
        left, size = instance.slices_per_unit * len(alike), 1
        while left:
            count = min(size, left)
            found.append(Parcel(tuple(alike), count, gpu_ns * count, ndp_ns * count))
            left, size = left - count, 2 * size
    return found


def lower_bound(instance: Instance) -> int:
    """Return a bound on every solution.

    Proof. Either the GPU takes every slice, and the makespan is that of its flow shop without any
    activations; or some NDP work remains, activations are due on both sides, and what the link
    alone needs (`link_relaxation`). The smaller of the two cases is a bound on both.
    """
    everything = johnson_ns(instance, [instance.slices] * len(instance.experts))
    return min(everything, link_relaxation(instance).makespan_ns)


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the times' greatest common divisor."""
    times = [instance.slice_transfer_ns, instance.activation_ns]
    for expert in instance.experts:
        times += [expert.slice_gpu_ns, expert.slice_ndp_ns]
    return gcd(*times) or 1
