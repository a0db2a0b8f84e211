"""Simulated annealing over placements with an even split, compiled.

A *state* is `slot`, the expert in each slot of each device (-1: none), with what follows from it:
`count`, the copies of each expert; `where`, the devices that hold them; `load`, the load of each
device in each window. Changes: two slots of different devices change contents; or a slot takes a
copy of another expert, which then has one more, in place of one whose expert has others, or of
none.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

EMPTY = -1


@compiled
def anneal(
    share: Ints,
    weight: Ints,
    slot: Ints,
    count: Ints,
    where: Ints,
    load: Ints,
    moved: Ints,
    best: Ints,
    numbers: Ints,
    factors: Floats,
) -> int:
    """Run some steps of simulated annealing; return the cost of the best state.

    One random number of xorshift (Marsaglia 2003) per step decides all: its parts are a window, a
    slot of that one's fullest device (at times of any), another slot of the node, and the change.

    Parameters
    ----------
    share
        What a copy weighs by number of copies, shape (windows, experts, most + 1).
    weight
        Of the windows, shape (windows,).
    slot, count, where, load
        The state: shapes (devices, slots), (experts,), (experts, most), (windows, devices).
    moved
        What a copy costs on a device, shape (experts, devices) or (1, 1), which is nothing.
    best
        The best slots so far, overwritten.
    numbers
        Consecutive devices that make up a node, which nothing leaves; the number of steps; and the
        state of the random numbers, not 0, overwritten.
    factors
        The first temperature in units; its factor per step; and what the squares of loads over
        their mean count beside the peaks.
    """
    windows, devices = load.shape
    slots, most = slot.shape[1], where.shape[1]
    moving = moved.shape[0] > 1
    per_node, steps, random = numbers[0], numbers[1], np.uint64(numbers[2])
    heat, cooling, smooth = factors[0], factors[1], factors[2]
    change = np.zeros((windows, devices), dtype=np.int64)
    fullest = np.zeros(windows, dtype=np.int64)
    cost, total = 0, 0
    for w in range(windows):
        top = 0
        for g in range(devices):
            total += load[w, g]
            if load[w, g] > load[w, top]:
                top = g
        fullest[w] = top
        cost += weight[w] * load[w, top]
    for g in range(devices):
        for s in range(slots):
            best[g, s] = slot[g, s]
            if moving and slot[g, s] != EMPTY:
                cost += moved[slot[g, s], g]
    # The windows' mean stands for each: they are of a size, and zero loads are no trouble.
    smooth = smooth * windows / max(1, total)
    least = cost
    for _ in range(steps):
        heat *= cooling
        random ^= random << np.uint64(13)
        random ^= random >> np.uint64(7)
        random ^= random << np.uint64(17)
        kind = int(random >> np.uint64(61))
        g = fullest[int(random >> np.uint64(45) & np.uint64(0xFFFF)) % windows]
        if kind == 0:
            g = int(random >> np.uint64(29) & np.uint64(0xFFFF)) % devices
        s = int(random >> np.uint64(33) & np.uint64(0xFFF)) % slots
        h = g // per_node * per_node + int(random >> np.uint64(16) & np.uint64(0x1FFFF)) % per_node
        t = int(random >> np.uint64(4) & np.uint64(0xFFF)) % slots
        a, b = slot[g, s], slot[h, t]
        if a == b:
            continue
        # A change: `a` leaves g for h where it is not EMPTY, and b leaves h for g. Or `added` has
        # one copy more, in `place` of device `at`, and `dropped` one less there.
        swap = kind < 5
        added, dropped, at, place = a, b, h, t
        if kind == 5:
            added, dropped, at, place = b, a, g, s
        if g == h if swap else added == EMPTY or count[added] == most:
            continue
        if not swap and dropped != EMPTY and count[dropped] == 1:
            continue
        wrong = False
        for k in range(most):
            if swap:
                wrong |= a != EMPTY and k < count[a] and where[a, k] == h
                wrong |= b != EMPTY and k < count[b] and where[b, k] == g
            else:
                wrong |= k < count[added] and where[added, k] == at
        if wrong:
            continue
        after, rough = 0, 0.0
        for w in range(windows):
            if swap:
                differ = 0
                if a != EMPTY:
                    differ += share[w, a, count[a]]
                if b != EMPTY:
                    differ -= share[w, b, count[b]]
                change[w, g] -= differ
                change[w, h] += differ
            else:
                n = count[added]
                for k in range(n):
                    change[w, where[added, k]] += share[w, added, n + 1] - share[w, added, n]
                change[w, at] += share[w, added, n + 1]
                if dropped != EMPTY:
                    n = count[dropped]
                    for k in range(n):
                        more = share[w, dropped, n - 1] - share[w, dropped, n]
                        change[w, where[dropped, k]] += more
                    change[w, at] -= share[w, dropped, n - 1]
            top, squares = 0, 0.0
            for d in range(devices):
                differ = change[w, d]
                now = load[w, d] + differ
                top = max(top, now)
                if differ != 0:
                    squares += float(differ) * float(load[w, d] + now)
            after += weight[w] * top
            rough += weight[w] * squares
        for w in range(windows):
            after -= weight[w] * load[w, fullest[w]]
        if moving and swap:
            if a != EMPTY:
                after += moved[a, h] - moved[a, g]
            if b != EMPTY:
                after += moved[b, g] - moved[b, h]
        elif moving:
            after += moved[added, at]
            if dropped != EMPTY:
                after -= moved[dropped, at]
        worse = after + smooth * rough
        # The low bits again: which of two changes is tried has nothing to do with whether it is
        # accepted.
        drawn = float(random >> np.uint64(11)) / 9007199254740992.0
        drawn = (drawn * 12345.6789) % 1.0
        accepted = worse <= 0 or worse < -heat * np.log(drawn + 1e-300)
        for w in range(windows):
            top = 0
            for d in range(devices):
                if accepted:
                    load[w, d] += change[w, d]
                    if load[w, d] > load[w, top]:
                        top = d
                change[w, d] = 0
            if accepted:
                fullest[w] = top
        if not accepted:
            continue
        cost += after
        if swap:
            slot[g, s], slot[h, t] = b, a
            for k in range(most):
                if a != EMPTY and k < count[a] and where[a, k] == g:
                    where[a, k] = h
                if b != EMPTY and k < count[b] and where[b, k] == h:
                    where[b, k] = g
        else:
            if dropped != EMPTY:
                count[dropped] -= 1
                for k in range(count[dropped]):
                    if where[dropped, k] == at:
                        where[dropped, k] = where[dropped, count[dropped]]
            where[added, count[added]] = at
            count[added] += 1
            slot[at, place] = added
        if cost < least:
            least = cost
            for g in range(devices):
                for s in range(slots):
                    best[g, s] = slot[g, s]
    numbers[2] = np.int64(random)
    return least
