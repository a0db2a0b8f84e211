"""Iterated local search over domains and copies at once: one expert moved, or two.

The table is that of `moeopt.core.device_loads` with a column per copy; columns ``first[i]`` to
``first[i + 1]`` are those of expert i, of which one has a domain and the others are `IDLE`.
"""

from typing import Any

from moeopt.core.compiled import compiled
from moeopt.core.device_loads import (
    GPU,
    IDLE,
    NDP,
    OWN,
    PLACE,
    STRIPED_READS,
    Ints,
    loads_of,
    makespan_of,
    put,
)

SMOOTHING = 0.05
"""Weight of the devices' mean square against the makespan."""

KICKS = 3
"""Experts that run elsewhere at random between two descents."""

NOBODY = -1


@compiled
def improve(
    experts: Ints, first: Ints, domain: Ints, dimms: int, rounds: int, target: int, seed: int
) -> Any:
    """Improve a schedule in place and return its makespan.

    Parameters
    ----------
    experts, first, domain
        The table, the experts' first columns, and the schedule by column.
    rounds
        Descents; the first starts from the schedule, each later one near the best so far.
    target
        A lower bound, at which it ends.
    seed
        Of the random numbers.
    """
    load = loads_of(experts, domain, dimms)
    now, size = domain.copy(), len(first) - 1
    best = makespan_of(load, dimms)
    state = seed % 2147483646 + 1
    for _ in range(rounds):
        _descend(experts, first, now, load, dimms)
        makespan = makespan_of(load, dimms)
        if makespan < best:
            best = makespan
            for k in range(len(domain)):
                domain[k] = now[k]
        if best <= target:
            break
        for k in range(len(domain)):
            now[k] = domain[k]
        for _ in range(KICKS):
            state = state * 48271 % 2147483647
            i = state % size
            state = state * 48271 % 2147483647
            to = state % (3 * (first[i + 1] - first[i]))
            if _usable(experts, first[i] + to // 3, to % 3):
                _run(experts, first, now, load, dimms, i, first[i] + to // 3, to % 3)
        load = loads_of(experts, now, dimms)
    return best


@compiled
def score(load: Ints, dimms: int) -> Any:
    """Return the makespan, smoothed by the devices' mean square: relief counts before it shows."""
    makespan = makespan_of(load, dimms)
    squares = float(load[0]) ** 2 + float(load[1]) ** 2
    for d in range(dimms):
        squares += float(load[STRIPED_READS] + load[OWN + d]) ** 2
    return makespan + SMOOTHING * squares / ((dimms + 2) * max(makespan, 1))


@compiled
def _descend(experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int) -> None:
    """Move single experts while that helps, then pairs with one expert of the busiest device."""
    size = len(first) - 1
    value = score(load, dimms)
    gained = True
    while gained:
        gained = False
        for i in range(size):
            after = _best_run(experts, first, domain, load, dimms, i, value)
            gained, value = gained or after < value, after
        if gained:
            continue
        makespan = makespan_of(load, dimms)
        for i in range(size):
            if not _is_busy(experts, first, domain, load, dimms, i, makespan):
                continue
            before = _column(first, domain, i)
            was = domain[before]
            for k in range(first[i], first[i + 1]):
                for to in range(3):
                    if (k == before and to == was) or not _usable(experts, k, to):
                        continue
                    _run(experts, first, domain, load, dimms, i, k, to)
                    for j in range(size):
                        if j == i:
                            continue
                        after = _best_run(experts, first, domain, load, dimms, j, value)
                        if after < value:
                            gained, value = True, after
                            break
                    if gained:
                        break
                    _run(experts, first, domain, load, dimms, i, before, was)
                if gained:
                    break
            if gained:
                break


@compiled
def _best_run(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, value: float
) -> float:
    """Let an expert run where the score is least, if that is below `value`; return the score."""
    column = _column(first, domain, i)
    was = domain[column]
    best, best_column, best_to = value - 1e-9 * value, NOBODY, IDLE
    put(experts, load, dimms, column, was, -1)
    for k in range(first[i], first[i + 1]):
        for to in range(3):
            if _usable(experts, k, to):
                put(experts, load, dimms, k, to, 1)
                after = score(load, dimms)
                put(experts, load, dimms, k, to, -1)
                if after < best:
                    best, best_column, best_to = after, k, to
    if best_column == NOBODY:
        put(experts, load, dimms, column, was, 1)
        return value
    put(experts, load, dimms, best_column, best_to, 1)
    domain[column] = IDLE
    domain[best_column] = best_to
    return best


@compiled
def _run(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, column: int, to: int
) -> None:
    """Let an expert run in a domain from a copy."""
    before = _column(first, domain, i)
    put(experts, load, dimms, before, domain[before], -1)
    put(experts, load, dimms, column, to, 1)
    domain[before] = IDLE
    domain[column] = to


@compiled
def _column(first: Ints, domain: Ints, i: int) -> Any:
    """Return the column of the copy that an expert is run from."""
    for k in range(first[i], first[i + 1]):
        if domain[k] != IDLE:
            return k
    return first[i]


@compiled
def _usable(experts: Ints, column: int, to: int) -> bool:
    """Tell whether a copy can be run in a domain (TD-C2)."""
    return bool(to != NDP or experts[PLACE, column] != STRIPED_READS)


@compiled
def _is_busy(
    experts: Ints, first: Ints, domain: Ints, load: Ints, dimms: int, i: int, makespan: int
) -> Any:
    """Tell whether an expert loads some device at the makespan, links and channels apart."""
    column = _column(first, domain, i)
    to, place = domain[column], experts[PLACE, column]
    if to != NDP and load[to] == makespan:
        return True
    if place == STRIPED_READS:
        return to != GPU and to != NDP
    return load[STRIPED_READS] + load[place] == makespan
