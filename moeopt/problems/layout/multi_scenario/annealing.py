"""Simulated annealing over layouts and schedules at once.

The norm's exponent rises while the temperature falls: at first the DIMMs' average counts, in the
end the longest. `moves` has the kinds of moves.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

from .moves import REJECTED, UNDO_ROWS, carry, rearrange, switch
from .plan import (
    DIMM,
    DIMMS,
    DOMAIN,
    RESIDENT,
    Floats,
    Integers,
    Plan,
    load,
    objective,
    total_value,
)
from .rows import IDLE, NDP, STRIPED

CARRY_ONE, CARRY_TWO, SWITCH = 0.06, 0.2, 0.3
"""Cumulated shares of the moves that keep the domains or the layout; the rest `rearrange`."""

RELOCATE, STRIPE, EXCHANGE, CHOOSE = 0.35, 0.40, 0.85, 0.90
"""Cumulated shares among those that rearrange: go to a DIMM, be striped, exchange places, stay and
choose domains anew; what is left exchanges residents."""

LOCALIZE = 0.3
"""How many of the drawn moves from striped to localized are tried: most come in exchange."""

PARTNERS = 8
"""Rows looked at for one to exchange domains with."""


class Best(NamedTuple):
    """The best plan seen: `Plan.choice`, and one entry with its `plan.objective`."""

    choice: Integers
    objective: Floats


@compiled
def uniform(random: NDArray[np.uint64]) -> float:
    """Return a number in [0, 1) by xorshift; the seed must not be 0."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@compiled
def below(random: NDArray[np.uint64], limit: int) -> int:
    """Return an integer from 0 to limit - 1."""
    return int(uniform(random) * limit)


@compiled
def try_carry(
    plan: Plan,
    held: Integers,
    slots: int,
    random: NDArray[np.uint64],
    two: bool,
    limit: float,
    doublings: int,
) -> float:
    """Carry a random row to another DIMM, or exchange two; return the change of value."""
    choice = plan.choice
    i, j = below(random, len(choice)), -1
    d, e = choice[i, DIMM], below(random, len(held))
    if two:
        j = below(random, len(choice))
        e = choice[j, DIMM]
    if d == STRIPED or e in (STRIPED, d) or (j < 0 and held[e] >= slots):
        return REJECTED
    change = carry(plan, i, j, d, e, limit, doublings)
    if j < 0 and change < REJECTED:
        held[d] -= 1
        held[e] += 1
    return change


@compiled
def try_switch(plan: Plan, random: NDArray[np.uint64], limit: float, doublings: int) -> float:
    """Let a random row, or two, choose other domains in one scenario; return the change."""
    choice = plan.choice
    rows, scenarios = len(choice), choice.shape[1] - DOMAIN
    i, s, new, j = below(random, rows), below(random, scenarios), below(random, NDP + 1), -1
    old = choice[i, DOMAIN + s]
    if old == IDLE or new == old or (new == NDP and choice[i, DIMM] == STRIPED):
        return REJECTED
    if uniform(random) < 0.3:
        for _ in range(PARTNERS):
            k = below(random, rows)
            if choice[k, DOMAIN + s] == new and (old != NDP or choice[k, DIMM] != STRIPED):
                j = k
                break
    change = switch(plan, i, s, new, doublings)
    if j >= 0:
        change += switch(plan, j, s, old, doublings)
    if not change <= limit:
        if j >= 0:
            switch(plan, j, s, new, doublings)
        switch(plan, i, s, old, doublings)
        return REJECTED
    return change


@compiled
def try_rearrange(
    plan: Plan,
    undo: Floats,
    held: Integers,
    residents: Integers,
    slots: int,
    random: NDArray[np.uint64],
    limit: float,
    doublings: int,
) -> float:
    """Move one row, or exchange two, with new domains; return the change of value."""
    choice = plan.choice
    kind, i, j, slot = uniform(random), below(random, len(choice)), -1, 0
    d, hbm = choice[i, DIMM], kind >= CHOOSE
    e, back = d, STRIPED
    if kind < STRIPE:
        e = below(random, len(held)) if kind < RELOCATE else STRIPED
        unwanted = d == STRIPED and uniform(random) >= LOCALIZE
        if d == e or unwanted or (e != STRIPED and held[e] >= slots):
            return REJECTED
    elif kind < EXCHANGE or hbm:
        j = below(random, len(choice))
        if hbm:
            if len(residents) == 0 or choice[j, RESIDENT] == 1:
                return REJECTED
            slot = below(random, len(residents))
            i = residents[slot]
            d = choice[i, DIMM]
        e, back = choice[j, DIMM], d
        if not hbm and d == e:
            return REJECTED
        if hbm and uniform(random) < 0.5:
            e, back = back, e
    change = rearrange(plan, undo, i, j, e, back, hbm, limit, doublings)
    if change == REJECTED:
        return REJECTED
    if hbm:
        residents[slot] = j
    if j < 0 and d != STRIPED:
        held[d] -= 1
    if j < 0 and e != STRIPED:
        held[e] += 1
    return change


@compiled
def anneal(
    plan: Plan,
    best: Best,
    slots: int,
    random: NDArray[np.uint64],
    temperature: float,
    doublings: int,
    moves: int,
) -> None:
    """Try so many moves at one temperature, in ns; `plan` and `best` are updated.

    `slots` is how many rows a DIMM may hold.
    """
    choice, state = plan.choice, plan.state
    load(plan, doublings)
    undo = np.empty((UNDO_ROWS, choice.shape[1]))
    held = np.zeros((len(state) - DIMMS) // 3, np.int64)
    residents = np.empty(len(choice), np.int64)
    count = 0
    for i in range(len(choice)):
        if choice[i, DIMM] != STRIPED:
            held[choice[i, DIMM]] += 1
        if choice[i, RESIDENT] == 1:
            residents[count] = i
            count += 1
    residents = residents[:count]
    now, lowest = total_value(state), np.inf
    for _ in range(moves):
        kind = uniform(random)
        limit = -temperature * math.log(uniform(random) + 1e-300)
        if kind < CARRY_TWO:
            two = kind >= CARRY_ONE
            change = try_carry(plan, held, slots, random, two, limit, doublings)
        elif kind < SWITCH:
            change = try_switch(plan, random, limit, doublings)
        else:
            change = try_rearrange(plan, undo, held, residents, slots, random, limit, doublings)
        if change == REJECTED:
            continue
        now += change
        if now < lowest:
            lowest = now
            true = objective(state)
            if true < best.objective[0]:
                best.objective[0] = true
                for i in range(len(choice)):
                    for k in range(choice.shape[1]):
                        best.choice[i, k] = choice[i, k]
