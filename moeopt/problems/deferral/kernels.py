"""The compiled loops of the dynamic program: states in arrays, one layer at a time."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled

Ints = NDArray[np.int64]


@compiled
def extensions(
    states: Ints, layer: Ints, penalties: Ints, limits: Ints, raised: Ints, first: int, last: int
) -> Ints:
    """Return the states after a layer that keep the limits, from states `first` to `last` - 1.

    Counts run from the least that reaches the box to the least that gains all there is to gain;
    where that takes more than there are, the largest is tried, which may leave I without length.

    Parameters
    ----------
    states
        Shape (states, 3): penalty, a, c.
    layer
        From a to the start of I and to the end of S, sync, one expert, all experts, sync of the
        layer before.
    penalties
        By deferred count.
    limits
        Largest penalty, a and c after the layer.
    raised
        What the next layer's a is raised to above c, and its c above a (`states.raised`).

    Returns
    -------
    array
        Shape (extensions, 5): penalty, a, c, the state it comes from, and the count.
    """
    lead, gpu, sync, expert, all_experts, sync_before = layer
    most, latest_a, latest_c = limits
    largest = len(penalties) - 1
    found = np.empty(((last - first) * (largest + 1), 5), dtype=np.int64)
    number = 0
    for row in range(first, last):
        p, a, c = states[row, 0], states[row, 1], states[row, 2]
        ready = a + lead
        ran = max(ready, c)
        after_c = ran + all_experts
        on_gpu = max(a + gpu, c + sync_before)
        if after_c > latest_c or on_gpu > latest_a:
            continue
        handed = after_c + sync  # when A of the next layer could start if nothing is deferred
        needed = max(on_gpu, after_c + raised[0])
        least = useful = 0
        if expert:
            least = min(max(0, -((latest_a - handed) // expert)), largest)
            useful = min(max(0, -((needed - handed) // expert)), largest)
        for count in range(least, useful + 1):
            if p + penalties[count] > most:
                break
            immediate = all_experts - count * expert
            after_a = max(on_gpu, (ran + immediate if immediate else ready) + sync)
            if after_a <= latest_a:
                found[number, 0] = p + penalties[count]
                found[number, 1] = max(after_a, after_c + raised[0])
                found[number, 2] = max(after_c, after_a + raised[1])
                found[number, 3], found[number, 4] = row, count
                number += 1
    return found[:number]


@compiled
def pareto(states: Ints, order: Ints) -> Ints:
    """Return the states that no other one with no larger penalty, a and c dominates.

    Those kept so far form a staircase in (a, c), in which the last one with no larger a has the
    least c of all such. A new one takes the place of those that it dominates on the stairs; they
    are dropped for good where their penalty is the same. Of equal states the first is kept.

    Parameters
    ----------
    states
        Shape (states, 3 or more): penalty, a, c.
    order
        Their numbers by rising penalty.

    Returns
    -------
    array
        The numbers of those kept, by rising penalty.
    """
    stair_a, stair_c = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    owner = np.empty(len(order), np.int64)
    kept = np.empty(len(order), np.int64)
    steps = count = 0
    for row in order:
        p, a, c = states[row, 0], states[row, 1], states[row, 2]
        low, high = 0, steps
        while low < high:  # the first step with a larger a
            middle = (low + high) // 2
            low, high = (low, middle) if stair_a[middle] > a else (middle + 1, high)
        if low and stair_c[low - 1] <= c:
            continue
        begin = low - 1 if low and stair_a[low - 1] == a else low
        end = low
        while end < steps and stair_c[end] >= c:
            end += 1
        for step in range(begin, end):
            if states[kept[owner[step]], 0] == p:
                kept[owner[step]] = -1
        move = begin + 1 - end
        if move > 0:
            for step in range(steps - 1, end - 1, -1):
                stair_a[step + 1], stair_c[step + 1] = stair_a[step], stair_c[step]
                owner[step + 1] = owner[step]
        elif move < 0:
            for step in range(end, steps):
                stair_a[step + move], stair_c[step + move] = stair_a[step], stair_c[step]
                owner[step + move] = owner[step]
        steps += move
        stair_a[begin], stair_c[begin], owner[begin], kept[count] = a, c, count, row
        count += 1
    return kept[:count][kept[:count] >= 0]
