"""The feasibility subproblem of one threshold: by Lagrangian relaxation first, then exactly.

Striped experts whose read takes longer from one host than from the other (residents, which the GPU
does not read) make the striped reads depend on the schedule. They are taken at their shorter read
until a schedule says otherwise; then one of them is bound to either host in turn.

GPU and CPU share what the DIMMs and the striped experts leave them: one mode per group.

The least time at which both hosts are free is bounded by Lagrangian relaxation of TD-C3 and TD-C4
with one multiplier, and found by dynamic programming from two sides: two lists of states (GPU time,
CPU time) grow towards each other, each over its own groups; a pair of states, one of either list,
is a choice for all. Groups, and states of one list, that the relaxation's reduced costs rule out
are dropped. Lemmas 3 and 4 of `formulations/tri_domain/spec.md`.
"""

from typing import Any, NamedTuple

import numpy as np

from moeopt.core.compiled import part, rising, short
from moeopt.core.search import Feasibility
from moeopt.problems.device_loads import (
    CPU,
    DRAM,
    GPU,
    NDP,
    PLACE,
    STRIPED_READS,
    Ints,
    empty_table,
    loads_of,
    makespan_of,
)

from .pareto import BEFORE, FEW, GROUP, MOVE, NODE, NOTHING, OF, Labels, modes_at, resized

NARROW = 64
"""Longest list of states once the work allowed is spent."""

NEVER = np.iinfo(np.int64).max

REDUCED_COST, HOST_NODE, MODE = 2, 3, 4
"""Rows of a list of states, after `GPU` and `CPU`; then the state before, and the mode taken."""

ROUNDS = 40
"""Multipliers to try; the bisection mostly ends after a few."""


class HostChoice(NamedTuple):
    """The best choice found: `host_ns` is when the later host is free, `NEVER` if there is none.

    `chosen` has one mode per group. `exact` says that no choice within the threshold is better;
    `work` counts the states looked at.
    """

    host_ns: int
    chosen: Ints
    exact: bool
    work: int


@part
def lagrangian_value(modes: Ints, start: Ints, multiplier: int, scale: int) -> tuple[int, int, int]:
    """Return ``scale`` times the Lagrangian value of a multiplier, and the two hosts' times there.

    The least of ``multiplier * GPU time + (scale - multiplier) * CPU time``: the sum over the
    groups of each group's cheapest mode. Proof that it bounds: whatever modes are chosen, the
    weighted sum of the hosts' times is at least this, and the later of them is at least their
    weighted average.
    """
    value, gpu, cpu = 0, 0, 0
    other = scale - multiplier
    for k in range(len(start) - 1):
        at = start[k]
        best = multiplier * modes[GPU, at] + other * modes[CPU, at]
        for n in range(at + 1, start[k + 1]):
            cost = multiplier * modes[GPU, n] + other * modes[CPU, n]
            if cost < best:
                best, at = cost, n
        value += best
        gpu += modes[GPU, at]
        cpu += modes[CPU, at]
    return value, gpu, cpu


@short(FEW)
def best_multiplier(modes: Ints, start: Ints, threshold: int, scale: int, multiplier: int) -> Any:
    """Return (multiplier, value, whether the value refutes the threshold): the Lagrangian dual.

    The value is concave and piecewise linear in the multiplier: the lines at one that is too small
    and at one that is too large meet where it is evaluated next. Starts at `multiplier`, and ends
    as soon as a value is a refutation, or the cheapest modes are within the threshold.
    """
    low: int = 0
    high: int = scale
    low_gpu, low_cpu, high_gpu, high_cpu = -1, -1, -1, -1
    best, best_value = multiplier, -1
    for _ in range(ROUNDS):
        value, gpu, cpu = lagrangian_value(modes, start, multiplier, scale)
        if value > best_value:
            best, best_value = multiplier, value
        if value > threshold * scale:
            return best, best_value, True
        if (gpu <= threshold and cpu <= threshold) or gpu == cpu:
            break
        if gpu > cpu:
            low, low_gpu, low_cpu = multiplier, gpu, cpu
        else:
            high, high_gpu, high_cpu = multiplier, gpu, cpu
        if low_gpu < 0:
            multiplier = 0 if high > 0 else -1
        elif high_gpu < 0:
            multiplier = scale if low < scale else -1
        else:
            rise = np.float64(low_gpu - low_cpu) - np.float64(high_gpu - high_cpu)
            multiplier = int(scale * (np.float64(high_cpu - low_cpu) / rise))
            if multiplier <= low:
                multiplier = low + 1
            if multiplier >= high:
                multiplier = high - 1
        if multiplier < 0 or (high - low <= 1 and low_gpu >= 0 and high_gpu >= 0):
            break
    return best, best_value, False


