"""The second stage in less than a microsecond: a schedule of one future on a layout.

Without schedules to keep, a future on a layout is known by a few sums: the striped reads, what the
striped experts take on the CPU, what the hits take on the GPU, and each DIMM's NDP work. A
threshold then tells which DIMMs are overloaded, which experts must leave these, and whether the
hosts can take them. Here a threshold is tested greedily, and what is found is a schedule: its
makespan is an upper bound on the best one, and mostly equal to it.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled
from moeopt.problems.layout.paths import STRIPED, Path

HIT, GPU_STRIPED, GPU_LOCAL, CPU_STRIPED, CPU_LOCAL, NDP = Path

RESIDENT = -2
"""In the place of a DIMM: the expert is resident, and its host copy striped."""

READS, ON_CPU, ON_GPU = 0, 1, 2
"""Columns of `Loads.hosts`: the number of striped reads, and the hosts' time before any relief."""

CHARGE, FULL, LOCAL, BASE, SLOTS, TOLERANCE = 0, 1, 2, 3, 4, 5
"""Entries of `Sampled.machine`: how long a striped read keeps each DIMM busy, and the host; how
long a localized one keeps its DIMM busy; the GPU's base load; the slots of a DIMM for localized
experts; and how near to its least a makespan need come."""

NONE = 2**62
"""In place of a makespan: no schedule was found."""

Ints = NDArray[np.int64]


class Sampled(NamedTuple):
    """Futures as the compiled loops see them; times in a unit that keeps sums below 2^30.

    Attributes
    ----------
    cost
        Shape (futures, experts, 6), by `Path`; 0 without tokens.
    active
        Shape (futures, experts): whether the expert has tokens.
    order
        Shape (futures, experts): the experts by rising GPU to CPU time if striped, those without
        tokens last.
    machine
        Shape (6,), see `CHARGE`.
    """

    cost: NDArray[np.int32]
    active: NDArray[np.bool_]
    order: NDArray[np.int16]
    machine: Ints


class Loads(NamedTuple):
    """A layout, and what it gives every future to do.

    Attributes
    ----------
    place
        Each expert's DIMM, `STRIPED` or `RESIDENT`, shape (experts,).
    held
        Shape (dimms, 1 + experts): how many experts a DIMM holds, and then which, in any order.
    hosts
        Shape (futures, 3), see `READS`.
    own
        Shape (futures, dimms): the DIMM's work if all it holds runs on its NDP unit.
    makespan
        Shape (futures,): of the schedule found last.
    """

    place: Ints
    held: Ints
    hosts: Ints
    own: Ints
    makespan: Ints


class Change(NamedTuple):
    """The sums of one future after a move: its hosts, and the two DIMMs that the move touches.

    `first` and `second` are no DIMMs, that is negative, where a place is not on a DIMM.
    """

    reads: int
    cpu: int
    gpu: int
    first: int
    own_first: int
    second: int
    own_second: int


