"""Simulated annealing where an expert may lie in several places at once.

Every expert has a column per place in each scenario's table (`moeopt.problems.device_loads`):
striped, each DIMM, and a hit. It is run from one of the places where it lies; the moves change
these, and who is moved is run where that suits best in every scenario, all others kept.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import (
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
from moeopt.problems.layout.copies import Flags
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import Path

from .annealing import uniform

NOBODY = -1
SMOOTHING = 0.05
"""Weight of the devices' mean square against a makespan."""

RELOCATE, TRANSFER, EXCHANGE = 0.35, 0.6, 0.8
"""Up to which random number a move changes one expert's place, gives one expert a copy and takes
one from another, or exchanges two experts' places; the rest runs one expert anew in a scenario."""


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
        Shape (scenarios, entries), as in `moeopt.problems.device_loads`.
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


def state_of(instance: Instance, rules: Rules, resident: Flags, lies: Flags) -> State:
    """Return a layout, every expert running where that suits best, one after the other."""
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
        order = np.argsort(-instance.path_times.cost[Path.NDP, s], kind="stable")
        for i in order[instance.path_times.active[s, order]].tolist():
            run_best(rules, state, s, i)
    return state


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
        The experts that have tokens.
    spans
        The value of `at`, and the least weighted makespans so far, which `best` has.
    temperature
        In the unit of the objective.
    """
    scenarios = len(rules.weight)
    before = np.empty((2, scenarios), np.int64)
    for _ in range(moves):
        kind = uniform(random)
        i, j = rows[int(uniform(random) * len(rows))], NOBODY
        flips = np.full(4, NOBODY, np.int64)
        if kind < EXCHANGE:
            flips[0] = some_place(at, i, False, random)
            if kind < RELOCATE:
                if uniform(random) < 0.8:
                    flips[1] = some_place(at, i, True, random)
            else:
                j = rows[int(uniform(random) * len(rows))]
                if j == i:
                    continue
                flips[2] = some_place(at, j, True, random)
                if kind < TRANSFER:
                    if uniform(random) < 0.5:
                        flips[1] = some_place(at, i, True, random)
                    if uniform(random) < 0.5:
                        flips[3] = some_place(at, j, False, random)
                if kind >= TRANSFER:
                    flips[1] = some_place(at, i, True, random)
                    if flips[1] < 0 or flips[2] < 0:
                        continue
                    # i goes where j was, j where i was, one copy each.
                    flips[0], flips[3] = flips[2], flips[1]
                    if at.lies[i, flips[0]] or at.lies[j, flips[3]]:
                        continue
            for n in range(4):
                if flips[n] >= 0:
                    flip(at, i if n < 2 else j, flips[n])
            if not (holds(rules, at, i) and (j == NOBODY or holds(rules, at, j))):
                for n in range(4):
                    if flips[n] >= 0:
                        flip(at, i if n < 2 else j, flips[n])
                continue
        one = int(uniform(random) * scenarios) if kind >= EXCHANGE else NOBODY
        after = spans[0]
        for s in range(scenarios):
            before[0, s], before[1, s] = at.run[s, i], IDLE
            if j != NOBODY:
                before[1, s] = at.run[s, j]
            if one not in (NOBODY, s) or (before[0, s] == IDLE and before[1, s] == IDLE):
                continue
            after -= rules.weight[s] * score(at.load[s], rules.limits[0])
            # Both are away before either chooses.
            if before[0, s] != IDLE:
                take_away(rules, at, s, i)
                at.run[s, i] = IDLE
            if before[1, s] != IDLE:
                run_best(rules, at, s, j)
            if before[0, s] != IDLE:
                run_best(rules, at, s, i)
            after += rules.weight[s] * score(at.load[s], rules.limits[0])
        limit = -temperature * np.log(uniform(random) + 1e-300)
        if after - spans[0] <= limit:
            spans[0] = after
            total = 0.0
            for s in range(scenarios):
                total += rules.weight[s] * makespan_of(at.load[s], rules.limits[0])
            if total < spans[1]:
                spans[1] = total
                best.lies[:] = at.lies
                best.run[:] = at.run
            continue
        for s in range(scenarios):
            for n in range(2):
                who = i if n == 0 else j
                if before[n, s] != IDLE and at.run[s, who] != before[n, s]:
                    take_away(rules, at, s, who)
                    give(rules, at, s, who, before[n, s])
        if kind < EXCHANGE:
            for n in range(4):
                if flips[n] >= 0:
                    flip(at, i if n < 2 else j, flips[n])
