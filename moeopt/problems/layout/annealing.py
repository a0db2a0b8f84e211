"""Simulated annealing over layouts and schedules at once, of one copy of an expert or of several.

Every expert has a column per place in each scenario's table (`moeopt.problems.device_loads`):
striped, each DIMM, and a hit. It is run from one of the places where it lies; the moves change
these, and who is moved is run where that suits best in every scenario, all others kept.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.annealing import (
    IMPOSSIBLE,
    Annealing,
    Random,
    below,
    falling,
    seeded,
    uniform,
)
from moeopt.core.compiled import part, step
from moeopt.problems.device_loads import (
    CHANNEL,
    CPU,
    DRAM,
    GPU,
    IDLE,
    NDP,
    OWN,
    PCIE,
    PLACE,
    READ,
    STRIPED_READS,
    Ints,
    put,
    table_for,
)

from .copies import Flags, places_of
from .instance import DOMAINS, Instance, Solution
from .paths import Path

Floats = NDArray[np.float64]

NOBODY = -1

NEVER = 1e300
"""The rise of a move that leaves an expert nowhere to run."""

SMOOTHING = 0.05
"""Weight of the devices' mean square against a makespan."""

SLACK = 20.0
"""Temperatures by which a move may be too dear before the scenarios that are left are looked at."""

BATCH = 1000
"""Moves between two looks at the clock."""

MOVES_PER_UNIT, AT_ONCE = 1_000_000, 8
"""Moves in a unit of work with one scenario; so many more take twice as long."""


class Moves(NamedTuple):
    """Up to which random number a move does what, and whether as many experts stay striped.

    Attributes
    ----------
    anew, relocate, transfer
        It runs one expert anew in one scenario, changes one expert's places, or gives one expert a
        copy and takes one from another; the rest exchanges two experts'.
    fixed
        Whether the number of striped experts stays as it is.
    """

    anew: float
    relocate: float
    transfer: float
    fixed: bool = False


class Rules(NamedTuple):
    """What bounds the places, as few arrays as can be.

    Attributes
    ----------
    tables
        Shape (scenarios, rows, columns): expert i's places are the columns from ``i * places`` on,
        the striped one, those of the DIMMs, and the hit; then perhaps the GPU's base load.
    limits
        DIMMs, bytes of a striped copy on each DIMM, bytes of a localized one, bytes that a DIMM has
        for them, localized copies on one DIMM, HBM slots, copies of one expert; then the weights of
        the scenarios.
    rows
        The experts that moves choose from.
    """

    tables: NDArray[np.int64]
    limits: Ints
    rows: Ints


class State(NamedTuple):
    """Where experts lie and how they run.

    Attributes
    ----------
    lies
        Shape (experts, 2 + dimms): striped, by DIMM, resident.
    run
        Shape (scenarios, experts): three times the place plus the domain; `IDLE` without tokens.
    load
        Shape (scenarios, entries), as in `moeopt.problems.device_loads`, but floats: they guide.
    worth
        Shape (2, scenarios): what `run_best` makes of the loads, the makespan and its value.
    held
        Shape (2 + dimms,): how many experts lie in each place.
    """

    lies: Flags
    run: Ints
    load: Floats
    worth: Floats
    held: Ints


SLOTS, WEIGHTS = 4, 7
"""Where `Rules.limits` has the localized copies on one DIMM, and where the weights begin."""


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
    memory, most = [0, 0, 0], 1
    moved = np.flatnonzero(times.active.any(axis=0))
    if several is not None:
        memory = [several.share_bytes(dimms), several.expert_bytes, several.room_bytes]
        most = several.max_per_expert
        moved = np.arange(experts)  # one without tokens takes bytes from others
    limits = [dimms, *memory, slots, instance.hbm_slots, most, *times.weight.tolist()]
    return Rules(np.stack(tables), np.array(limits), moved)


def state_of(instance: Instance, rules: Rules, solution: Solution) -> State:
    """Return the state of a solution."""
    lies, resident = places_of(instance, solution), np.array(solution.resident, dtype=np.bool_)
    places = np.concatenate([lies, resident[:, None]], axis=1)
    run = np.full(instance.path_times.tokens.shape, IDLE, dtype=np.int64)
    for s, i in np.argwhere(instance.path_times.active).tolist():
        domain, dimm = solution.assignment[s][i], solution.run_from(s, i)
        place = 0 if dimm is None else 1 + dimm
        if domain == "gpu" and resident[i]:
            place = 1 + instance.dimms
        run[s, i] = 3 * place + DOMAINS.index(domain or "cpu")
    return loaded(instance, rules, places, run)


