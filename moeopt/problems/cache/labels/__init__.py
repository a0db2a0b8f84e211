"""Exact ways by labels: partial plans, layer by layer, that some completion can still save.

Proof. `bisect` gives a lower bound and a plan, the incumbent. For a target between the two,
`within` keeps every partial plan of the layers up to l unless (1) for one of a few weights p its
weighted cost plus the least weighted cost of the other layers, with the slots that are left, is
above the target: then so is, by the bound's proof in `weighting`, every plan that goes on from it;
or (2) another one needs no more slots, no more computing and no more copying: then replacing the
one by the other makes no plan worse; or (3) it gives a layer ways that fewer would serve as
well on both sides: the same exchange. So the best label of the last layer is the best plan of all
if it is within the target, and if there is none the target is a lower bound, too low by one step
of the grid that all objectives lie on. Targets rise from the bound to just below the incumbent.
"""

from collections.abc import Iterator

import numpy as np

from moeopt.problems.cache.bounds import objective_grid
from moeopt.problems.cache.curves import Ints
from moeopt.problems.cache.heuristics import best_uniform, greedy_marginal
from moeopt.problems.cache.instance import Instance
from moeopt.problems.cache.sides import Sides, sides_of
from moeopt.problems.cache.solution import Solution
from moeopt.problems.cache.weighting import Weighed, bisect, weigh
from moeopt.problems.search import Search

from .extend import EndedError, within

__all__ = ["solve"]

SHARES = (256, 64, 16, 4, 1)
"""A target leaves so many parts of the gap, of which it takes one."""

SPREAD = (64, 8)
"""Weights beside the best one: this part of the way to either end."""


def solve(instance: Instance, search: Search) -> None:
    """Find the best ways and prove it, or report the best and the bound reached."""
    sides = sides_of(instance)
    grid = objective_grid(instance)
    for heuristic in (best_uniform, greedy_marginal):
        _offer(instance, search, sides, np.array(heuristic(instance).ways, dtype=np.int64))
    found: list[Weighed] = []
    for weighed in bisect(sides):
        found.append(weighed)
        _offer(instance, search, sides, weighed.ways)
        search.prove(-(-weighed.bound_ns // grid) * grid)
        if search.closed or search.stopped:
            return
    best = max(found, key=lambda weighed: weighed.bound_ns)
    weights = [best, *(weigh(sides, p) for p in _beside(best.p, sides.scale))]
    try:
        _close(instance, search, sides, weights, grid)
    except EndedError as ended:
        search.note = str(ended)


def _close(
    instance: Instance, search: Search, sides: Sides, weights: list[Weighed], grid: int
) -> None:
    """Raise the target until it is met, or proves the incumbent."""
    for target in _targets(search, grid):
        ways = within(sides, weights, target, lambda: search.stopped)
        if ways is None:
            search.prove(target + grid)
        else:
            _offer(instance, search, sides, ways)
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