@short(FEW)
def schedule_hosts(
    modes: Ints,
    start: Ints,
    multiplier: int,
    scale: int,
    value: int,
    threshold: int,
    width: int,
    limit: int,
) -> HostChoice:
    """Return the choice with the earliest later host among those within the threshold.

    Groups are as of `modes_at`, the multiplier and its value as of `lagrangian_value`. A list of
    more than `width` states is thinned out, and the result is not exact then; beyond `limit` states
    looked at the lists are kept at `NARROW`, to come to an end.
    """
    allowed = threshold * scale - value
    reduced, chosen, falling = reduced_costs(modes, start, multiplier, scale)
    order = rising(falling)
    # `size` states in the shorter list, `other_size` in the other one; both begin with no mode.
    states, other, size, other_size = empty_table(5, 1), empty_table(5, 1), 1, 1
    for row in range(5):
        states[row, 0] = other[row, 0] = NOTHING if row == HOST_NODE else 0
    nodes, used = empty_table(2, 1024), 0
    work, exact = 0, True
    for n in range(len(order)):
        k = order[n]
        if -falling[k] > allowed:
            states[GPU, 0] += modes[GPU, chosen[k]]
            states[CPU, 0] += modes[CPU, chosen[k]]
            continue
        states, size, seen = extended(modes, start[k], start[k + 1], states, size, reduced, allowed)
        work += seen
        if work > limit:
            width = min(width, NARROW)
        if size > width:
            states, size, exact = thinned(states, size, width), width, False
        if used + size > nodes.shape[1]:
            nodes = resized(nodes, 2 * (used + size))
        for at in range(size):
            nodes[0, used], nodes[1, used] = states[HOST_NODE, at], states[MODE, at]
            states[HOST_NODE, at] = used
            used += 1
        if size > other_size:
            states, other, size, other_size = other, states, other_size, size
    host_ns, a, b = best_pair(states, size, other, other_size)
    if a >= 0:
        for node in (states[HOST_NODE, a], other[HOST_NODE, b]):
            while node >= 0:
                chosen[modes[GROUP, nodes[1, node]]] = nodes[1, node]
                node = nodes[0, node]
    return HostChoice(host_ns, chosen, exact, work)


@part
def reduced_costs(modes: Ints, start: Ints, multiplier: int, scale: int) -> tuple[Ints, Ints, Ints]:
    """Return each mode's reduced cost, each group's cheapest mode and its second, negated.

    A mode's reduced cost is its weighted cost less that of its group's cheapest mode.
    """
    groups = len(start) - 1
    reduced, chosen = np.empty(start[groups], np.int64), np.empty(groups, np.int64)
    falling = np.empty(groups, np.int64)
    for k in range(groups):
        least, second, at = NEVER, NEVER, -1
        for n in range(start[k], start[k + 1]):
            reduced[n] = multiplier * modes[GPU, n] + (scale - multiplier) * modes[CPU, n]
            if reduced[n] < least:
                least, second, at = reduced[n], least, n
            elif reduced[n] < second:
                second = reduced[n]
        for n in range(start[k], start[k + 1]):
            reduced[n] -= least
        chosen[k] = at
        falling[k] = least - second if second < NEVER else -NEVER
    return reduced, chosen, falling


@part
def extended(
    modes: Ints, begin: int, end: int, states: Ints, size: int, reduced: Ints, allowed: int
) -> tuple[Ints, int, int]:
    """Return the states with a group's modes added, how many, and how many were looked at.

    The states are by rising GPU and falling CPU time. For each mode the ones that it leads to are
    merged with those so far: the undominated ones within the reduced cost allowed.
    """
    grown, grown_size, seen = empty_table(5, 0), 0, 0
    for n in range(begin, end):
        if reduced[n] > allowed:
            continue
        seen += grown_size + size
        out, kept = empty_table(5, grown_size + size), 0
        a, b = 0, 0
        while a < grown_size or b < size:
            from_b = b < size
            gpu, cpu = NEVER, NEVER
            if from_b:
                gpu, cpu = states[GPU, b] + modes[GPU, n], states[CPU, b] + modes[CPU, n]
                spent, node, by = states[REDUCED_COST, b] + reduced[n], states[HOST_NODE, b], n
            if a < grown_size and (
                grown[GPU, a] < gpu or (grown[GPU, a] == gpu and grown[CPU, a] <= cpu)
            ):
                from_b = False
                gpu, cpu, spent = grown[GPU, a], grown[CPU, a], grown[REDUCED_COST, a]
                node, by = grown[HOST_NODE, a], grown[MODE, a]
            a, b = a + (not from_b), b + from_b
            if spent <= allowed and (kept == 0 or out[CPU, kept - 1] > cpu):
                out[GPU, kept], out[CPU, kept], out[REDUCED_COST, kept] = gpu, cpu, spent
                out[HOST_NODE, kept], out[MODE, kept] = node, by
                kept += 1
        grown, grown_size = out, kept
    return grown, grown_size, seen


