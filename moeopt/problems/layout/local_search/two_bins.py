"""Two-bin re-partitioning: the experts of two DIMMs divided anew in the best way, devices kept.

Single moves and exchanges leave two DIMMs alone as soon as no one or two of their experts can do
better. Where few experts share a DIMM, all 2^15 ways to divide those of two DIMMs take a
millisecond.
"""

from collections.abc import Callable

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled, rising
from moeopt.core.device_loads import OWN, STRIPED_READS
from moeopt.problems.layout.paths import Device

from .state import Costs, Floats, SearchState, channel_of, links_of, load_of, longest_link, rank

GPU, CPU, _ = Device

MOST_EXPERTS = 16
"""Experts of two DIMMs that are divided anew; where there are more, those of most work."""


DIVISIONS_PER_UNIT = 30_000_000
"""Divisions times scenarios that are measured in a unit of work; most end at the first ones."""


def repartition(costs: Costs, at: SearchState, stopped: Callable[[], bool]) -> None:
    """Divide the experts of every two DIMMs anew until no pair gains, or until stopped.

    `at` is updated; `stopped` is asked between pairs.
    """
    dimms = len(at.free) - 1
    tried = np.zeros((dimms, dimms), dtype=np.bool_)
    gained = True
    while gained:
        gained = False
        for d in range(dimms):
            for e in range(d):
                if stopped():
                    return
                if tried[d, e]:
                    continue
                spend(divisions(at, d, e) * len(costs.weight) / DIVISIONS_PER_UNIT)
                if divide(costs, at, d, e):
                    tried[[d, e]] = tried[:, [d, e]] = False
                    gained = True
                tried[d, e] = True


def divisions(at: SearchState, d: int, e: int) -> int:
    """Return about how many ways to divide two DIMMs' experts are looked at."""
    count = int(((at.dimm == d) | (at.dimm == e)).sum())
    return int(2 ** min(count, MOST_EXPERTS)) // 2


@compiled
def least_makespans(at: SearchState, d: int, e: int, least: Floats) -> None:
    """Compute what each scenario's makespan is at least, whatever DIMMs d and e do."""
    loads = at.loads
    for s in range(len(loads)):
        most = 0.0
        for other in range(len(at.free) - 1):
            if other not in (d, e):
                most = max(most, loads[s, OWN + other])
        least[s] = max(loads[s, GPU], loads[s, CPU], loads[s, STRIPED_READS] + most)
        least[s] = max(least[s], longest_link(at, s))


@compiled
def measure(
    costs: Costs, at: SearchState, first: Floats, second: Floats, least: Floats, limit: float
) -> float:
    """Return the weighted makespans, or infinity once they are above the limit."""
    found = 0.0
    for s in range(len(least)):
        top = max(first[s], second[s]) + at.loads[s, STRIPED_READS]
        found += costs.weight[s] * max(top, least[s])
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
def divide(costs: Costs, at: SearchState, d: int, e: int) -> bool:
    """Divide the experts of DIMMs d and e in the best way; return whether anything changed.

    On DIMMs of different channels those that hosts read stay where they are.
    """
    scenarios, count, free = len(at.loads), 0, 0
    across = channel_of(costs, d) != channel_of(costs, e)
    rows = np.empty(len(at.dimm), np.int64)
    work = np.empty(len(at.dimm), np.int64)
    part = np.empty((len(at.dimm), scenarios))
    on_first = 0
    for i in range(len(at.dimm)):
        if at.dimm[i] == d or at.dimm[i] == e:
            rows[free], work[free] = i, 0
            stays = False
            for s in range(scenarios):
                own = load_of(costs, s, i, at.resident[i], at.dimm[i], at.device[s, i])[3]
                if across:
                    read = links_of(costs, s, i, at.resident[i], at.dimm[i], at.device[s, i])[1]
                    stays = stays or read > 0
                part[i, s] = own
                work[free] -= int(own)
            on_first += at.dimm[i] == d
            count += 1
            free += not stays
    slots = (at.free[1 + d] + at.free[1 + e] + count) // 2
    rows = rows[:free][rising(work[:free])][:MOST_EXPERTS]
    free = len(rows)
    first, second = at.loads[:, OWN + d].copy(), at.loads[:, OWN + e].copy()
    least = np.empty(scenarios)
    least_makespans(at, d, e, least)
    best = measure(costs, at, first, second, least, np.inf)
    tie = squares(first, second) * (1 - 1e-9)
    side = np.zeros(free, np.bool_)
    for k in range(free):
        side[k] = at.dimm[rows[k]] == d
    chosen, changed = side.copy(), False
    # With no expert left out, a division and its mirror image are the same.
    codes = 1 << (free if count > free else max(free - 1, 0))
    for code in range(1, codes):
        k = 0  # Gray code: one expert changes sides, the one of the lowest set bit
        while not (code >> k) & 1:
            k += 1
        sign = -1.0 if side[k] else 1.0
        side[k] = not side[k]
        on_first += int(sign)
        for s in range(scenarios):
            first[s] += sign * part[rows[k], s]
            second[s] -= sign * part[rows[k], s]
        if max(on_first, count - on_first) > slots:
            continue
        value = measure(costs, at, first, second, least, best)
        if value > best:
            continue
        spread = squares(first, second)
        if value < best or spread < tie:
            best, tie, changed = value, spread * (1 - 1e-9), True
            for k in range(free):
                chosen[k] = side[k]
    if changed:
        for k in range(free):
            new, old = d if chosen[k] else e, at.dimm[rows[k]]
            if new != old:
                at.dimm[rows[k]] = new
                at.free[1 + old] += 1
                at.free[1 + new] -= 1
                for s in range(scenarios):
                    at.loads[s, OWN + old] -= part[rows[k], s]
                    at.loads[s, OWN + new] += part[rows[k], s]
        for s in range(scenarios):
            rank(at, s)
    return changed
