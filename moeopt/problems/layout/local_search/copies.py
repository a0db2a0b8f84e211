"""Simulated annealing where an expert may lie in several places at once.

Every expert has a column per place in each scenario's table (`moeopt.core.device_loads`):
striped, each DIMM, and a hit. It is run from one of the places where it lies; the moves change
these, and who is moved is run where that suits best in every scenario, all others kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.compiled import compiled
from moeopt.core.device_loads import (
    GPU,
    IDLE,
    NDP,
    OWN,
    STRIPED_READS,
    Ints,
    makespan_of,
    put,
    table_for,
)
from moeopt.problems.layout.copies import Flags, places_of
from moeopt.problems.layout.instance import DOMAINS, Instance, Solution
from moeopt.problems.layout.paths import Path

NOBODY = -1
SMOOTHING = 0.05
"""Weight of the devices' mean square against a makespan."""

ANEW, RELOCATE, TRANSFER = 0.7, 0.8, 0.9
"""Up to which random number a move runs one expert anew in one scenario, changes one expert's
places, or gives one expert a copy and takes one from another; the rest exchanges two experts'."""


class Rules(NamedTuple):
    """What bounds the places, as few arrays as can be.

    Attributes
    ----------
    tables
        Shape (scenarios, rows, columns): expert i's places are the columns from ``i * places`` on,
        the striped one, those of the DIMMs, and the hit; then perhaps the GPU's base load.
    weight
        Shape (scenarios,).
    limits
        DIMMs, bytes of a striped copy on each DIMM, bytes of a localized one, bytes that a DIMM has
        for them, localized copies on one DIMM, HBM slots, copies of one expert.
    """

    tables: NDArray[np.int64]
    weight: NDArray[np.float64]
    limits: Ints


class State(NamedTuple):
    """Where experts lie and how they run.

    Attributes
    ----------
    lies
        Shape (experts, 2 + dimms): striped, by DIMM, resident.
    run
        Shape (scenarios, experts): three times the place plus the domain; `IDLE` without tokens.
    load
        Shape (scenarios, entries), as in `moeopt.core.device_loads`.
    held
        Shape (2 + dimms,): how many experts lie in each place.
    """

    lies: Flags
    run: Ints
    load: Ints
    held: Ints


def rules_of(instance: Instance) -> Rules:
    """Return an instance as the moves see it."""
    times, dimms, experts = instance.path_times, instance.dimms, instance.experts
    places, several = 2 + dimms, instance.copies
    local = np.arange(dimms)
    gpu = np.array([Path.GPU_STRIPED, *([Path.GPU_LOCAL] * dimms), Path.HIT])
    cpu = np.array([Path.CPU_STRIPED, *([Path.CPU_LOCAL] * dimms), Path.CPU_STRIPED])
    dimm = np.tile(np.array([-1, *local, -1]), experts)

    def column(paths: Ints, values: NDArray[np.int64], s: int) -> NDArray[np.int64]:
        of = values[:, s] if values.ndim == 3 else np.repeat(values[:, None], experts, axis=1)
        return np.ascontiguousarray(of[paths].T.ravel())

    tables = [
        table_for(
            instance,
            *(column(gpu, times.alone, s), column(cpu, times.alone, s)),
            column(np.full(places, Path.NDP), times.alone, s),
            *(column(gpu, times.full_read, s), column(cpu, times.full_read, s)),
            dimm,
            gpu_calc_ns=column(gpu, times.cost, s) if instance.in_two_parts else None,
            pcie_ns=column(gpu, times.pcie, s) if instance.in_two_parts else None,
        )
        for s in range(len(instance.scenarios))
    ]
    slots = experts if instance.dimm_slots is None else instance.dimm_slots
    memory = [0, 0, 0]
    if several is not None:
        memory = [several.share_bytes(dimms), several.expert_bytes, several.room_bytes]
    most = 1 if several is None else several.max_per_expert
    limits = [dimms, *memory, slots, instance.hbm_slots, most]
    return Rules(np.stack(tables), times.weight.astype(np.float64), np.array(limits))


def state_of(instance: Instance, rules: Rules, solution: Solution) -> State:
    """Return the state of a solution."""
    lies, resident = places_of(instance, solution), np.array(solution.resident, dtype=np.bool_)
    scenarios, experts = instance.path_times.tokens.shape
    entries = OWN + instance.dimms
    if rules.tables.shape[1] > 7:
        channel = rules.tables[:, 10]
        entries += 2 + max(1, int(channel.max()))
    places = np.concatenate([lies, resident[:, None]], axis=1)
    state = State(
        places,
        np.full((scenarios, experts), IDLE, dtype=np.int64),
        np.zeros((scenarios, entries), dtype=np.int64),
        places.sum(axis=0).astype(np.int64),
    )
    size = experts * (2 + instance.dimms)
    state.load[:, GPU] = rules.tables[:, GPU, size:].sum(axis=1)
    for s in range(scenarios):
        for i in np.flatnonzero(instance.path_times.active[s]).tolist():
            domain, dimm = solution.assignment[s][i], solution.run_from(s, i)
            place = 0 if dimm is None else 1 + dimm
            if domain == "gpu" and resident[i]:
                place = 1 + instance.dimms
            give(rules, state, s, i, 3 * place + DOMAINS.index(domain or "cpu"))
    return state


