"""dp: exact ways by dynamic programming over the layers, with bounds and dominance.

A state is a partial plan of the first layers: slots, computing and copying so far. The Lagrangian
relaxation (`bounds`) gives a lower bound and a plan, the incumbent. For targets between the
two, a feasibility subproblem asks for a plan within the target.

Proof. `within` keeps every state of the layers up to l unless (1) for one of a few weights p its
weighted cost plus the least weighted cost of the other layers, with the slots that are left, is
above the target: then so is, by the bound's proof in `bounds`, every plan that goes on from it;
or (2) it is dominated: another one needs no more slots, no more computing and no more copying, and
replacing the one by the other makes no plan worse; or (3) it gives a layer ways that fewer would
serve as well on both sides: the same exchange. So the best state of the last layer is the best plan
of all if it is within the target, and if there is none the target is refuted: a lower bound, too
low by one step of the grid that all objectives lie on. Targets rise from the bound to just below
the incumbent.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled
from moeopt.core.search import Feasibility, Search

from .bounds import DualValue, Sides, bisect, dual_function, objective_grid, sides_of
from .heuristics import best_uniform, greedy_marginal
from .instance import Instance, Ints, Solution

Flags = NDArray[np.bool_]

CHUNK = 2**20
"""Extensions that are looked at before the clock is asked: some 10 ms."""

MOST = 2**22
"""Most states of a layer before it is left to another method."""

EXTENSIONS, SORTED = 5e7, 4e6
"""Extensions of states that a core makes, and states that it sorts and compares, in a second."""

SHARES = (256, 64, 16, 4, 1)
"""A target leaves so many parts of the gap, of which it takes one."""

SPREAD = (64, 8)
"""Weights beside the best one: this part of the way to either end."""

FEW_PLANS = 2**20
"""Of so few plans only some are ever kept as states: far less than a `CHUNK` of work."""


def brief(instance: Instance) -> bool:
    """Tell whether the algorithm comes back to Python every 50 ms: with few plans it does."""
    return (instance.experts + 1.0) ** min(instance.layers, 64) <= FEW_PLANS


def solve(instance: Instance, search: Search) -> None:
    """Find the best ways and prove it, or report the best and the bound reached."""
    sides = sides_of(instance)
    grid = objective_grid(instance)
    for heuristic in (best_uniform, greedy_marginal):
        _offer(instance, search, sides, np.array(heuristic(instance).ways, dtype=np.int64))
    found: list[DualValue] = []
    for dual in bisect(sides):
        found.append(dual)
        _offer(instance, search, sides, dual.ways)
        search.prove(-(-dual.bound_ns // grid) * grid)
        if search.closed or search.stopped:
            return
    best = max(found, key=lambda dual: dual.bound_ns)
    weights = [best, *(dual_function(sides, p) for p in _beside(best.p, sides.scale))]
    _close(instance, search, sides, weights, grid)


OF_THE_REST = 0.5
"""Share of what is left of the limit that labels may take: what they leave open goes to CP-SAT.

