"""A plan as flat arrays of floats, with every load kept up to date while rows move.

The plan's smooth value stands for the objective: in place of the longest DIMM's own work it has the
p-norm of all DIMMs' works, p = 2**doublings, which also falls when another long DIMM gets shorter.
It guides only; what is kept is compared by its true objective, and the judge counts it anew.

All loops over the scenarios run over neighbours in memory, without branches, calls or divisions,
and over few arrays: so they become vector instructions. Roots are taken by square roots for that.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled

from .rows import CPU, CPU_STRIPED, GPU, GPU_STRIPED, HIT, IDLE, NDP, NDP_COST, STRIPED, Rows

STRIPED_READ, LOCAL_READ = 6, 7
"""First index of `Plan.cost` after the ways of `Rows.cost`."""

DIMM, RESIDENT, DOMAIN = range(3)
"""Columns of `Plan.choice`: the DIMM, 1 if resident, and from DOMAIN on a domain per scenario."""

EVERY, OWN = 2, 3
"""After GPU and CPU, the rows of `Plan.part` and, but for OWN, of `Plan.state`."""

TOTAL, VALUE, SLOPE, SCALE, INVERSE, WEIGHT = range(3, 9)
"""Rows of `Plan.state`; see there."""

WORK, DIMMS = 9, 17
"""Where the rows for passing use begin in `Plan.state`, and where those of the DIMMs do."""

HOST_WEIGHT = 1e-3
"""What a unit of host time costs in the smooth value, so that none is wasted."""

SMALLEST = 1e-250
"""A sum of powers below this has no slope."""

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


class Plan(NamedTuple):
    """A layout, the domains, and the loads that follow; times in ns.

    Attributes
    ----------
    cost
        Shape (8, rows, scenarios): `Rows.cost`, then the striped and the localized read; 0 where
        the expert has no tokens.
    choice
        Shape (rows, 2 + scenarios): the DIMM, whether it is resident, and the domains.
    part
        Shape (rows, 4, scenarios): what each row adds to the GPU, the CPU, every DIMM, its own.
    state
        Shape (17 + 3 dimms, scenarios): loads of the GPU, the CPU and every DIMM; the sum of the
        powers below, each scenario's weighted smooth makespan and its derivative by that sum; the
        scale, its inverse, the weight; eight rows for passing use; and for each DIMM its own work,
        ``(own / scale) ** p`` and ``(own / scale) ** (p - 1)``.
    """

    cost: Floats
    choice: Integers
    part: Floats
    state: Floats


def new_plan(rows: Rows, reads: tuple[int, int], dimms: int, choice: Integers) -> Plan:
    """Return a plan with these choices; `load` fills in what follows from them."""
    scenarios = len(rows.weight)
    ways = [rows.cost[way] * rows.active for way in range(6)]
    cost = np.stack([*ways, *(read * rows.active for read in reads)]).astype(np.float64)
    state = np.zeros((DIMMS + 3 * dimms, scenarios))
    state[WEIGHT] = rows.weight / rows.weight.max()
    return Plan(cost, choice, np.zeros((len(choice), 4, scenarios)), state)


@compiled
def way_of(domain: int, striped: bool, resident: bool) -> int:
    """Return the first index into `Plan.cost` of a row's time in a domain."""
    if domain == NDP:
        return NDP_COST
    if domain == GPU and resident:
        return HIT
    return (GPU_STRIPED if domain == GPU else CPU_STRIPED) + (0 if striped else 1)


@compiled
def choose(plan: Plan, i: int, s: int, domain: int) -> None:
    """Note row i's domain in scenario s, and what it adds; the loads stay as they are."""
    cost, choice, part = plan.cost, plan.choice, plan.part
    for k in range(4):
        part[i, k, s] = 0.0
    choice[i, DOMAIN + s] = domain
    if domain == IDLE:
        return
    striped = choice[i, DIMM] == STRIPED
    way = way_of(domain, striped, choice[i, RESIDENT] == 1)
    part[i, OWN if domain == NDP else domain, s] = cost[way, i, s]
    if way != HIT and domain != NDP:
        if striped:
            part[i, EVERY, s] = cost[STRIPED_READ, i, s]
        else:
            part[i, OWN, s] = cost[LOCAL_READ, i, s]


