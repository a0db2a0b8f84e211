"""The exact answer for two hosts: one option per group, so that the later host is free earliest.

Two lists of labels (GPU time, CPU time) grow towards each other, each over its own groups; a pair
of labels, one of either list, is a choice for all. See "Proof" in the package's docstring.
"""

from typing import Any, NamedTuple

import numpy as np

from moeopt.numeric.compiled import compiled

from .loads import Ints, trimmed
from .options import Options

NARROW = 64
NEVER = np.iinfo(np.int64).max


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
    options: Options,
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
    options
        The groups.
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
    groups = len(options.start) - 1
    chosen, order = np.empty(groups, np.int64), np.empty(groups, np.int64)
    regret, second = regrets(options, weight, scale, chosen)
    first = np.zeros((3, 1), np.int64)
    for k in range(groups):
        if second[k] > allowed:
            first[0, 0] += options.gpu[chosen[k]]
            first[1, 0] += options.cpu[chosen[k]]
    left, right = first, np.zeros((3, 1), np.int64)
    left[2, 0], right[2, 0] = -1, -1
    left_regret, right_regret = np.zeros(1, np.int64), np.zeros(1, np.int64)
    room = 1024
    before, taken = np.empty(room, np.int64), np.empty(room, np.int64)
    used, work, exact = 0, 0, True
    for n in range(groups):
        order[n] = -second[n]
    for k in np.argsort(order):
        if second[k] > allowed:
            continue
        is_left = left.shape[1] <= right.shape[1]
        if is_left:
            grown, grown_regret, seen = extended(options, k, left, left_regret, regret, allowed)
        else:
            grown, grown_regret, seen = extended(options, k, right, right_regret, regret, allowed)
        work += seen
        if work > limit:
            width = min(width, NARROW)
        if grown.shape[1] > width:
            exact = False
            grown, grown_regret = thinned(grown, grown_regret, width)
        size = grown.shape[1]
        if used + size > room:
            room = 2 * (used + size)
            before, taken = longer(before, room), longer(taken, room)
        for n in range(size):
            before[used + n], taken[used + n] = grown[2, n], grown[3, n]
            grown[2, n] = used + n
        used += size
        if is_left:
            left, left_regret = trimmed(grown, 3, size), grown_regret
        else:
            right, right_regret = trimmed(grown, 3, size), grown_regret
    host_ns, a, b = best_pair(left, right)
    if a >= 0:
        group = group_of_options(options)
        for at in (left[2, a], right[2, b]):
            while at >= 0:
                chosen[group[taken[at]]] = taken[at]
                at = before[at]
    return Split(host_ns, chosen, exact, work)


@compiled
def group_of_options(options: Options) -> Ints:
    """Return the group that each option belongs to."""
    group = np.empty(len(options.gpu), np.int64)
    for k in range(len(options.start) - 1):
        for n in range(options.start[k], options.start[k + 1]):
            group[n] = k
    return group


@compiled
def regrets(options: Options, weight: int, scale: int, chosen: Ints) -> tuple[Ints, Ints]:
    """Return each option's regret, and each group's second smallest; fill in the cheapest options.

    An option's regret is its weighted cost less that of its group's cheapest option.
    """
    groups = len(options.start) - 1
    regret, second = np.empty(len(options.gpu), np.int64), np.empty(groups, np.int64)
    for k in range(groups):
        begin, end = options.start[k], options.start[k + 1]
        at = begin
        for n in range(begin, end):
            regret[n] = weight * options.gpu[n] + (scale - weight) * options.cpu[n]
            if regret[n] < regret[at]:
                at = n
        chosen[k] = at
        least = regret[at]
        second[k] = NEVER
        for n in range(begin, end):
            regret[n] -= least
            if n != at:
                second[k] = min(second[k], regret[n])
    return regret, second


@compiled
def extended(
    options: Options, k: int, labels: Ints, spent: Ints, regret: Ints, allowed: int
) -> Any:
    """Return the labels with group k's options added, their regrets, and how many were looked at.

    Rows: GPU time (rising), CPU time (falling), the label before, the option taken.
    """
    grown = np.empty((4, 0), np.int64)
    grown_spent = np.empty(0, np.int64)
    seen = 0
    for n in range(options.start[k], options.start[k + 1]):
        if regret[n] <= allowed:
            seen += grown.shape[1] + labels.shape[1]
            grown, grown_spent = merged(
                grown,
                grown_spent,
                labels,
                spent,
                options.gpu[n],
                options.cpu[n],
                n,
                regret[n],
                allowed,
            )
    return grown, grown_spent, seen


@compiled
def merged(
    grown: Ints,
    grown_spent: Ints,
    labels: Ints,
    spent: Ints,
    gpu: int,
    cpu: int,
    option: int,
    regret: int,
    allowed: int,
) -> Any:
    """Return the undominated of `grown` and of `labels` shifted by one option, by GPU time."""
    a_size, b_size = grown.shape[1], labels.shape[1]
    out = np.empty((4, a_size + b_size), np.int64)
    out_spent = np.empty(a_size + b_size, np.int64)
    a, b, size = 0, 0, 0
    while a < a_size or b < b_size:
        from_b = a == a_size
        if not from_b and b < b_size:
            shifted = labels[0, b] + gpu
            from_b = shifted < grown[0, a] or (
                shifted == grown[0, a] and labels[1, b] + cpu < grown[1, a]
            )
        if from_b:
            x, y, cost = labels[0, b] + gpu, labels[1, b] + cpu, spent[b] + regret
            node, by = labels[2, b], option
            b += 1
        else:
            x, y, cost = grown[0, a], grown[1, a], grown_spent[a]
            node, by = grown[2, a], grown[3, a]
            a += 1
        if cost > allowed or (size > 0 and out[1, size - 1] <= y):
            continue
        out[0, size], out[1, size], out[2, size], out[3, size] = x, y, node, by
        out_spent[size] = cost
        size += 1
    return trimmed(out, 4, size), out_spent[:size]


@compiled
def thinned(labels: Ints, spent: Ints, width: int) -> Any:
    """Return at most `width` of the labels: of each run of neighbours the one of least regret."""
    size = labels.shape[1]
    out, out_spent = np.empty((4, width), np.int64), np.empty(width, np.int64)
    for n in range(width):
        kept = n * size // width
        for other in range(kept + 1, (n + 1) * size // width):
            if spent[other] < spent[kept]:
                kept = other
        for row in range(4):
            out[row, n] = labels[row, kept]
        out_spent[n] = spent[kept]
    return out, out_spent


@compiled
def longer(values: Ints, size: int) -> Ints:
    """Return a copy with room for `size` numbers."""
    out = np.empty(size, np.int64)
    for n in range(len(values)):
        out[n] = values[n]
    return out


@compiled
def best_pair(left: Ints, right: Ints) -> Any:
    """Return when the later host is free at the earliest, and the two labels (-1 if none).

    Proof that one pass suffices: with the label on the left further along (more GPU, less CPU
    time), the right label at which the GPU overtakes the CPU is the same or an earlier one, and the
    best partner is that or the one before it.
    """
    best, best_a, best_b = NEVER, -1, -1
    b = right.shape[1] - 1
    for a in range(left.shape[1]):
        while b >= 0:
            gpu, cpu = left[0, a] + right[0, b], left[1, a] + right[1, b]
            if max(gpu, cpu) < best:
                best, best_a, best_b = max(gpu, cpu), a, b
            if gpu <= cpu:
                break
            b -= 1
        if b < 0:
            break
    return best, best_a, best_b
