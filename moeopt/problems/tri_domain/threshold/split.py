"""The exact answer for two hosts: one option per group, so that the later host is free earliest.

Two lists of labels (GPU time, CPU time) grow towards each other, each over its own groups; a pair
of labels, one of either list, is a choice for all. See "Proof" in the package's docstring.
"""

from typing import NamedTuple

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import CPU, GPU, Ints, room_for

from .options import GROUP
from .order import rising
from .pareto import NOTHING

NARROW = 64
NEVER = np.iinfo(np.int64).max

REGRET, NODE, OPTION = 2, 3, 4
"""Rows of a list of labels, after `GPU` and `CPU`: regret, the label before, the option taken."""


class Split(NamedTuple):
    """The best choice found: `host_ns` is when the later host is free, `NEVER` if there is none.

    `chosen` has one option per group. `exact` says that no choice within the threshold is better;
    `work` counts the labels looked at.
    """

    host_ns: int
    chosen: Ints
    exact: bool
    work: int


@compiled
def split_hosts(
    options: Ints,
    start: Ints,
    weight: int,
    scale: int,
    value: int,
    threshold: int,
    width: int,
    limit: int,
) -> Split:
    """Return the choice with the earliest later host among those within the threshold.

    Parameters
    ----------
    options, start
        The groups, see `options_at`.
    weight, scale, value
        The weights ``weight`` and ``scale - weight`` of GPU and CPU, and what `cheapest` says.
    threshold
        Choices beyond it are of no interest, in ns.
    width
        Longest list of labels. A longer one is thinned out, and the answer is not exact then.
    limit
        Labels to look at; beyond it the lists are kept at `NARROW`, to come to an end.
    """
    allowed = threshold * scale - value
    regret, chosen, falling = regrets(options, start, weight, scale)
    order = rising(falling)
    # `size` labels in the shorter list, `other_size` in the other one; both begin with no option.
    labels, other, size, other_size = room_for(5, 1), room_for(5, 1), 1, 1
    for row in range(5):
        labels[row, 0] = other[row, 0] = NOTHING if row == NODE else 0
    nodes, used = room_for(2, 1024), 0
    work, exact = 0, True
    for n in range(len(order)):
        k = order[n]
        if -falling[k] > allowed:
            labels[GPU, 0] += options[GPU, chosen[k]]
            labels[CPU, 0] += options[CPU, chosen[k]]
            continue
        labels, size, seen = extended(
            options, start[k], start[k + 1], labels, size, regret, allowed
        )
        work += seen
        if work > limit:
            width = min(width, NARROW)
        if size > width:
            labels, size, exact = thinned(labels, size, width), width, False
        if used + size > nodes.shape[1]:
            nodes = longer(nodes, 2 * (used + size))
        for at in range(size):
            nodes[0, used], nodes[1, used] = labels[NODE, at], labels[OPTION, at]
            labels[NODE, at] = used
            used += 1
        if size > other_size:
            labels, other, size, other_size = other, labels, other_size, size
    host_ns, a, b = best_pair(labels, size, other, other_size)
    if a >= 0:
        for node in (labels[NODE, a], other[NODE, b]):
            while node >= 0:
                chosen[options[GROUP, nodes[1, node]]] = nodes[1, node]
                node = nodes[0, node]
    return Split(host_ns, chosen, exact, work)


@compiled
def regrets(options: Ints, start: Ints, weight: int, scale: int) -> tuple[Ints, Ints, Ints]:
    """Return each option's regret, each group's cheapest option, and its second regret, negated.

    An option's regret is its weighted cost less that of its group's cheapest option.
    """
    groups = len(start) - 1
    regret, chosen = np.empty(start[groups], np.int64), np.empty(groups, np.int64)
    falling = np.empty(groups, np.int64)
    for k in range(groups):
        least, second, at = NEVER, NEVER, -1
        for n in range(start[k], start[k + 1]):
            regret[n] = weight * options[GPU, n] + (scale - weight) * options[CPU, n]
            if regret[n] < least:
                least, second, at = regret[n], least, n
            elif regret[n] < second:
                second = regret[n]
        for n in range(start[k], start[k + 1]):
            regret[n] -= least
        chosen[k] = at
        falling[k] = least - second if second < NEVER else -NEVER
    return regret, chosen, falling


@compiled
def extended(
    options: Ints, begin: int, end: int, labels: Ints, size: int, regret: Ints, allowed: int
) -> tuple[Ints, int, int]:
    """Return the labels with a group's options added, how many, and how many were looked at.

    The labels are by rising GPU and falling CPU time. For each option the ones that it leads to are
    merged with those so far, the undominated ones within the regret allowed.
    """
    grown, grown_size, seen = room_for(5, 0), 0, 0
    for n in range(begin, end):
        if regret[n] > allowed:
            continue
        seen += grown_size + size
        out, kept = room_for(5, grown_size + size), 0
        a, b = 0, 0
        while a < grown_size or b < size:
            from_b = b < size
            gpu, cpu = NEVER, NEVER
            if from_b:
                gpu, cpu = labels[GPU, b] + options[GPU, n], labels[CPU, b] + options[CPU, n]
                spent, node, by = labels[REGRET, b] + regret[n], labels[NODE, b], n
            if a < grown_size and (
                grown[GPU, a] < gpu or (grown[GPU, a] == gpu and grown[CPU, a] <= cpu)
            ):
                from_b = False
                gpu, cpu, spent = grown[GPU, a], grown[CPU, a], grown[REGRET, a]
                node, by = grown[NODE, a], grown[OPTION, a]
            a, b = a + (not from_b), b + from_b
            if spent <= allowed and (kept == 0 or out[CPU, kept - 1] > cpu):
                out[GPU, kept], out[CPU, kept], out[REGRET, kept] = gpu, cpu, spent
                out[NODE, kept], out[OPTION, kept] = node, by
                kept += 1
        grown, grown_size = out, kept
    return grown, grown_size, seen


@compiled
def thinned(labels: Ints, size: int, width: int) -> Ints:
    """Return `width` of the labels: of each run of neighbours the one of least regret."""
    out = room_for(5, width)
    for n in range(width):
        kept = n * size // width
        for other in range(kept + 1, (n + 1) * size // width):
            if labels[REGRET, other] < labels[REGRET, kept]:
                kept = other
        for row in range(5):
            out[row, n] = labels[row, kept]
    return out


@compiled
def longer(nodes: Ints, room: int) -> Ints:
    """Return a copy with room for so many nodes."""
    out = room_for(2, room)
    for n in range(nodes.shape[1]):
        out[0, n], out[1, n] = nodes[0, n], nodes[1, n]
    return out


@compiled
def best_pair(left: Ints, left_size: int, right: Ints, right_size: int) -> tuple[int, int, int]:
    """Return when the later host is free at the earliest, and the two labels (-1 if none).

    Proof that one pass suffices: with the label on the left further along (more GPU, less CPU
    time), the right label at which the GPU overtakes the CPU is the same or an earlier one, and the
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
