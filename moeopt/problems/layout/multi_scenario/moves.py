"""The moves of a plan: each is made only if it changes the smooth value by at most a limit.

Three kinds. `carry`: rows change DIMMs and keep their domains; a linear bound on the change, which
holds since the norm is convex, turns most down at little cost. `switch`: a domain in one scenario.
`rearrange`: rows are moved, striped, localized or made resident, and choose all domains anew.
"""

import math

import numpy as np

from moeopt.numeric.compiled import compiled

from .plan import (
    DIMM,
    DIMMS,
    DOMAIN,
    EVERY,
    HOST_WEIGHT,
    INVERSE,
    LOCAL_READ,
    OWN,
    RESIDENT,
    SCALE,
    SLOPE,
    SMALLEST,
    STRIPED_READ,
    TOTAL,
    VALUE,
    WEIGHT,
    WORK,
    Floats,
    Plan,
    choose,
    raise_own,
    settle,
    shift,
    smooth,
    total_value,
    way_of,
)
from .rows import CPU, GPU, HIT, IDLE, NDP, STRIPED

REJECTED = np.inf

UNDO_ROWS = 22
"""Rows of `rearrange`'s array for passing use: see `keep`."""


@compiled
def carry(plan: Plan, i: int, j: int, d: int, e: int, limit: float, doublings: int) -> float:
    """Carry row i from DIMM d to e and j, if not -1, back; return the change of value.

    All keep their domains, so only the own works of d and e change.
    """
    part, state = plan.part, plan.state
    scenarios = state.shape[1]
    moved, to_d, to_e, total, value = WORK, WORK + 1, WORK + 2, WORK + 3, WORK + 4
    own_d, own_e = DIMMS + 3 * d, DIMMS + 3 * e
    for s in range(scenarios):
        state[moved, s] = part[i, OWN, s]
    if j >= 0:
        for s in range(scenarios):
            state[moved, s] -= part[j, OWN, s]
    least = 0.0
    for s in range(scenarios):
        steeper = state[own_e + 2, s] - state[own_d + 2, s]
        least += state[moved, s] * state[SLOPE, s] * steeper
    if least > limit:
        return REJECTED
    for s in range(scenarios):
        state[to_d, s] = (state[own_d, s] - state[moved, s]) * state[INVERSE, s]
    for s in range(scenarios):
        state[to_e, s] = (state[own_e, s] + state[moved, s]) * state[INVERSE, s]
    for _ in range(doublings):
        for s in range(scenarios):
            state[to_d, s] *= state[to_d, s]
        for s in range(scenarios):
            state[to_e, s] *= state[to_e, s]
    for s in range(scenarios):
        rest = state[TOTAL, s] - state[own_d + 1, s] - state[own_e + 1, s]
        state[total, s] = state[to_d, s] + state[to_e, s] + (rest if rest > 0.0 else 0.0)
    smooth(state, GPU, total, value, doublings)
    change = 0.0
    for s in range(scenarios):
        change += state[value, s] - state[VALUE, s]
    if not change <= limit:  # also if a power has overflowed
        return REJECTED
    plan.choice[i, DIMM] = e
    if j >= 0:
        plan.choice[j, DIMM] = d
    for s in range(scenarios):
        state[own_d, s] -= state[moved, s]
        state[own_e, s] += state[moved, s]
    raise_own(state, d, doublings)
    raise_own(state, e, doublings)
    settle(state, doublings)
    return change


@compiled
def switch(plan: Plan, i: int, s: int, domain: int, doublings: int) -> float:
    """Give row i another domain in scenario s; return the change of value."""
    part, state = plan.part, plan.state
    more = -part[i, OWN, s]
    for k in range(3):
        state[k, s] -= part[i, k, s]
    choose(plan, i, s, domain)
    for k in range(3):
        state[k, s] += part[i, k, s]
    more += part[i, OWN, s]
    if more != 0.0:
        own = DIMMS + 3 * plan.choice[i, DIMM]
        state[own, s] += more
        power, less = state[own, s] * state[INVERSE, s], 1.0
        for _ in range(doublings):
            less *= power
            power *= power
        state[own + 1, s], state[own + 2, s] = power, less
        state[TOTAL, s] = 0.0
        for row in range(DIMMS + 1, len(state), 3):
            state[TOTAL, s] += state[row, s]
    norm = state[TOTAL, s]
    for _ in range(doublings):
        norm = math.sqrt(norm)
    gpu, cpu, before = state[GPU, s], state[CPU, s], state[VALUE, s]
    top = state[EVERY, s] + norm * state[SCALE, s]
    state[VALUE, s] = state[WEIGHT, s] * (max(top, gpu, cpu) + HOST_WEIGHT * (gpu + cpu))
    state[SLOPE, s] = 0.0
    if state[TOTAL, s] > SMALLEST and top >= gpu and top >= cpu:
        state[SLOPE, s] = state[WEIGHT, s] * norm / state[TOTAL, s]
    change: float = state[VALUE, s] - before
    return change