@part
def thinned(states: Ints, size: int, width: int) -> Ints:
    """Return `width` of the states: of each run of neighbours the one of least reduced cost."""
    out = empty_table(5, width)
    for n in range(width):
        kept = n * size // width
        for other in range(kept + 1, (n + 1) * size // width):
            if states[REDUCED_COST, other] < states[REDUCED_COST, kept]:
                kept = other
        for row in range(5):
            out[row, n] = states[row, kept]
    return out


@part
def best_pair(left: Ints, left_size: int, right: Ints, right_size: int) -> tuple[int, int, int]:
    """Return when the later host is free at the earliest, and the two states (-1 if none).

    Proof that one pass suffices: with the state on the left further along (more GPU, less CPU
    time), the right state at which the GPU overtakes the CPU is the same or an earlier one, and the
    best partner is that or the one before it.
    """
    best, best_a, best_b = NEVER, -1, -1
    b = right_size - 1
    for a in range(left_size):
        while b >= 0:
            gpu, cpu = left[GPU, a] + right[GPU, b], left[CPU, a] + right[CPU, b]
            if max(gpu, cpu) < best:
                best, best_a, best_b = max(gpu, cpu), a, b
            if gpu <= cpu:
                break
            b -= 1
        if b < 0:
            break
    return best, best_a, best_b


FREE = -1
"""What a striped expert is bound to that may run on either host."""


class Outcome(NamedTuple):
    """What is known about one threshold.

    `host_ns` is a lower bound on the makespan of whatever is within the threshold, 0 if there is
    none; `makespan_ns` and `domain` are the best schedule met, be it within the threshold or not.
    `work` counts the labels and states looked at.
    """

    feasibility: Feasibility
    host_ns: int
    makespan_ns: int
    domain: Ints
    work: int


def decide(
    experts: Ints,
    dimms: int,
    labels: Labels,
    threshold: int,
    scale: int,
    multiplier: int,
    width: int,
    limit: int,
) -> Outcome:
    """Decide whether some schedule is within the threshold.

    Depth first over the striped experts that are bound to a host; without such experts whose reads
    differ, there is one node. Plain Python for the reason that `search.narrow` is. The multiplier
    to start from is the GPU's, in units of ``1 / scale``; `width` and `limit` are as of
    `schedule_hosts`.
    """
    size = experts.shape[1]
    best, best_domain = NEVER, np.full(size, NDP, np.int64)
    work, root_host_ns, sure = 0, 0, True
    fixed = np.full(size, FREE, np.int64)
    path: list[int] = []
    while True:
        extra = _extra_reads(experts, fixed) if path else 0
        modes, start, possible = modes_at(experts, labels, threshold, extra, fixed)
        work += int(start[-1]) if possible else modes.shape[1]
        refuted, value = not possible, 0
        if possible:
            multiplier, value, refuted = best_multiplier(modes, start, threshold, scale, multiplier)
        if not refuted:
            found = schedule_hosts(
                modes, start, multiplier, scale, value, threshold, width, limit - work
            )
            work += found.work
            if not path and found.exact:
                root_host_ns = found.host_ns
            domain = schedule_of(experts, labels, modes, found.chosen)
            makespan = makespan_of(loads_of(experts, domain, dimms), dimms)
            if makespan < best:
                best, best_domain = makespan, domain
            if best <= threshold:
                return Outcome(Feasibility.FEASIBLE, root_host_ns, best, best_domain, work)
            if found.host_ns <= threshold:
                if work > limit:
                    return Outcome(Feasibility.UNKNOWN, 0, best, best_domain, work)
                path.append(_longest_read(experts, fixed, domain))
                fixed[path[-1]] = CPU
                continue
            sure = sure and found.exact
        while path and fixed[path[-1]] == GPU:
            fixed[path.pop()] = FREE
        if not path:
            feasibility = Feasibility.INFEASIBLE if sure else Feasibility.UNKNOWN
            return Outcome(feasibility, 0, best, best_domain, work)
        fixed[path[-1]] = GPU


def _extra_reads(experts: Ints, fixed: Ints) -> int:
    """Return by how much the striped experts bound to a host exceed their shorter reads."""
    read = experts[DRAM : DRAM + NDP]
    bound = np.flatnonzero(fixed != FREE)
    return int((read[fixed[bound], bound] - read[:, bound].min(axis=0)).sum())


def _longest_read(experts: Ints, fixed: Ints, domain: Ints) -> int:
    """Return the free striped expert whose read in this schedule most exceeds its shorter one."""
    read = experts[DRAM : DRAM + NDP]
    free = np.flatnonzero((experts[PLACE] == STRIPED_READS) & (fixed == FREE))
    excess = read[domain[free], free] - read[:, free].min(axis=0)
    return int(free[excess.argmax()])


@short(FEW)
def schedule_of(experts: Ints, labels: Labels, modes: Ints, chosen: Ints) -> Ints:
    """Return the schedule that the chosen modes stand for."""
    nodes, heavy = labels.nodes, len(labels.start) - 1
    domain = np.empty(experts.shape[1], np.int64)
    domain[:] = NDP
    for k in range(heavy):
        node = labels.table[NODE, modes[OF, chosen[k]]]
        while node >= 0:
            domain[nodes[MOVE, node] // 2] = nodes[MOVE, node] % 2
            node = nodes[BEFORE, node]
    k = heavy
    for i in range(experts.shape[1]):
        if experts[PLACE, i] == STRIPED_READS:
            domain[i] = modes[OF, chosen[k]]
            k += 1
    return domain
