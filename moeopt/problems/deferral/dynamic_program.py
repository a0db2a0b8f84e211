"""Exact by dynamic programming over the layers: least makespan, then least penalty.

Proof. `finished` keeps, layer by layer, a set of partial schedules that nothing within the limits
is better than; its proof stands there. So the best of the complete ones is the best of all that
keep to the limits. With the least makespan T* as a limit it is optimal, since none is shorter. If
none of makespan T* keeps the instance's limit on the penalty, the makespan of the best uniform
count that does is the limit, which cuts off nothing better. If no uniform count does, nothing is
feasible: deferring nothing costs the least of all, since penalties do not fall with the count.
"""

from collections.abc import Callable
from dataclasses import dataclass

from moeopt.core.search import Search

from .bounds import Finished, Stopped, earliest, finished, lower_bound
from .check import objective
from .heuristics import schedule, uniform, uniform_d
from .instance import Instance, Solution

FEW_COUNTS = 1024
"""Layers times counts: with so many, looks at the clock are 20 ms apart."""


def brief(instance: Instance) -> bool:
    """Tell whether the algorithm comes back to Python every 50 ms."""
    return instance.layers * len(instance.penalty) <= FEW_COUNTS


def solve(instance: Instance, search: Search) -> None:
    """Report the optimum; return early, with the best uniform count at most, if told to stop."""
    try:
        best = _without_limit(instance, search) or _within_limit(instance, search)
    except Stopped:
        return
    if best is None:
        search.infeasible = True
        return
    solution = schedule(instance, best.counts)
    search.offer(solution, objective(instance, solution))
    search.prove((best.makespan_ns, best.penalty))


def _without_limit(instance: Instance, search: Search) -> Finished | None:
    """Return the best schedule with makespan T*, or None if all such cost too much."""
    least_ns = earliest(instance)[-1].a
    search.prove((least_ns, instance.layers * instance.penalty[0]))
    limit = instance.max_total_penalty
    return min(finished(instance, least_ns, limit, lambda: search.stopped), default=None)


def _within_limit(instance: Instance, search: Search) -> Finished | None:
    """Return the best schedule, or None if not even deferring nothing keeps the limit."""
    start = uniform_d(instance)
    if start is None:
        return None
    reached = objective(instance, start)
    search.offer(start, reached)
    search.prove(lower_bound(instance))
    limit = instance.max_total_penalty
    return min(finished(instance, reached[0], limit, lambda: search.stopped))


@dataclass(frozen=True)
class Point:
    """A schedule that no other one betters in one objective without losing in the other."""

    objective: tuple[int, int]
    solution: Solution


def front(instance: Instance, stopped: Callable[[], bool] = lambda: False) -> list[Point] | None:
    """Return every undominated (makespan, total penalty), by rising makespan; none if infeasible.

    Proof. Deferring nothing costs the least penalty of all, so no undominated schedule takes
    longer than that one in its shortest form. Within this makespan, and within the instance's limit
    on the penalty, the states of `finished` dominate every schedule. Of two with one
    makespan or one penalty only the better is left.

    Parameters
    ----------
    instance
        The problem.
    stopped
        Asked now and then; once it says so, the answer is None.
    """
    longest_ns = objective(instance, uniform(instance, 0))[0]
    try:
        found = finished(instance, longest_ns, instance.max_total_penalty, stopped)
    except Stopped:
        return None
    solutions = [schedule(instance, best.counts) for best in sorted(found)]
    return [Point(objective(instance, solution), solution) for solution in solutions]