@compiled
def put_in(plan: Plan, i: int, d: int, doublings: int) -> None:
    """Put row i, which is in no load, on DIMM d, or stripe it, and run it where it suits best.

    `settle` is left to the caller.
    """
    cost, choice, state = plan.cost, plan.choice, plan.state
    scenarios = state.shape[1]
    rest, best, value, hosts, norm = WORK, WORK + 1, WORK + 2, WORK + 3, WORK + 6
    striped, resident = d == STRIPED, choice[i, RESIDENT] == 1
    read = STRIPED_READ if striped else LOCAL_READ
    own = DIMMS + 3 * d if d != STRIPED else -1
    choice[i, DIMM] = d
    for s in range(scenarios):
        state[rest, s] = 0.0
        state[best, s] = np.inf
    for other in range(DIMMS, len(state), 3):
        if other != own:
            for s in range(scenarios):
                state[rest, s] += state[other + 1, s]
    for domain in range(GPU, (CPU if striped else NDP) + 1):
        way = way_of(domain, striped, resident)
        on_gpu, on_cpu = 1.0 if domain == GPU else 0.0, 1.0 if domain == CPU else 0.0
        on_ndp, reads = 1.0 if domain == NDP else 0.0, 0.0 if domain == NDP or way == HIT else 1.0
        every = reads if striped else 0.0
        for s in range(scenarios):
            state[hosts, s] = state[GPU, s] + on_gpu * cost[way, i, s]
        for s in range(scenarios):
            state[hosts + 1, s] = state[CPU, s] + on_cpu * cost[way, i, s]
        for s in range(scenarios):
            state[hosts + 2, s] = state[EVERY, s] + every * cost[read, i, s]
        if striped:
            for s in range(scenarios):
                state[norm, s] = state[rest, s]
        else:
            for s in range(scenarios):
                busy = on_ndp * cost[way, i, s] + reads * cost[read, i, s]
                state[norm, s] = (state[own, s] + busy) * state[INVERSE, s]
            for _ in range(doublings):
                for s in range(scenarios):
                    state[norm, s] *= state[norm, s]
            for s in range(scenarios):
                state[norm, s] += state[rest, s]
        smooth(state, hosts, norm, value, doublings)
        for s in range(scenarios):
            if state[value, s] < state[best, s]:
                state[best, s] = state[value, s]
                if choice[i, DOMAIN + s] != IDLE:
                    choice[i, DOMAIN + s] = domain
    for s in range(scenarios):
        choose(plan, i, s, choice[i, DOMAIN + s])
    shift(plan, i, 1.0, doublings)


@compiled
def rearrange(
    plan: Plan,
    undo: Floats,
    i: int,
    j: int,
    to_i: int,
    to_j: int,
    hbm: bool,
    limit: float,
    doublings: int,
) -> float:
    """Put row i, and j if not -1, elsewhere; return the change of value.

    The two may only change places or stay where they are. With `hbm` the second becomes resident in
    place of the first. `undo` is for passing use.
    """
    choice, state = plan.choice, plan.state
    p, q = choice[i, DIMM], choice[j, DIMM] if j >= 0 else to_i
    keep(plan, undo, i, j, p, q, False)
    before = total_value(state)
    shift(plan, i, -1.0, doublings)
    if j >= 0:
        shift(plan, j, -1.0, doublings)
        if hbm:
            choice[i, RESIDENT], choice[j, RESIDENT] = 0, 1
        put_in(plan, j, to_j, doublings)
    put_in(plan, i, to_i, doublings)
    settle(state, doublings)
    change = total_value(state) - before
    if not change <= limit:
        keep(plan, undo, i, j, p, q, True)
        return REJECTED
    return change


@compiled
def keep(plan: Plan, undo: Floats, i: int, j: int, p: int, q: int, back: bool) -> None:
    """Keep what a move of rows i and j between DIMMs p and q changes, or bring it `back`."""
    choice, part, state = plan.choice, plan.part, plan.state
    scenarios = state.shape[1]
    for row in range(SLOPE + 1):
        exchange_row(state[row], undo[row], back)
    at = SLOPE + 1
    for d in (p, q):
        for row in range(3):
            if d != STRIPED:
                exchange_row(state[DIMMS + 3 * d + row], undo[at], back)
            at += 1
    for row in (i, j):
        for k in range(4):
            if row >= 0:
                exchange_row(part[row, k], undo[at], back)
            at += 1
        for k in range(DOMAIN + scenarios):
            if row >= 0 and back:
                choice[row, k] = int(undo[at, k])
            elif row >= 0:
                undo[at, k] = choice[row, k]
        at += 1


@compiled
def exchange_row(row: Floats, undo: Floats, back: bool) -> None:
    """Copy a row of scenarios to `undo`, or back."""
    for s in range(len(row)):
        if back:
            row[s] = undo[s]
        else:
            undo[s] = row[s]