@compiled
def uniform(random: NDArray[np.uint64]) -> float:
    """Return a number in [0, 1) by xorshift (Marsaglia 2003); the seed must not be 0."""
    x = random[0]
    x ^= x << np.uint64(13)
    x ^= x >> np.uint64(7)
    x ^= x << np.uint64(17)
    random[0] = x
    return float(x >> np.uint64(11)) / 9007199254740992.0


@compiled
def value_of(rules: Rules, at: State) -> float:
    """Return the weighted makespans, smoothed by the devices' mean squares."""
    total = 0.0
    for s in range(len(rules.weight)):
        total += rules.weight[s] * score(at.load[s], rules.limits[0])
    return total


@compiled
def score(load: Ints, dimms: int) -> float:
    """Return a makespan, and a little for uneven loads."""
    makespan = float(makespan_of(load, dimms))
    squares = float(load[0]) ** 2 + float(load[1]) ** 2
    for d in range(dimms):
        squares += float(load[STRIPED_READS] + load[OWN + d]) ** 2
    return makespan + SMOOTHING * squares / ((dimms + 2) * max(makespan, 1.0))


@compiled
def take_away(rules: Rules, at: State, s: int, i: int) -> None:
    """Take an expert's run from the loads."""
    run = at.run[s, i]
    if run != IDLE:
        put(
            rules.tables[s],
            at.load[s],
            rules.limits[0],
            i * (rules.limits[0] + 2) + run // 3,
            run % 3,
            -1,
        )


@compiled
def give(rules: Rules, at: State, s: int, i: int, run: int) -> None:
    """Let an expert that is taken away run so."""
    at.run[s, i] = run
    put(
        rules.tables[s], at.load[s], rules.limits[0], i * (rules.limits[0] + 2) + run // 3,
        run % 3, 1,
    )  # fmt: skip


@compiled
def run_best(rules: Rules, at: State, s: int, i: int) -> None:
    """Let an expert run where the scenario's score is least; it has tokens there."""
    take_away(rules, at, s, i)
    dimms = rules.limits[0]
    best, found = np.inf, 0
    resident = at.lies[i, dimms + 1]
    for place in range(dimms + 2):
        if not at.lies[i, place]:
            continue
        for domain in range(3):
            if place == dimms + 1 and domain != GPU:
                continue
            if place <= dimms and domain == GPU and resident:
                continue
            if place == 0 and domain == NDP:
                continue
            column = i * (dimms + 2) + place
            put(rules.tables[s], at.load[s], dimms, column, domain, 1)
            after = score(at.load[s], dimms)
            put(rules.tables[s], at.load[s], dimms, column, domain, -1)
            if after < best:
                best, found = after, 3 * place + domain
    give(rules, at, s, i, found)


@compiled
def holds(rules: Rules, at: State, i: int) -> bool:
    """Tell whether all limits are kept, those of an expert's own copies included."""
    dimms, share, size, room, slots, hbm, most = rules.limits
    if at.held[dimms + 1] > hbm:
        return False
    copies = 0
    for place in range(dimms + 1):
        copies += int(at.lies[i, place])
    if copies < 1 or copies > most:
        return False
    for d in range(dimms):
        held = at.held[1 + d]
        if held > slots or share * at.held[0] + size * held > room:
            return False
    return True


@compiled
def flip(at: State, i: int, place: int) -> None:
    """Put an expert in a place, or take it out."""
    at.held[place] += -1 if at.lies[i, place] else 1
    at.lies[i, place] = not at.lies[i, place]


@compiled
def some_place(at: State, i: int, there: bool, random: NDArray[np.uint64]) -> int:
    """Return a random place where an expert lies, or does not; `NOBODY` if there is none."""
    count = 0
    for place in range(at.lies.shape[1]):
        count += at.lies[i, place] == there
    left = int(uniform(random) * count)
    for place in range(at.lies.shape[1]):
        if at.lies[i, place] == there:
            if left == 0:
                return place
            left -= 1
    return NOBODY