def loaded(instance: Instance, rules: Rules, lies: Flags, run: Ints) -> State:
    """Return a state with its loads."""
    entries = OWN + instance.dimms
    if rules.tables.shape[1] > 7:
        entries += 2 + max(1, int(rules.tables[:, 10].max()))
    load = np.zeros((len(run), entries))
    size, places = instance.experts * (2 + instance.dimms), 2 + instance.dimms
    load[:, GPU] = rules.tables[:, GPU, size:].sum(axis=1)
    for s, i in np.argwhere(run != IDLE).tolist():
        column, domain = i * places + run[s, i] // 3, run[s, i] % 3
        put(rules.tables[s], load[s], instance.dimms, column, domain, 1)
    held = lies.sum(axis=0).astype(np.int64)
    return State(lies, run, load, worth_of(load, instance.dimms), held)


@step
def rerun(rules: Rules, at: State, s: int, i: int, run: int) -> None:
    """Let an expert run otherwise, or not at all."""
    dimms = rules.limits[0]
    for sign in range(-1, 2, 2):
        now = at.run[s, i]
        if now != IDLE:
            put(rules.tables[s], at.load[s], dimms, i * (dimms + 2) + now // 3, now % 3, sign)
        if sign < 0:
            at.run[s, i] = run


@part
def run_best(table: Ints, load: Floats, lies: Flags, column: int, only: int) -> Any:
    """Return how an expert that is taken away runs best, with the makespan and its value then.

    The value has a little for uneven loads besides the makespan: the devices' mean square.

    Parameters
    ----------
    table, load
        Of the scenario.
    lies
        Where the expert may run from.
    column
        Its first one in the table.
    """
    hit = len(lies) - 1
    dimms, link, every = hit - 1, OWN + hit - 1, load[STRIPED_READS]
    first, second, longest, total, squares = -1.0, 0.0, NOBODY, 0.0, 0.0
    for d in range(OWN, link):
        own = load[d]
        total, squares = total + own, squares + own * own
        if own > first:
            first, second, longest = own, first, d
        elif own > second:
            second = own
    best, best_span, found = np.inf, np.inf, IDLE
    for place in range(hit + 1):
        if not lies[place]:
            continue
        row = column + place
        entry = table[PLACE, row]
        for domain in range(3):
            if domain == GPU:
                if place != hit and lies[hit]:
                    continue
            elif place == hit or (domain == NDP and place == 0):
                continue
            if only not in (IDLE, 3 * place + domain):
                continue
            gpu, cpu, striped, most = load[GPU], load[CPU], every, first
            more, of_all, of_squares = table[DRAM + domain, row], total, squares
            if domain == GPU:
                gpu += table[GPU, row]
            elif domain == CPU:
                cpu += table[CPU, row]
            if entry == STRIPED_READS:
                striped += more
            else:
                own = load[entry] + more
                of_all += more
                of_squares += own * own - load[entry] * load[entry]
                most = max(own, second if entry == longest else first)
            span = max(gpu, cpu, striped + most)
            if len(load) > link:
                span = max(span, links(table, load, link, row, domain))
            of_squares += gpu * gpu + cpu * cpu + striped * (dimms * striped + 2 * of_all)
            value = span + SMOOTHING * of_squares / ((dimms + 2) * max(span, 1.0))
            if value < best:
                best, best_span, found = value, span, 3 * place + domain
    return found, best_span, best


@part
def links(table: Ints, load: Floats, link: int, row: int, domain: int) -> Any:
    """Return how long PCIe or the busiest channel is busy if an expert runs so, besides others."""
    pcie, every, own, at = load[link], load[link + 1], 0.0, table[CHANNEL, row]
    if domain == GPU:
        pcie += table[PCIE, row]
    if domain != NDP and at == 0:
        every += table[READ + domain, row]
    for channel in range(1, len(load) - link - 1):
        busy = load[link + 1 + channel]
        if domain != NDP and at == channel:
            busy += table[READ + domain, row]
        own = max(own, busy)
    return max(pcie, every + own)


@step
def holds(rules: Rules, at: State, i: int, flips: Ints) -> bool:
    """Tell whether limits are kept: of an expert's copies, and of the places that a move enters."""
    limits, dimms, copies = rules.limits, rules.limits[0], 0
    for place in range(dimms + 1):
        copies += int(at.lies[i, place])
    if copies < 1 or copies > limits[6] or at.held[dimms + 1] > limits[5]:
        return False
    for n in range(4):
        first, last = flips[n], flips[n] + 1
        if first == 0 and limits[1]:  # a striped copy takes room on every DIMM
            first, last = 1, dimms + 1
        for place in range(max(first, 1), min(last, dimms + 1)):
            held = at.held[place]
            if held > limits[SLOTS] or limits[1] * at.held[0] + limits[2] * held > limits[3]:
                return False
    return True


@part
def some_place(at: State, i: int, there: bool, random: Random) -> int:
    """Return a place where an expert lies, or does not; `NOBODY` if there is none."""
    places = at.lies.shape[1]
    place = int(below(random, places))
    for _ in range(places):
        if at.lies[i, place] == there:
            return place
        place = place + 1 if place + 1 < places else 0
    return NOBODY


@step
def flip(at: State, i: int, j: int, flips: Ints) -> None:
    """Make or take back a move: two places of i, and two of j, each entered or left."""
    for n in range(4):
        who, place = i if n < 2 else j, flips[n]
        if place != NOBODY:
            at.held[place] += -1 if at.lies[who, place] else 1
            at.lies[who, place] = not at.lies[who, place]


class ProposedMove(NamedTuple):
    """The move that was proposed last.

    Attributes
    ----------
    who
        The two experts that it changes; `NOBODY` where it is one.
    flips
        Places that each enters or leaves, see `flip`.
    before, after
        How the two ran in each scenario, `IDLE` where nothing has changed, shape (2, scenarios);
        and `State.worth` with the move.
    """

    who: Ints
    flips: Ints
    before: Ints
    after: Floats


class Neighbourhood(NamedTuple):
    """What stays as it is."""

    rules: Rules
    by: Moves


class LayoutWalk(NamedTuple):
    """What changes: the state, the best one, and the move that was proposed last."""

    at: State
    best: State
    move: ProposedMove


@part
def propose(
    task: Neighbourhood, walk: LayoutWalk, random: Random, most: float, temperature: float
) -> float:
    """Change places, and let the experts run where that suits best in every scenario."""
    rules, by, at, move = task.rules, task.by, walk.at, walk.move
    flips, rows, kind, one, only = move.flips, task.rules.rows, uniform(random), NOBODY, IDLE
    i, j = rows[below(random, len(rows))], rows[below(random, len(rows))]
    if kind >= by.relocate and i == j:
        return IMPOSSIBLE
    for n in range(4):  # i may enter and leave a place, j leave and enter one
        flips[n] = some_place(at, i if n < 2 else j, n in (1, 2), random)
    if kind < by.anew:
        one, only = below(random, len(at.run)), 3 * flips[1] + below(random, 3)
        if at.run[one, i] == IDLE:
            return IMPOSSIBLE
        if i == j or uniform(random) < 0.5:
            j = NOBODY
        for n in range(4):
            flips[n] = NOBODY
    elif kind >= by.transfer:  # each goes where the other was
        flips[0], flips[3] = flips[2], flips[1]
        if at.lies[i, flips[0]] or at.lies[j, flips[3]]:
            return IMPOSSIBLE
    else:
        if uniform(random) < (0.2 if kind < by.relocate else 0.5):
            flips[1] = NOBODY
        if kind < by.relocate:
            j = flips[2] = flips[3] = NOBODY
        elif uniform(random) < 0.5:
            flips[3] = NOBODY
        if by.fixed and 0 in (flips[0], flips[1], flips[2], flips[3]):
            return IMPOSSIBLE
    move.who[0], move.who[1] = i, j
    flip(at, i, j, flips)
    if one == NOBODY and not (
        holds(rules, at, i, flips) and (j == NOBODY or holds(rules, at, j, flips))
    ):
        flip(at, i, j, flips)
        return IMPOSSIBLE
    change = 0.0
    for s in range(len(at.run)):
        move.before[0, s] = move.before[1, s] = IDLE
    for s in range(len(at.run)):
        if change > most + SLACK * temperature:
            break
        if one not in (NOBODY, s):
            continue
        for n in range(2):  # both are away before either chooses
            who = move.who[n]
            if who != NOBODY and at.run[s, who] != IDLE:
                move.before[n, s] = at.run[s, who]
                rerun(rules, at, s, who, IDLE)
        for n in range(2):
            if move.before[n, s] == IDLE:
                continue
            who = move.who[n]
            run, move.after[0, s], move.after[1, s] = run_best(
                rules.tables[s],
                at.load[s],
                at.lies[who],
                who * (rules.limits[0] + 2),
                only if n == 0 else IDLE,
            )
            rerun(rules, at, s, who, run)
            if run == IDLE:  # it can run nowhere
                change = NEVER
        change += rules.limits[WEIGHTS + s] * (move.after[1, s] - at.worth[1, s])
    return min(change, NEVER)


@part
def revert(task: Neighbourhood, walk: LayoutWalk) -> None:
    """Take a move back."""
    at, move = walk.at, walk.move
    for s in range(len(at.run)):
        move.after[0, s], move.after[1, s] = at.worth[0, s], at.worth[1, s]
        for n in range(2):
            if move.before[n, s] != IDLE:
                rerun(task.rules, at, s, move.who[n], move.before[n, s])
    flip(at, move.who[0], move.who[1], move.flips)


@part
def commit(task: Neighbourhood, walk: LayoutWalk) -> None:
    """Take a move; keep the state if its weighted makespans are less than any before."""
    at, best, after, total = walk.at, walk.best, walk.move.after, 0.0
    for s in range(len(at.run)):
        at.worth[0, s], at.worth[1, s] = after[0, s], after[1, s]
        total += task.rules.limits[WEIGHTS + s] * (after[0, s] - best.worth[0, s])
    if total < 0:
        for s in range(len(at.run)):
            best.worth[0, s] = after[0, s]
            for i in range(len(at.lies)):
                best.run[s, i] = at.run[s, i]
        for i in range(len(at.lies)):
            for place in range(at.lies.shape[1]):
                best.lies[i, place] = at.lies[i, place]


anneal = Annealing(propose, commit, revert)


def annealed(
    instance: Instance,
    rules: Rules,
    start: State,
    seed: int,
    by: Moves,
    temperatures: Sequence[float],
    stopped: Callable[[], bool] = lambda: False,
) -> State:
    """Return the best state found from another, which stays as it is.

    Parameters
    ----------
    seed
        Of the random numbers, at least 1.
    temperatures
        Of each batch of moves, relative to the objective.
    stopped
        Asked between two batches.
    """
    walk, value = walk_from(start), value_of(rules, start)
    anneal(
        Neighbourhood(rules, by),
        walk,
        seeded(seed),
        [value * temperature for temperature in temperatures],
        BATCH,
        units=units_per_move(instance),
        stopped=stopped,
    )
    return loaded(instance, rules, walk.best.lies, walk.best.run)


def walk_from(start: State) -> LayoutWalk:
    """Return the beginning of a walk from a state, which stays as it is."""
    at, best = (
        State(**{name: of.copy() for name, of in start._asdict().items()}) for _ in range(2)
    )
    runs = np.full((2, len(start.run)), IDLE, np.int64)
    who, flips = np.full(2, NOBODY, np.int64), np.full(4, NOBODY, np.int64)
    return LayoutWalk(at, best, ProposedMove(who, flips, runs, start.worth.copy()))


def units_per_move(instance: Instance) -> float:
    """Return what a move takes: most are too dear in the scenarios that are looked at first."""
    return (1 + (len(instance.scenarios) - 1) / AT_ONCE) / MOVES_PER_UNIT


def cooling(hot: float, cold: float, moves: int) -> Sequence[float]:
    """Return falling temperatures, one for each batch of so many moves."""
    return falling(hot, cold, moves // BATCH)


def worth_of(load: Floats, dimms: int) -> Floats:
    """Return `State.worth` of loads."""
    hosts, link = load[:, :STRIPED_READS], OWN + dimms
    busy = np.concatenate([hosts, load[:, [STRIPED_READS]] + load[:, OWN:link]], axis=1)
    channels = load[:, link + 1 : link + 2] + load[:, link + 2 :]
    span = np.concatenate([busy, load[:, link : link + 1], channels], axis=1).max(axis=1)
    uneven = (busy**2).sum(axis=1) / ((dimms + 2) * np.maximum(span, 1))
    return np.stack([span, span + SMOOTHING * uneven])


def value_of(rules: Rules, at: State) -> float:
    """Return the weighted makespans."""
    return float(rules.limits[WEIGHTS:] @ at.worth[0])
