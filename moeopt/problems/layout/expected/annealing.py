"""Simulated annealing of a layout over futures, which are looked at no longer than a move needs.

A move's worth is the mean over the futures of what it changes: common random numbers. Most moves
are clearly bad after a few futures, so they are looked at in doubling portions from a random one
on, and a move is dropped once its mean so far lies `CLEARLY` standard errors above what would be
accepted: a race (Maron and Moore, "Hoeffding Races", NIPS 6, 1994).
"""

import math

import numpy as np

from moeopt.core.compiled import compiled
from moeopt.problems.layout.local_search.annealing import Random, uniform
from moeopt.problems.layout.paths import STRIPED

from .recourse import (
    CPU_STRIPED,
    HIT,
    NDP,
    ON_CPU,
    ON_GPU,
    READS,
    RESIDENT,
    SLOTS,
    Loads,
    Sampled,
    change_of,
    recourse,
)

FIRST = 8
"""Futures before the first look at a move's mean."""

CLEARLY = 2.0
"""Standard errors."""

RELOCATE = 0.5
"""Share of the moves that put one expert elsewhere; the others exchange two experts."""


@compiled
def put(at: Loads, i: int, place: int) -> None:
    """Give an expert another place; sums and makespans stay as they are."""
    held, before = at.held, at.place[i]
    if before >= 0:
        last = held[before, 0]
        for k in range(1, last + 1):
            if held[before, k] == i:
                held[before, k] = held[before, last]
                break
        held[before, 0] -= 1
    at.place[i] = place
    if place >= 0:
        held[place, 0] += 1
        held[place, held[place, 0]] = i


@compiled
def anneal(
    futures: Sampled,
    at: Loads,
    random: Random,
    temperature: float,
    floor: int,
    evaluations: int,
) -> int:
    """Try moves at one temperature; return how many schedules were made, about `evaluations`.

    Parameters
    ----------
    futures, at
        The futures, and the layout with its loads, which is updated.
    random
        State of the random numbers, shape (1,).
    temperature
        In the unit of the times.
    floor
        Makespans below it count as much as it: 0 minimises their mean; at their quantile, what is
        minimised is the mean of those above it (conditional value at risk).
    """
    count, size, dimms = len(at.makespan), len(at.place), at.own.shape[1]
    after, leaving = np.empty(count, np.int64), np.empty(size, np.int64)
    used = 0
    while used < evaluations:
        used += 1
        i, j = int(uniform(random) * size), -1
        here = at.place[i]
        if uniform(random) < RELOCATE:
            there = int(uniform(random) * (dimms + 1)) + STRIPED
            full = there >= 0 and at.held[there, 0] >= futures.machine[SLOTS]
            if full or here == RESIDENT:
                continue
        else:
            j = int(uniform(random) * size)
            there = at.place[j]
        if here == there:
            continue
        limit = -temperature * math.log(uniform(random) + 1e-300)
        put(at, i, there)
        if j >= 0:
            put(at, j, here)
        start = int(uniform(random) * count)
        total, squares, look, n = 0.0, 0.0, FIRST, 0
        while n < count:
            s = (start + n) % count
            to = change_of(futures, at, s, i, j, here, there)
            after[s] = recourse(futures, at, s, to, at.makespan[s], leaving)
            change = float(max(after[s], floor) - max(at.makespan[s], floor))
            total += change
            squares += change * change
            n += 1
            if n == look and n < count:
                mean = total / n
                error = math.sqrt(max(squares / n - mean * mean, 0.0) / n)
                if mean - CLEARLY * error > limit:
                    break
                look *= 2
        used += n
        if n < count or total > limit * count:
            if j >= 0:
                put(at, j, there)
            put(at, i, here)
            continue
        for s in range(count):
            book(futures, at, s, i, j, here, there)
            at.makespan[s] = after[s]
    return used


@compiled
def book(futures: Sampled, at: Loads, s: int, i: int, j: int, here: int, there: int) -> None:
    """Make a move's sums those of the layout."""
    to = change_of(futures, at, s, i, j, here, there)
    at.hosts[s, READS], at.hosts[s, ON_CPU], at.hosts[s, ON_GPU] = to.reads, to.cpu, to.gpu
    if here >= 0:
        at.own[s, here] = to.own_first
    if there >= 0:
        at.own[s, there] = to.own_second


@compiled
def load_all(futures: Sampled, at: Loads) -> None:
    """Compute the sums of a layout whose `place` is set, from nothing."""
    for i in range(len(at.place)):
        place = at.place[i]
        at.place[i] = STRIPED
        put(at, i, place)
        for s in range(len(at.makespan)):
            if not futures.active[s, i]:
                continue
            if place == STRIPED:
                at.hosts[s, READS] += 1
                at.hosts[s, ON_CPU] += futures.cost[s, i, CPU_STRIPED]
            elif place == RESIDENT:
                at.hosts[s, ON_GPU] += futures.cost[s, i, HIT]
            else:
                at.own[s, place] += futures.cost[s, i, NDP]