@compiled
def run_at_random(rules: Rules, at: State, s: int, i: int, random: NDArray[np.uint64]) -> None:
    """Let an expert with tokens run in a random way that its places allow."""
    dimms = rules.limits[0]
    resident = at.lies[i, dimms + 1]
    place, domain = some_place(at, i, True, random), int(uniform(random) * 3)
    if place == dimms + 1:
        domain = GPU
    elif (domain == GPU and resident) or (domain == NDP and place == 0):
        return
    take_away(rules, at, s, i)
    give(rules, at, s, i, 3 * place + domain)


@compiled
def anneal(
    rules: Rules,
    at: State,
    best: State,
    rows: Ints,
    random: NDArray[np.uint64],
    spans: NDArray[np.float64],
    temperature: float,
    moves: int,
) -> None:
    """Try so many moves at one temperature; `at`, `best` and `spans` are updated.

    Parameters
    ----------
    rows
        The experts that moves choose from.
    spans
        The value of `at`, and the least weighted makespans so far, which `best` has.
    temperature
        In the unit of the objective.
    """
    scenarios = len(rules.weight)
    before, flips = np.empty((2, scenarios), np.int64), np.empty(4, np.int64)
    for _ in range(moves):
        kind = uniform(random)
        i, j, one = rows[int(uniform(random) * len(rows))], NOBODY, NOBODY
        for n in range(4):
            flips[n] = NOBODY
        if kind < ANEW:
            one = int(uniform(random) * scenarios)
            if at.run[one, i] == IDLE:
                continue
            if uniform(random) < 0.5:
                j = rows[int(uniform(random) * len(rows))]
                if j == i:
                    j = NOBODY
        elif kind < RELOCATE:
            flips[0] = some_place(at, i, False, random)
            if uniform(random) < 0.8:
                flips[1] = some_place(at, i, True, random)
        else:
            j = rows[int(uniform(random) * len(rows))]
            if j == i:
                continue
            flips[2] = some_place(at, j, True, random)
            if kind < TRANSFER:
                flips[0] = some_place(at, i, False, random)
                if uniform(random) < 0.5:
                    flips[1] = some_place(at, i, True, random)
                if uniform(random) < 0.5:
                    flips[3] = some_place(at, j, False, random)
            else:  # each goes where the other was
                flips[1] = some_place(at, i, True, random)
                flips[0], flips[3] = flips[2], flips[1]
                if at.lies[i, flips[0]] or at.lies[j, flips[3]]:
                    continue
        if one == NOBODY:
            _flip_all(at, i, j, flips)
            if not (holds(rules, at, i) and (j == NOBODY or holds(rules, at, j))):
                _flip_all(at, i, j, flips)
                continue
        after = spans[0]
        for s in range(scenarios):
            before[0, s], before[1, s] = at.run[s, i], IDLE
            if j != NOBODY:
                before[1, s] = at.run[s, j]
            if one not in (NOBODY, s) or (before[0, s] == IDLE and before[1, s] == IDLE):
                continue
            after -= rules.weight[s] * score(at.load[s], rules.limits[0])
            if one == s:
                run_at_random(rules, at, s, i, random)
            elif before[0, s] != IDLE:  # both are away before either chooses
                take_away(rules, at, s, i)
                at.run[s, i] = IDLE
            if before[1, s] != IDLE:
                run_best(rules, at, s, j)
            if before[0, s] != IDLE and one == NOBODY:
                run_best(rules, at, s, i)
            after += rules.weight[s] * score(at.load[s], rules.limits[0])
        if after - spans[0] <= -temperature * np.log(uniform(random) + 1e-300):
            spans[0] = after
            _note(rules, at, best, spans)
            continue
        for s in range(scenarios):
            for n in range(2):
                who = i if n == 0 else j
                if before[n, s] != IDLE and at.run[s, who] != before[n, s]:
                    take_away(rules, at, s, who)
                    give(rules, at, s, who, before[n, s])
        if one == NOBODY:
            _flip_all(at, i, j, flips)


@compiled
def _flip_all(at: State, i: int, j: int, flips: Ints) -> None:
    """Make or take back a move: two flips of i, and two of j."""
    for n in range(4):
        if flips[n] != NOBODY:
            flip(at, i if n < 2 else j, flips[n])


@compiled
def _note(rules: Rules, at: State, best: State, spans: NDArray[np.float64]) -> None:
    """Keep a state whose weighted makespans are less than any before."""
    total = 0.0
    for s in range(len(rules.weight)):
        total += rules.weight[s] * makespan_of(at.load[s], rules.limits[0])
    if total < spans[1]:
        spans[1] = total
        for i in range(len(at.lies)):
            for place in range(at.lies.shape[1]):
                best.lies[i, place] = at.lies[i, place]
        for s in range(len(at.run)):
            for i in range(at.run.shape[1]):
                best.run[s, i] = at.run[s, i]
