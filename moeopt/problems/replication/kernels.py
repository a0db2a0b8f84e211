"""Simulated annealing over placements with an even split, compiled.

A *state* is `slot`, the expert in each slot of each device (-1: none), with what follows from it:
`count`, the copies of each expert; `where`, the devices that hold them; `load`, the load of each
device in each window. Changes: two slots of different devices change contents; or a slot takes a
copy of another expert, which then has one more, in place of one whose expert has others, or of
none.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

Ints = NDArray[np.int64]

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
    per_node: int,
    smooth: float,
    heat: float,
    cooling: float,
    steps: int,
    seed: int,
) -> int:
    """Run some steps of simulated annealing; return the cost of the best state.

    Parameters
    ----------
    share
        What a copy weighs by number of copies, shape (windows, experts, most + 1).
    weight
        Of the windows, shape (windows,).
    slot, count, where, load
        The state: shapes (devices, slots), (experts,), (experts, most), (windows, devices).
    moved
        What a copy costs on a device, shape (experts, devices) or (0, 0).
    best
        The best slots so far, overwritten where better ones are found.
    per_node
        Consecutive devices that make up a node; nothing leaves its node.
    smooth
        What the sum of squares of loads over their mean counts beside the peaks.
    heat, cooling, steps, seed
        First temperature in units, its factor per step, number of steps, seed.
    """
    np.random.seed(seed)
    windows, devices = load.shape
    slots, most = slot.shape[1], where.shape[1]
    moving = moved.shape[0] > 0
    change = np.zeros((windows, devices), dtype=np.int64)
    touched = np.zeros(devices, dtype=np.int64)
    is_touched = np.zeros(devices, dtype=np.bool_)
    fullest = np.zeros(windows, dtype=np.int64)
    mean = np.zeros(windows)
    cost = 0
    for w in range(windows):
        top = 0
        total = 0
        for g in range(devices):
            total += load[w, g]
            if load[w, g] > load[w, top]:
                top = g
        fullest[w] = top
        mean[w] = max(1.0, total / devices) * devices
        cost += weight[w] * load[w, top]
    if moving:
        for g in range(devices):
            for s in range(slots):
                if slot[g, s] != EMPTY:
                    cost += moved[slot[g, s], g]
    least = cost
    best[:] = slot
    for _ in range(steps):
        heat *= cooling
        # A slot of the fullest device of some window, mostly.
        w = np.random.randint(windows)
        g = fullest[w]
        kind = np.random.randint(8)
        if kind == 0:
            g = np.random.randint(devices)
        s = np.random.randint(slots)
        a = slot[g, s]
        h = g // per_node * per_node + np.random.randint(per_node)
        t = np.random.randint(slots)
        b = slot[h, t]
        if a == b or (a == EMPTY and kind >= 3):
            continue
        swap = kind < 5
        added = dropped = EMPTY
        at = h
        place = t
        if swap:
            if g == h:
                continue
        elif kind == 5:
            # The slot of the fullest device goes to another expert of the node.
            if b == EMPTY:
                continue
            added, dropped, at, place = b, a, g, s
        else:
            # The expert has one more copy elsewhere.
            added, dropped = a, b
        # What stands in the way: no two copies on a device, one copy or more, at most `most`.
        wrong = False
        if swap:
            if a != EMPTY:
                for k in range(count[a]):
                    wrong |= where[a, k] == h
            if b != EMPTY:
                for k in range(count[b]):
                    wrong |= where[b, k] == g
        else:
            wrong = count[added] == most or (dropped != EMPTY and count[dropped] == 1)
            if not wrong:
                for k in range(count[added]):
                    wrong |= where[added, k] == at
        if wrong:
            continue
        # How the loads change, in which devices.
        number = 0
        for w in range(windows):
            if swap:
                differ = (share[w, a, count[a]] if a != EMPTY else 0) - (
                    share[w, b, count[b]] if b != EMPTY else 0
                )
                change[w, g] -= differ
                change[w, h] += differ
            else:
                n = count[added]
                lighter = share[w, added, n] - share[w, added, n + 1]
                for k in range(n):
                    change[w, where[added, k]] -= lighter
                change[w, at] += share[w, added, n + 1]
                if dropped != EMPTY:
                    n = count[dropped]
                    heavier = share[w, dropped, n - 1] - share[w, dropped, n]
                    for k in range(n):
                        change[w, where[dropped, k]] += heavier
                    change[w, at] -= share[w, dropped, n - 1]
        if swap:
            touched[0], touched[1], number = g, h, 2
        else:
            touched[0], number = at, 1
            is_touched[at] = True
            for k in range(count[added]):
                d = where[added, k]
                if not is_touched[d]:
                    is_touched[d] = True
                    touched[number] = d
                    number += 1
            if dropped != EMPTY:
                for k in range(count[dropped]):
                    d = where[dropped, k]
                    if not is_touched[d]:
                        is_touched[d] = True
                        touched[number] = d
                        number += 1
            for k in range(number):
                is_touched[touched[k]] = False
        after = 0
        rough = 0.0
        for w in range(windows):
            top = load[w, 0] + change[w, 0]
            for d in range(1, devices):
                top = max(top, load[w, d] + change[w, d])
            after += weight[w] * top
            squares = 0.0
            for k in range(number):
                d = touched[k]
                squares += float(change[w, d]) * (2.0 * load[w, d] + change[w, d])
            rough += weight[w] * squares / mean[w]
        extra = 0
        if moving:
            if swap:
                if a != EMPTY:
                    extra += moved[a, h] - moved[a, g]
                if b != EMPTY:
                    extra += moved[b, g] - moved[b, h]
            else:
                extra += moved[added, at]
                if dropped != EMPTY:
                    extra -= moved[dropped, at]
        for w in range(windows):
            after -= weight[w] * load[w, fullest[w]]
        after += cost + extra
        worse = after - cost + smooth * rough
        if worse <= 0 or worse < -heat * np.log(np.random.random()):
            for w in range(windows):
                for k in range(number):
                    d = touched[k]
                    load[w, d] += change[w, d]
                    change[w, d] = 0
                top = 0
                for d in range(1, devices):
                    if load[w, d] > load[w, top]:
                        top = d
                fullest[w] = top
            if swap:
                slot[g, s], slot[h, t] = b, a
                if a != EMPTY:
                    for k in range(count[a]):
                        if where[a, k] == g:
                            where[a, k] = h
                            break
                if b != EMPTY:
                    for k in range(count[b]):
                        if where[b, k] == h:
                            where[b, k] = g
                            break
            else:
                if dropped != EMPTY:
                    n = count[dropped] - 1
                    for k in range(n):
                        if where[dropped, k] == at:
                            where[dropped, k] = where[dropped, n]
                    count[dropped] = n
                where[added, count[added]] = at
                count[added] += 1
                slot[at, place] = added
            cost = after
            if cost < least:
                least = cost
                best[:] = slot
        else:
            for w in range(windows):
                for k in range(number):
                    change[w, touched[k]] = 0
    return least
