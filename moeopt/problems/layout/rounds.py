"""Rounds of annealing, one copy an expert, at one number of striped experts after the other."""

from collections.abc import Callable, Iterator

import numpy as np

from moeopt.problems.device_loads import IDLE

from .annealing import (
    SLOTS,
    Moves,
    Rules,
    State,
    annealed,
    cooling,
    loaded,
    rules_of,
    state_of,
    value_of,
)
from .instance import Instance, Solution
from .paths import Device, Path
from .second_stage import Layout, as_solution

PER_EXPERT = 5000
"""Moves for each expert that a first round tries at most."""

AFRESH = 1000
"""Moves for each expert from which a round need not begin from the best layout to come near it."""

STEP = 4
"""First distance between two numbers of striped experts."""

FEWER = 0.8
"""Part of a rule's striped experts that is tried first: better packed, DIMMs have time for more."""

PATIENCE = 6
"""Rounds without success after which it is given up, once the numbers are compared."""

LONGER = 4
"""Rounds take at most so many times as many moves as the first."""

WINDOWS = 0.05, 0.4, 0.45
"""Shares of moves where experts have one copy: see `Moves`."""

HOT, FEW, COLDER = 4e-4, 2.0, 16
"""First temperature relative to the objective where experts have one copy, at least, and times the
square of the experts' number, for few are each a large part of it; the last is so much lower.
"""


def in_turn(
    instance: Instance, first: Solution, seed: int, moves: int, stopped: Callable[[], bool]
) -> Iterator[Solution]:
    """Yield what annealing finds at one number of striped experts after the other, one copy each.

    Rounds begin from the best so far, at numbers below that of `first`, then around the best; when
    these are compared, longer ones follow at the best numbers, and with any; see `AFRESH`.

    Parameters
    ----------
    moves
        How many a first round tries, at most `PER_EXPERT`.
    stopped
        Asked between batches of moves; who has what was found may go on nevertheless.
    """
    rules = rules_of(instance)
    moves = min(moves, PER_EXPERT * len(rules.rows))
    most, hot = LONGER * moves, max(HOT, FEW / len(rules.rows) ** 2)
    origin = best = state_of(instance, rules, first)
    found, failures = dict[int, float](), 0

    def anneal_at(striped: int | None) -> State:
        start, number = best, len(found) + failures
        if striped is not None:
            start = _with_striped(instance, rules, origin, striped)
        by, falling = Moves(*WINDOWS, striped is not None), cooling(hot, hot / COLDER, moves)
        return annealed(instance, rules, start, 1000 * seed + number + 1, by, falling, stopped)

    def keep(striped: int, state: State) -> Solution:
        nonlocal best, failures
        value = value_of(rules, state)
        found[striped] = min(value, found.get(striped, value))
        failures += 1
        if value < value_of(rules, best):
            best, failures = state, 0
        return solution_of(instance, state)

    numbers, step = len(rules.rows) + 1, STEP
    middle = int(FEWER * _striped(rules, best))
    while step > 1:
        for striped in (middle, middle - step, middle + step):
            if striped in range(numbers) and striped not in found:
                yield keep(striped, anneal_at(striped))
                origin = best
        before, middle = middle, min(found, key=found.__getitem__)
        step = step // 2 if middle == before else step
    failures = 0
    while failures < PATIENCE:
        afresh = moves >= AFRESH * len(rules.rows)
        origin = state_of(instance, rules, first) if afresh else best
        moves = min(2 * moves, most)
        middle = min(found, key=found.__getitem__)
        for striped in (middle, middle - 1, middle + 1):
            if striped in range(numbers):
                yield keep(striped, anneal_at(striped))
        state = anneal_at(None)
        yield keep(_striped(rules, state), state)


def _striped(rules: Rules, state: State) -> int:
    """Return how many of the experts with tokens are striped."""
    return int(state.lies[rules.rows, 0].sum())


def _with_striped(instance: Instance, rules: Rules, state: State, striped: int) -> State:
    """Return a state in which another number of the experts that some scenario runs is striped.

    Those with least NDP work are localized, where there is least of it, and run there; or those
    with most are striped, and run on the CPU.
    """
    times, lies, run = instance.path_times, state.lies.copy(), state.run.copy()
    work = times.weight @ times.cost[Path.NDP]
    order = rules.rows[np.argsort(work[rules.rows], kind="stable")]
    more = striped - _striped(rules, state)
    at_home = lies[order, 0] == (more < 0)
    for row in order[at_home & ~lies[order, -1]][:: -1 if more > 0 else 1][: abs(more)]:
        busy = work @ lies[:, 1:-1]
        full = lies[:, 1:-1].sum(axis=0) >= rules.limits[SLOTS]
        place = 0 if more > 0 else 1 + int(np.where(full, np.inf, busy).argmin())
        if place == 0 or not full.all():
            lies[row] = False
            lies[row, place] = True
            domain = Device.CPU if place == 0 else Device.NDP
            run[:, row] = np.where(times.active[:, row], 3 * place + domain, IDLE)
    return loaded(instance, rules, lies, run)


def solution_of(instance: Instance, state: State) -> Solution:
    """Return a state's layout and schedules; every expert has one copy."""
    home = np.argmax(state.lies[:, :-1], axis=1)
    device = np.where(state.run == IDLE, IDLE, state.run % 3)
    return as_solution(instance, Layout(state.lies[:, -1], home - 1), device)
