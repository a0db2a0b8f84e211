"""Iterated local search: descent to a local optimum, a few random moves, and descent again."""

from collections.abc import Callable

import numpy as np

from moeopt.core.clock import out_of_time, spend
from moeopt.core.compiled import compiled
from moeopt.problems.layout.bounds import lower_bound
from moeopt.problems.layout.check import objective
from moeopt.problems.layout.instance import Instance, Solution
from moeopt.problems.layout.paths import STRIPED
from moeopt.problems.layout.second_stage import Layout, as_solution, refined

from .moves import allowed, change, move
from .state import (
    CHANGES_PER_UNIT,
    NOBODY,
    Costs,
    Integers,
    SearchState,
    copy_of,
    costs_of,
    decision_of,
    objective_of,
    solution_of,
    state_of,
    unit_of,
)

EVALUATIONS = 4_000_000
"""Moves x scenarios that a search may look at."""

DESCENTS = 100
"""Descents of `improve`."""

SLICE = 200_000
"""Evaluated moves between two looks at the clock, where there is one."""

KICKS = 4
"""Random moves between two descents."""


def improve(instance: Instance, start: Solution, evaluations: int = EVALUATIONS) -> Solution:
    """Return the best solution found from `start`, which must be valid; never a worse one.

    It ends after `DESCENTS` descents or so many evaluated moves, counted over the scenarios, at the
    combinatorial bound or when the solve's limit passes. The random moves are the
    same in every run.
    """
    costs = costs_of(instance)
    experts = np.flatnonzero(instance.path_times.active.any(axis=0))
    first = state_of(instance, costs, *decision_of(start))
    floor = lower_bound(instance) / unit_of(instance)
    budget = evaluations // len(instance.scenarios)
    rng = np.random.default_rng(0)
    best = iterated(costs, first, experts, rng, budget, DESCENTS, floor, out_of_time)
    layout = Layout(best.resident, best.dimm)
    again = as_solution(instance, layout, refined(instance, layout)[0])
    found = (start, solution_of(instance, best), again)
    return min(found, key=lambda solution: objective(instance, solution))


def iterated(
    costs: Costs,
    start: SearchState,
    experts: Integers,
    rng: np.random.Generator,
    budget: int,
    descents: int,
    floor: float = 0.0,
    stopped: Callable[[], bool] = lambda: False,
) -> SearchState:
    """Return the best state found by descents, with random moves between them.

    Parameters
    ----------
    start
        Stays as it is.
    experts
        Those that have tokens.
    budget, descents
        It ends after so many evaluated moves, or so many descents.
    floor
        A lower bound on the objective, in the unit of `costs`; it ends there, too.
    stopped
        Asked between slices of some 50 ms.
    """
    state, best, used = copy_of(start), start, 0
    for _ in range(descents):
        if used >= budget or stopped() or objective_of(costs, best) <= floor:
            break
        cursor = np.zeros(2, dtype=np.int64)
        while used < budget and cursor[1] < len(experts) and not stopped():
            evaluated = descend(costs, state, experts, cursor, min(SLICE, budget - used))
            spend(evaluated * len(costs.weight) / CHANGES_PER_UNIT)
            used += evaluated
        if objective_of(costs, state) <= objective_of(costs, best):
            best = state
        state = copy_of(best)
        for _ in range(KICKS):
            kick(costs, state, experts, rng)
        used += KICKS
    return best


def kick(costs: Costs, state: SearchState, rows: Integers, rng: np.random.Generator) -> None:
    """Exchange two experts' layouts, or move one to another place if there is a slot."""
    i, j = rows[rng.integers(len(rows), size=2)].tolist()
    resident, dimm = bool(state.resident[i]), int(rng.integers(STRIPED, len(state.free) - 1))
    if i != j and rng.random() < 0.5:
        move(costs, state, i, bool(state.resident[j]), int(state.dimm[j]), j)
    elif allowed(state, i, resident, dimm):
        move(costs, state, i, resident, dimm, NOBODY)


@compiled
def descend(
    costs: Costs, at: SearchState, rows: Integers, cursor: Integers, evaluations: int
) -> int:
    """Go on with the descent and return how many moves were evaluated, about `evaluations`.

    Parameters
    ----------
    rows
        The experts that have tokens.
    cursor
        Where in `rows` the descent is, and for how many of them in a row nothing was gained: as
        many as there are means a local optimum.
    """
    used = 0
    while used < evaluations and cursor[1] < len(rows):
        i = rows[cursor[0]]
        used += len(at.free) * 2
        gained = _move_best(costs, at, i)
        for later in range(cursor[0] + 1, len(rows)):
            j = rows[later]
            if at.dimm[i] == at.dimm[j] and at.resident[i] == at.resident[j]:
                continue
            used += 1
            spans, squares = change(costs, at, i, at.resident[j], at.dimm[j], j)
            if spans < 0 or (spans == 0 and squares < 0):
                move(costs, at, i, at.resident[j], at.dimm[j], j)
                gained = True
        cursor[0] = (cursor[0] + 1) % len(rows)
        cursor[1] = 0 if gained else cursor[1] + 1
    return used


@compiled
def _move_best(costs: Costs, at: SearchState, i: int) -> bool:
    """Give an expert its best layout; tell whether that gains anything."""
    best_spans, best_squares, best_resident, best_dimm = 0.0, 0.0, False, STRIPED
    found = False
    for dimm in range(STRIPED, len(at.free) - 1):
        for resident in (False, True):
            if allowed(at, i, resident, dimm):
                spans, squares = change(costs, at, i, resident, dimm, NOBODY)
                squares = min(squares, 0.0)  # among equals with more squares the first
                if spans < best_spans or (spans == best_spans and squares < best_squares):
                    best_spans, best_squares = spans, squares
                    best_resident, best_dimm = resident, dimm
                    found = True
    if found:
        move(costs, at, i, best_resident, best_dimm, NOBODY)
    return found
