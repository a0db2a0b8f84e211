"""Simulated annealing over layouts and schedules at once (Kirkpatrick, Gelatt and Vecchi 1983)."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled
from moeopt.problems.layout.paths import STRIPED

from .moves import allowed, change, move
from .state import NOBODY, Costs, Floats, Integers, SearchState, objective_of

RELOCATE, TOGGLE = 0.4, 0.03
"""Shares of the moves that put one expert elsewhere, and of those that change residency besides;
the others exchange two experts."""

Random = NDArray[np.uint64]


class Best(NamedTuple):
    """The best state seen: its layout and devices, and one entry with its objective."""

    resident: NDArray[np.bool_]
    dimm: Integers
    device: Integers
    objective: Floats


@compiled
def uniform(random: Random) -> float:
    """Return a number in [0, 1) by xorshift (Marsaglia 2003); the seed must not be 0."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@compiled
def anneal(
    costs: Costs,
    at: SearchState,
    best: Best,
    rows: Integers,
    random: Random,
    temperature: float,
    spread: float,
    moves: int,
) -> None:
    """Try so many moves at one temperature; `at` and `best` are updated.

    Parameters
    ----------
    rows
        The experts that have tokens.
    temperature
        In the unit of the objective.
    spread
        What a unit of squared loads costs: the smoothing.
    """
    now = objective_of(costs, at)
    for _ in range(moves):
        i, j = rows[int(uniform(random) * len(rows))], NOBODY
        kind, limit = uniform(random), -temperature * math.log(uniform(random) + 1e-300)
        resident, dimm = at.resident[i], at.dimm[i]
        if kind < RELOCATE:
            dimm = int(uniform(random) * len(at.free)) + STRIPED
            if kind < TOGGLE:
                resident = not resident
            if not allowed(at, i, resident, dimm):
                continue
        else:
            j = rows[int(uniform(random) * len(rows))]
            resident, dimm = at.resident[j], at.dimm[j]
        if resident == at.resident[i] and dimm == at.dimm[i]:
            continue
        spans, squares = change(costs, at, i, resident, dimm, j)
        if spans + spread * squares <= limit:
            move(costs, at, i, resident, dimm, j)
            now += spans
            if now < best.objective[0]:
                now = objective_of(costs, at)
            if now < best.objective[0]:
                best.objective[0] = now
                for k in range(len(at.dimm)):
                    best.resident[k] = at.resident[k]
                    best.dimm[k] = at.dimm[k]
                for s in range(len(at.device)):
                    for k in range(at.device.shape[1]):
                        best.device[s, k] = at.device[s, k]