Instances are easy for one of the two, and hard for the other.
"""


def _close(
    instance: Instance, search: Search, sides: Sides, weights: list[DualValue], grid: int
) -> None:
    """Raise the target until it is met or proves the incumbent, by a share of what is left."""
    least = search.remaining_s * (1 - OF_THE_REST)
    for target in _targets(search, grid):
        answer = within(sides, weights, target, lambda: search.remaining_s <= least)
        if answer.feasibility == Feasibility.INFEASIBLE:
            search.prove(target + grid)
            continue
        if answer.ways is None:
            search.note = answer.note
        else:
            _offer(instance, search, sides, answer.ways)
            search.prove_incumbent()
        return


def _targets(search: Search, grid: int) -> Iterator[int]:
    """Yield multiples of the grid from the bound to one step below the incumbent."""
    for share in SHARES:
        objective, bound = search.objective, search.bound
        if search.closed or not isinstance(objective, int) or not isinstance(bound, int):
            return
        yield bound + (objective - bound - grid) // grid // share * grid


def _beside(p: int, scale: int) -> set[int]:
    ends = (0, scale)
    return {0, scale, *(p + (end - p) // part for end in ends for part in SPREAD)} - {p}


def _offer(instance: Instance, search: Search, sides: Sides, ways: Ints) -> None:
    solution = Solution(instance=instance.name, ways=tuple(ways.tolist()))
    search.offer(solution, sides.trace_ns(ways))


class Answer(NamedTuple):
    """Whether a target can be met, with the best ways if it can; `note` says why it is unknown."""

    feasibility: Feasibility
    ways: Ints | None = None
    note: str = ""


class States(NamedTuple):
    """Partial plans: slots, computing and copying so far, the state before, ways of the layer."""

    slots: Ints
    compute_ns: Ints
    copy_ns: Ints
    before: Ints
    ways: Ints


def within(
    sides: Sides,
    weights: list[DualValue],
    target_ns: int,
    stopped: Callable[[], bool],
) -> Answer:
    """Tell whether some ways have an objective of at most the target, and return the best ones.

    The answer is unknown if told to stop, or if there are too many states.
    """
    zero = np.zeros(1, dtype=np.int64)
    layers = [States(zero, zero, zero, zero, zero)]
    for layer in range(len(sides.compute_ns)):
        options = useful(sides, layer)
        found = _extensions(sides, weights, target_ns, layer, options, layers[-1], stopped)
        if isinstance(found, Answer):
            return found
        spend(len(found.slots) / SORTED)
        order = np.lexsort((found.slots, found.copy_ns, found.compute_ns))
        found = States(*(column[order] for column in found))
        keep = undominated(found.slots, found.copy_ns, sides.slots)
        layers.append(States(*(column[keep] for column in found)))
        if not keep.any():
            return Answer(Feasibility.INFEASIBLE)
        if len(layers[-1].slots) > MOST:
            return Answer(Feasibility.UNKNOWN, note="TOO_MANY_STATES")
    last = layers[-1]
    trace_ns = np.maximum(last.compute_ns, last.copy_ns)
    at = int(np.argmin(trace_ns))
    if trace_ns[at] > target_ns:
        return Answer(Feasibility.INFEASIBLE)
    ways = []
    for states in reversed(layers[1:]):
        ways.append(int(states.ways[at]))
        at = int(states.before[at])
    return Answer(Feasibility.FEASIBLE, np.array(ways[::-1], dtype=np.int64))


def useful(sides: Sides, layer: int) -> Ints:
    """Return the numbers of ways that fit and that no smaller number is as good as."""
    kept: list[int] = []
    compute, copy = sides.compute_ns[layer].tolist(), sides.copy_ns[layer].tolist()
    for ways in range(min(len(compute), sides.slots + 1)):
        if not any(compute[w] <= compute[ways] and copy[w] <= copy[ways] for w in kept):
            kept.append(ways)
    return np.array(kept, dtype=np.int64)


def _extensions(
    sides: Sides,
    weights: list[DualValue],
    target_ns: int,
    layer: int,
    options: Ints,
    states: States,
    stopped: Callable[[], bool],
) -> States | Answer:
    """Return a layer's states, undominated or not; an unknown answer if there are too many."""
    p = np.array([dual.p for dual in weights], dtype=np.int64)
    rest = np.stack([dual.table[layer + 1] for dual in weights])
    compute, copy = sides.compute_ns[layer, options], sides.copy_ns[layer, options]
    step = max(1, CHUNK // len(options))
    limit = target_ns * sides.scale
    parts, total = [], 0
    for begin in range(0, len(states.slots), step):
        if stopped():
            return Answer(Feasibility.UNKNOWN, note="STOPPED")
        spend(len(states.slots[begin : begin + step]) * len(options) / EXTENSIONS)
        slots, compute_ns, copy_ns = (column[begin : begin + step] for column in states[:3])
        found = extend(
            slots, compute_ns, copy_ns, options, compute, copy, p, sides.scale, rest, limit
        )
        part = States(*found)
        parts.append(part._replace(before=part.before + begin))
        total += len(part.slots)
        if total > 8 * MOST:
            return Answer(Feasibility.UNKNOWN, note="TOO_MANY_STATES")
    return States(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


@compiled
def extend(
    slots: Ints,
    compute_ns: Ints,
    copy_ns: Ints,
    options: Ints,
    layer_compute_ns: Ints,
    layer_copy_ns: Ints,
    p: Ints,
    scale: int,
    rest: Ints,
    limit: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """Return the extensions that no weight puts above the limit; columns as in `States`."""
    most = rest.shape[1] - 1
    out = np.empty((5, len(slots) * len(options)), np.int64)
    count = 0
    for i in range(len(slots)):
        for j in range(len(options)):
            used = slots[i] + options[j]
            if used > most:
                break
            compute = compute_ns[i] + layer_compute_ns[j]
            copy = copy_ns[i] + layer_copy_ns[j]
            fits = True
            for k in range(len(p)):
                if p[k] * compute + (scale - p[k]) * copy + rest[k, most - used] > limit:
                    fits = False
                    break
            if fits:
                out[0, count], out[1, count], out[2, count] = used, compute, copy
                out[3, count], out[4, count] = i, options[j]
                count += 1
    return (
        out[0, :count].copy(),
        out[1, :count].copy(),
        out[2, :count].copy(),
        out[3, :count].copy(),
        out[4, :count].copy(),
    )


@compiled
def undominated(slots: Ints, copy_ns: Ints, most: int) -> Flags:
    """Return which states, in order of computing, no earlier one is as good as.

    A tree over the slots (Fenwick) holds the least copying of the states so far that use no more.
    """
    far = np.iinfo(np.int64).max
    least = np.full(most + 2, far, np.int64)
    keep = np.ones(len(slots), np.bool_)
    for i in range(len(slots)):
        at = slots[i] + 1
        while at > 0 and keep[i]:
            if least[at] <= copy_ns[i]:
                keep[i] = False
            at -= at & -at
        at = slots[i] + 1
        while at < len(least) and keep[i]:
            least[at] = min(least[at], copy_ns[i])
            at += at & -at
    return keep
