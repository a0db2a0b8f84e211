"""Iterated local search on layout and schedules together.

Descent with two kinds of moves, an expert's layout changed or two experts' exchanged, each with the
best domains of those experts (`neighbourhood`), down to a local optimum; then a few random moves
and descent again, kept if it is no worse. It ends after `DESCENTS` of them or `EVALUATIONS`
evaluated moves, counted over the scenarios, or at the combinatorial bound; the random moves are the
same in every run.
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .bounds import lower_bound, makespan_grid
from .check import objective
from .descent import allowed, descend
from .instance import Instance
from .neighbourhood import EVERY, NOBODY, OWN, Costs, State, book, move, rank
from .paths import IDLE, STRIPED
from .second_stage import Layout, schedule
from .solution import DOMAINS, Solution

EVALUATIONS = 4_000_000
"""Moves x scenarios that a search may look at."""

DESCENTS = 100
SLICE = 200_000
KICKS = 4
"""Random moves between two descents."""

Rows = NDArray[np.int64]


def improve(instance: Instance, start: Solution, evaluations: int = EVALUATIONS) -> Solution:
    """Return the best solution found from `start`, which must be valid; never a worse one."""
    costs = _costs(instance)
    floor = lower_bound(instance) / _unit(instance)
    best = _state(instance, costs, start)
    rows = np.flatnonzero(instance.path_times.tokens.any(axis=0))
    budget = evaluations // len(instance.scenarios)
    rng = np.random.default_rng(0)
    state, used = _copy(best), 0
    for _ in range(DESCENTS):
        if used >= budget or _objective(costs, best) <= floor:
            break
        used += _to_local_optimum(costs, state, rows, budget - used)
        if _objective(costs, state) <= _objective(costs, best):
            best = state
        state = _copy(best)
        for _ in range(KICKS):
            _kick(costs, state, rows, rng)
        used += KICKS
    found = _solution(instance, best)
    again = schedule(instance, Layout(best.resident, best.dimm)).solution(instance)
    return min((start, found, again), key=lambda solution: objective(instance, solution))


def _to_local_optimum(costs: Costs, state: State, rows: Rows, budget: int) -> int:
    """Descend until nothing is gained or the budget is used; return how much was used."""
    cursor, used = np.zeros(2, dtype=np.int64), 0
    while used < budget and cursor[1] < len(rows):
        used += descend(costs, state, rows, cursor, min(SLICE, budget - used))
    return used


def _kick(costs: Costs, state: State, rows: Rows, rng: np.random.Generator) -> None:
    """Exchange two experts' layouts, or move one to another place if there is a slot."""
    i, j = rows[rng.integers(len(rows), size=2)].tolist()
    resident, dimm = bool(state.resident[i]), int(rng.integers(STRIPED, len(state.free) - 1))
    if i != j and rng.random() < 0.5:
        move(costs, state, i, bool(state.resident[j]), int(state.dimm[j]), j)
    elif allowed(state, i, resident, dimm):
        move(costs, state, i, resident, dimm, NOBODY)


def _costs(instance: Instance) -> Costs:
    times, unit = instance.path_times, _unit(instance)
    return Costs(times.weight.astype(np.float64), times.cost / unit, times.read / unit)


def _unit(instance: Instance) -> int:
    """Return the divisor of all times: in its steps floats are whole and as small as can be."""
    return gcd(*(makespan_grid(instance, number) for number in range(len(instance.scenarios))))


def _state(instance: Instance, costs: Costs, solution: Solution) -> State:
    code = {None: IDLE} | {domain: number for number, domain in enumerate(DOMAINS)}
    scenarios, dimms = len(instance.scenarios), instance.dimms
    dimm = np.array([STRIPED if d is None else d for d in solution.dimm], dtype=np.int64)
    resident = np.array(solution.resident, dtype=np.bool_)
    dimm_slots = instance.experts if instance.dimm_slots is None else instance.dimm_slots
    free = np.full(1 + dimms, dimm_slots, dtype=np.int64)
    free[0] = instance.hbm_slots - resident.sum()
    free[1:] -= np.bincount(dimm[dimm != STRIPED], minlength=dimms)
    state = State(
        resident,
        dimm,
        np.array([[code[o] for o in row] for row in solution.assignment], dtype=np.int64),
        np.zeros((scenarios, OWN + dimms)),
        np.full((scenarios, 3), NOBODY, dtype=np.int64),
        free,
    )
    for number in range(scenarios):
        for expert in range(instance.experts):
            book(costs, state, number, expert, 1.0)
        rank(state, number)
    return state


def _copy(state: State) -> State:
    fields = {name: array.copy() for name, array in state._asdict().items()}
    return State(**fields)


def _objective(costs: Costs, state: State) -> float:
    loads = state.loads
    dimms = loads[:, EVERY] + loads[:, OWN:].max(axis=1)
    return float((costs.weight * np.maximum(loads[:, :EVERY].max(axis=1), dimms)).sum())


def _solution(instance: Instance, state: State) -> Solution:
    return Solution(
        instance=instance.name,
        resident=tuple(state.resident.tolist()),
        dimm=tuple(None if d == STRIPED else d for d in state.dimm.tolist()),
        assignment=tuple(
            tuple(None if o == IDLE else DOMAINS[o] for o in row) for row in state.choice.tolist()
        ),
    )
