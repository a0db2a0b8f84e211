"""Dividing the rows of two DIMMs anew, best of all ways, domains kept.

Annealing moves a row or two at a time. Where few rows share a DIMM, all 2^15 ways to divide those
of two DIMMs take a millisecond, and a plan that none of the pairs can better is often well below
what annealing leaves.
"""

from collections.abc import Callable

import numpy as np

from moeopt.numeric.compiled import compiled

from .plan import DIMM, DIMMS, EVERY, OWN, WEIGHT, Floats, Plan, load
from .rows import CPU, GPU

MOST_ROWS = 16
"""Rows of two DIMMs that are divided anew; where there are more, those of most work."""


def resplit_pairs(plan: Plan, slots: int, stopped: Callable[[], bool]) -> None:
    """Divide the rows of every two DIMMs anew until no pair gains, or until stopped.

    Parameters
    ----------
    plan
        Its choices and the loads that follow are updated, but for the DIMMs' powers.
    slots
        Rows that a DIMM may hold.
    stopped
        Asked between pairs.
    """
    load(plan, 0)
    dimms = (len(plan.state) - DIMMS) // 3
    tried = np.zeros((dimms, dimms), dtype=np.bool_)
    gained = True
    while gained:
        gained = False
        for d in range(dimms):
            for e in range(d):
                if stopped():
                    return
                if not tried[d, e] and resplit(plan, d, e, slots):
                    tried[[d, e]] = tried[:, [d, e]] = False
                    gained = True
                tried[d, e] = True


@compiled
def least_makespans(plan: Plan, d: int, e: int, least: Floats) -> None:
    """Compute what each scenario's makespan is at least, whatever DIMMs d and e do."""
    state = plan.state
    for s in range(state.shape[1]):
        longest = 0.0
        for own in range(DIMMS, len(state), 3):
            if own not in (DIMMS + 3 * d, DIMMS + 3 * e):
                longest = max(longest, state[own, s])
        least[s] = max(state[GPU, s], state[CPU, s], state[EVERY, s] + longest)


@compiled
def measure(plan: Plan, first: Floats, second: Floats, least: Floats, limit: float) -> float:
    """Return the weighted makespans, or infinity once they are above the limit."""
    state, found = plan.state, 0.0
    for s in range(len(least)):
        top = max(first[s], second[s]) + state[EVERY, s]
        found += state[WEIGHT, s] * max(top, least[s])
        if found > limit:
            return np.inf
    return found


@compiled
def squares(first: Floats, second: Floats) -> float:
    """Return the sum of squares of both sides: what decides between equal makespans.

    Over all DIMMs it falls whenever it falls for two of them, so no division comes back: dividing
    pair after pair ends.
    """
    found = 0.0
    for s in range(len(first)):
        found += first[s] * first[s] + second[s] * second[s]
    return found


@compiled
def resplit(plan: Plan, d: int, e: int, slots: int) -> bool:
    """Divide the rows of DIMMs d and e in the best way; return whether anything changed."""
    choice, part, state = plan.choice, plan.part, plan.state
    scenarios = state.shape[1]
    rows = np.empty(len(choice), np.int64)
    work = np.empty(len(choice))
    count = 0
    for i in range(len(choice)):
        if choice[i, DIMM] in (d, e):
            rows[count] = i
            work[count] = -part[i, OWN].sum()
            count += 1
    rows = rows[:count][np.argsort(work[:count])][:MOST_ROWS]
    free = len(rows)
    first, second = state[DIMMS + 3 * d].copy(), state[DIMMS + 3 * e].copy()
    least = np.empty(scenarios)
    least_makespans(plan, d, e, least)
    best = measure(plan, first, second, least, np.inf)
    tie = squares(first, second) * (1 - 1e-9)
    side = np.zeros(free, np.bool_)
    on_first = 0
    for i in range(len(choice)):
        on_first += choice[i, DIMM] == d
    for k in range(free):
        side[k] = choice[rows[k], DIMM] == d
    chosen, changed = side.copy(), False
    # With no row left out, a division and its mirror image are the same.
    codes = 1 << (free if count > free else max(free - 1, 0))
    for code in range(1, codes):
        k = 0  # Gray code: one row changes sides, the one of the lowest set bit
        while not (code >> k) & 1:
            k += 1
        sign = -1.0 if side[k] else 1.0
        side[k] = not side[k]
        on_first += int(sign)
        for s in range(scenarios):
            first[s] += sign * part[rows[k], OWN, s]
            second[s] -= sign * part[rows[k], OWN, s]
        if max(on_first, count - on_first) > slots:
            continue
        value = measure(plan, first, second, least, best)
        if value > best:
            continue
        spread = squares(first, second)
        if value < best or spread < tie:
            best, tie, changed = value, spread * (1 - 1e-9), True
            chosen[:] = side
    if changed:
        for k in range(free):
            new = d if chosen[k] else e
            old = choice[rows[k], DIMM]
            if new != old:
                choice[rows[k], DIMM] = new
                for s in range(scenarios):
                    state[DIMMS + 3 * old, s] -= part[rows[k], OWN, s]
                    state[DIMMS + 3 * new, s] += part[rows[k], OWN, s]
    return changed
