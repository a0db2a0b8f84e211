"""dp: exact ways by a Lagrangian bound, and labels where it leaves a gap.

The Lagrangian relaxation (`bounds`) gives a lower bound and a plan, the incumbent. For targets
between the two, a feasibility subproblem asks for a plan within the target: label setting
(`moeopt.algorithms.labels`) with one group for each layer, which uses slots, computing and copying.

Proof. By the bound's proof, weights p and q - p of the two sides and a price of the slots are
prices of what labels use. Both sides are ranked, so the best last label is the best plan of all if
it is within the target, and if there is none the target is refuted: a lower bound, too low by one
step of the grid that all objectives lie on. Targets rise from the bound to just below the
incumbent.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from moeopt.algorithms.labels import LabelSetting, undominated
from moeopt.core.search import Feasibility, Search

from .bounds import DualValue, Sides, bisect, dual_function, objective_grid, sides_of
from .heuristics import best_uniform, greedy_marginal
from .instance import Instance, Ints, Solution

SLOTS, COMPUTE, COPY = range(3)
"""What labels use."""

MOST = 2**20
"""Most labels of a layer before it is left to another method."""

SHARES = (256, 64, 16, 4, 1)
"""A target leaves so many parts of the gap, of which it takes one."""

SPREAD = (64, 8)
"""Weights beside the best one: this part of the way to either end."""

FEW_PLANS = 2**20
"""Of so few plans only some are ever kept as labels: milliseconds of work."""


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


def within(
    sides: Sides,
    weights: list[DualValue],
    target_ns: int,
    stopped: Callable[[], bool],
) -> Answer:
    """Tell whether some ways have an objective of at most the target, and return the best ones.

    The answer is unknown if told to stop, or if there are too many labels.
    """
    counts = np.arange(min(sides.compute_ns.shape[1], sides.slots + 1))
    layers = [
        np.column_stack([counts, compute[: len(counts)], copy[: len(counts)]])
        for compute, copy in zip(sides.compute_ns, sides.copy_ns, strict=True)
    ]
    groups = [uses[undominated(uses)] for uses in layers]
    prices = [[dual.price, dual.p, sides.scale - dual.p] for dual in weights]
    limit = np.array([sides.slots, target_ns, target_ns])
    labels = LabelSetting(groups, limit, np.array(prices), ranked=(COMPUTE, COPY))
    found = labels.run(MOST, stopped)
    if not labels.complete:
        return Answer(Feasibility.UNKNOWN, note="STOPPED" if stopped() else "TOO_MANY_LABELS")
    if not len(found):
        return Answer(Feasibility.INFEASIBLE)
    best = int(found[:, [COMPUTE, COPY]].max(axis=1).argmin())
    ways = [uses[n, SLOTS] for uses, n in zip(groups, labels.choice(best), strict=True)]
    return Answer(Feasibility.FEASIBLE, np.array(ways, dtype=np.int64))