@compiled
def raise_own(state: Floats, d: int, doublings: int) -> None:
    """Compute DIMM d's powers from its own work."""
    own = DIMMS + 3 * d
    scenarios = state.shape[1]
    for s in range(scenarios):
        state[own + 1, s] = state[own, s] * state[INVERSE, s]
        state[own + 2, s] = 1.0
    for _ in range(doublings):
        for s in range(scenarios):
            state[own + 2, s] *= state[own + 1, s]
            state[own + 1, s] *= state[own + 1, s]


@compiled
def smooth(state: Floats, hosts: int, total: int, value: int, doublings: int) -> None:
    """Compute the row `value` of weighted smooth makespans.

    `hosts` is the first of three rows with the loads of GPU, CPU and every DIMM; the row `total` of
    sums of powers becomes that of the norms over the scale.
    """
    scenarios = state.shape[1]
    for _ in range(doublings):
        for s in range(scenarios):
            state[total, s] = math.sqrt(state[total, s])
    for s in range(scenarios):
        gpu, cpu = state[hosts, s], state[hosts + 1, s]
        top = state[hosts + 2, s] + state[total, s] * state[SCALE, s]
        top = gpu if gpu > top else top
        top = cpu if cpu > top else top
        state[value, s] = state[WEIGHT, s] * (top + HOST_WEIGHT * (gpu + cpu))


@compiled
def settle(state: Floats, doublings: int) -> None:
    """Compute sums of powers, values and slopes from the loads and the powers."""
    scenarios = state.shape[1]
    for s in range(scenarios):
        state[TOTAL, s] = 0.0
    for power in range(DIMMS + 1, len(state), 3):
        for s in range(scenarios):
            state[TOTAL, s] += state[power, s]
    for s in range(scenarios):
        state[WORK, s] = state[TOTAL, s]
    smooth(state, GPU, WORK, VALUE, doublings)
    for s in range(scenarios):
        top = state[EVERY, s] + state[WORK, s] * state[SCALE, s]
        state[SLOPE, s] = 0.0
        if state[TOTAL, s] > SMALLEST and top >= state[GPU, s] and top >= state[CPU, s]:
            state[SLOPE, s] = state[WEIGHT, s] * state[WORK, s] / state[TOTAL, s]


@compiled
def shift(plan: Plan, i: int, sign: float, doublings: int) -> None:
    """Add row i to the loads (`sign` 1) or take it off (-1); `settle` is left to the caller."""
    part, state = plan.part, plan.state
    scenarios = state.shape[1]
    for k in range(3):
        for s in range(scenarios):
            state[k, s] += sign * part[i, k, s]
    d = plan.choice[i, DIMM]
    if d != STRIPED:
        own = DIMMS + 3 * d
        for s in range(scenarios):
            state[own, s] += sign * part[i, OWN, s]
        raise_own(state, d, doublings)


@compiled
def load(plan: Plan, doublings: int) -> None:
    """Compute everything that follows from the choices."""
    choice, state = plan.choice, plan.state
    scenarios = state.shape[1]
    for row in range(len(state)):
        if row < TOTAL or row >= DIMMS:
            for s in range(scenarios):
                state[row, s] = 0.0
    for i in range(len(choice)):
        for s in range(scenarios):
            choose(plan, i, s, choice[i, DOMAIN + s])
        shift(plan, i, 1.0, 0)
    dimms = (len(state) - DIMMS) // 3
    for s in range(scenarios):
        longest, total = 0.0, 0.0
        for own in range(DIMMS, len(state), 3):
            longest = max(longest, state[own, s])
            total += state[own, s]
        # So that no power overflows, and the sum does not vanish.
        state[SCALE, s] = max(total / dimms, longest / 2, 1.0)
        state[INVERSE, s] = 1.0 / state[SCALE, s]
    for d in range(dimms):
        raise_own(state, d, doublings)
    settle(state, doublings)


@compiled
def total_value(state: Floats) -> float:
    """Return the sum of the scenarios' smooth values."""
    found = 0.0
    for s in range(state.shape[1]):
        found += state[VALUE, s]
    return found


@compiled
def objective(state: Floats) -> float:
    """Return the true objective over the largest weight, from the loads."""
    found = 0.0
    for s in range(state.shape[1]):
        longest = 0.0
        for own in range(DIMMS, len(state), 3):
            longest = max(longest, state[own, s])
        makespan = max(state[GPU, s], state[CPU, s], state[EVERY, s] + longest)
        found += state[WEIGHT, s] * makespan
    return found
