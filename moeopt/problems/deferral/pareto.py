"""All best compromises between makespan and penalty, exactly."""

from collections.abc import Callable
from dataclasses import dataclass

from .check import objective
from .heuristics import uniform
from .instance import Instance
from .pipeline import schedule
from .solution import Solution
from .states import Stopped, finished


@dataclass(frozen=True)
class Point:
    """A schedule that no other one betters in one objective without losing in the other."""

    objective: tuple[int, int]
    solution: Solution


def front(instance: Instance, stopped: Callable[[], bool] = lambda: False) -> list[Point] | None:
    """Return every undominated (makespan, total penalty), by rising makespan; none if infeasible.

    Proof. Deferring nothing costs the least penalty of all, so no undominated schedule takes
    longer than that one in its shortest form. Within this makespan, and within the instance's limit
    on the penalty, the states of `states.finished` dominate every schedule. Of two with one
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
