"""A layer whose layout is decided: what is left is the schedule, by any method of tri_domain."""

from collections.abc import Callable

from moeopt.errors import InputError
from moeopt.problems.search import Search
from moeopt.problems.tri_domain import threshold
from moeopt.problems.tri_domain.check import objective
from moeopt.problems.tri_domain.instance import Instance
from moeopt.problems.tri_domain.solution import Domain, Solution

Schedule = Callable[[Instance], Solution]
"""A method for tri_domain: ``trimoe`` of its heuristics, or an exact one, such as
``lambda instance: moeopt.solve(instance, "cp-sat").solution``."""

LIMIT_S = 10.0
"""For one exact schedule, which takes a millisecond."""


def exact(instance: Instance) -> Solution:
    """Return the best schedule of a layer, by the method ``threshold``.

    Raises
    ------
    InputError
        If none is found in `LIMIT_S`.
    """
    search = Search(LIMIT_S)
    threshold.solve(instance, search)
    if not isinstance(search.solution, Solution):
        raise InputError(f"{instance.name}: no schedule within {LIMIT_S:g} s")
    return search.solution


def scheduled(
    instance: Instance | None, schedule: Schedule, base_ns: int = 0
) -> tuple[dict[int, Domain | None], int]:
    """Return the domain of each expert by its number, and the makespan.

    Where nothing runs that is `base_ns`: what the GPU computes besides routed experts.
    """
    if instance is None:
        return {}, base_ns
    solution = schedule(instance)
    numbers = (expert.expert for expert in instance.experts)
    makespan_ns = objective(instance, solution)
    return dict(zip(numbers, solution.assignment, strict=True)), makespan_ns