@compiled
def within(futures: Sampled, at: Loads, s: int, to: Change, threshold: int, leaving: Ints) -> Any:
    """Return the makespan of a schedule that meets a threshold, `NONE` if none is found.

    Of each overloaded DIMM the experts that relieve it most leave until one more suffices, and that
    is the one that relieves it least of those that do. All that the hosts read starts on the CPU;
    the GPU takes those that left the DIMMs first, then striped ones by rising ratio of its time to
    the CPU's, until the CPU meets the threshold.
    """
    cost, machine = futures.cost, futures.machine
    reads = to.reads * machine[CHARGE]
    capacity = threshold - reads
    if capacity < 0 or to.reads * machine[FULL] > threshold:
        return NONE
    cpu, gpu, longest, left = to.cpu, to.gpu, 0, 0
    for d in range(at.own.shape[1]):
        own = at.own[s, d]
        if d == to.first:
            own = to.own_first
        if d == to.second:
            own = to.own_second
        begin = left
        while own > capacity:
            need, best, relief = own - capacity, -1, 0
            for k in range(1, at.held[d, 0] + 1):
                i = at.held[d, k]
                by = cost[s, i, NDP] - machine[LOCAL]
                gone = by <= 0
                for n in range(begin, left):
                    gone = gone or leaving[n] == i
                if not gone and (best < 0 or _better(by, relief, need)):
                    best, relief = i, by
            if best < 0:
                return NONE
            leaving[left] = best
            left += 1
            own -= relief
            cpu += cost[s, best, CPU_LOCAL]
        longest = max(longest, own)
    for n in range(left):
        after = gpu + cost[s, leaving[n], GPU_LOCAL]
        if cpu <= threshold and cpu <= after:
            break
        if after <= threshold:
            gpu = after
            cpu -= cost[s, leaving[n], CPU_LOCAL]
    for k in range(len(at.place)):
        if cpu <= threshold:
            break
        i = futures.order[s, k]
        if at.place[i] == STRIPED:
            after = gpu + cost[s, i, GPU_STRIPED]
            if after > threshold or cost[s, i, CPU_STRIPED] == 0:
                break
            gpu = after
            cpu -= cost[s, i, CPU_STRIPED]
    if max(cpu, gpu) > threshold:
        return NONE
    return max(cpu, gpu, to.reads * machine[FULL], reads + longest)


@compiled
def _better(by: int, relief: int, need: int) -> Any:
    """Tell whether an expert's relief suits a DIMM better than the best so far."""
    if relief < need:
        return by > relief
    return need <= by < relief


@compiled
def recourse(futures: Sampled, at: Loads, s: int, to: Change, guess: int, leaving: Ints) -> Any:
    """Return the makespan of a good schedule of future s.

    The threshold falls from the guess, the makespan before the move as a rule, until none is found
    or the bracket is within the tolerance.

    Parameters
    ----------
    to
        The sums of the future.
    guess
        The first threshold.
    leaving
        For use inside, shape (experts,).
    """
    low, high, tolerance = 0, NONE, futures.machine[TOLERANCE]
    threshold, step = guess, 4 * tolerance
    while high - low > tolerance:
        found = within(futures, at, s, to, threshold, leaving)
        if found < NONE:
            high = min(high, found)
            threshold = high - tolerance if low == 0 else (low + high) // 2
        else:
            low = threshold
            if high < NONE:
                threshold = (low + high) // 2
            else:
                threshold = low + step
                step *= 2
    return high


@compiled
def change_of(futures: Sampled, at: Loads, s: int, i: int, j: int, here: int, there: int) -> Change:
    """Return the sums of future s if expert i goes from `here` to `there`, and j the other way.

    The sums of `at` are those before; `j` is negative if i goes alone, or the move is none.
    """
    hosts, cost = at.hosts, futures.cost
    reads, cpu, gpu = hosts[s, READS], hosts[s, ON_CPU], hosts[s, ON_GPU]
    own_here = at.own[s, here] if here >= 0 else 0
    own_there = at.own[s, there] if there >= 0 else 0
    for turn in range(2):
        e = i if turn == 0 else j
        if e < 0 or not futures.active[s, e]:
            continue
        for sign in range(-1, 2, 2):
            leaves_here = (turn == 0) == (sign < 0)
            place = here if leaves_here else there
            if place == STRIPED:
                reads += sign
                cpu += sign * cost[s, e, CPU_STRIPED]
            elif place == RESIDENT:
                gpu += sign * cost[s, e, HIT]
            elif leaves_here:
                own_here += sign * cost[s, e, NDP]
            else:
                own_there += sign * cost[s, e, NDP]
    return Change(reads, cpu, gpu, here, own_here, there, own_there)


@compiled
def schedule_all(futures: Sampled, at: Loads, leaving: Ints) -> None:
    """Find the makespans of all futures anew, from those that `at` has."""
    for s in range(len(at.makespan)):
        now = change_of(futures, at, s, -1, -1, STRIPED, STRIPED)
        at.makespan[s] = recourse(futures, at, s, now, at.makespan[s], leaving)
