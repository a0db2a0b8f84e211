"""A layer whose layout is decided: what is left is the schedule, by a method of tri_domain."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from moeopt.core.errors import InputError
from moeopt.core.problem import EXACT, Schedule
from moeopt.core.search import Search
from moeopt.core.wording import shown
from moeopt.problems.tri_domain.check import objective, violations
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.problems.tri_domain.instance import Domain, Instance, Solution

TRIMOE = "trimoe"
"""Scheduler that follows TriMoE's own rule (4.2), greedy with refinement."""


@dataclass(frozen=True)
class Scheduled:
    """A layer's schedule on its layout.

    Attributes
    ----------
    domains
        Where each expert runs, by its number.
    makespan_ns
        As the checker computes it.
    proven
        Whether no schedule on this layout is shorter; a rule proves nothing.
    sources
        The DIMM of the copy that each expert is run from, None for its first copy; by its number.
    """

    domains: Mapping[int, Domain | None]
    makespan_ns: int
    proven: bool
    sources: Mapping[int, int | None] = field(default_factory=dict)


def scheduled(instance: Instance | None, schedule: Schedule, base_ns: int = 0) -> Scheduled:
    """Return the schedule of a layer.

    Parameters
    ----------
    instance
        The layer on its layout; None where nothing runs.
    schedule
        Who decides what runs where: "exact", the best schedule there is by the threshold search;
        "trimoe"; or any method for tri_domain, such as
        ``lambda instance: moeopt.solve(instance, "cp-sat").solution``.
    base_ns
        The makespan where nothing runs: what the GPU computes besides routed experts.

    Raises
    ------
    InputError
        If `schedule` is unknown, or a function whose schedule the checker refuses.
    """
    if instance is None:
        return Scheduled({}, base_ns, proven=True)
    if callable(schedule):
        name = str(getattr(schedule, "__name__", type(schedule).__name__))
        solution, proven = schedule(instance), False
        if not isinstance(solution, Solution):
            raise InputError(f"schedule: {name} gave no solution of {instance.problem}")
        moved = solution.model_copy(update={"instance": instance.name})
        if wrong := violations(instance, moved):
            raise InputError(f"schedule: {name}: {wrong[0][0]}: {wrong[0][1]}")
    elif schedule == EXACT:
        solution, proven = _exact(instance)
    elif schedule == TRIMOE:
        solution, proven = trimoe(instance), False
    else:
        raise InputError(
            f"schedule: must be {EXACT}, {TRIMOE} or a function, not {shown(schedule)}"
        )
    numbers = [expert.expert for expert in instance.experts]
    domains = dict(zip(numbers, solution.assignment, strict=True))
    sources = {number: solution.source_of(row) for row, number in enumerate(numbers)}
    return Scheduled(domains, objective(instance, solution), proven, sources)


def _exact(instance: Instance) -> tuple[Solution, bool]:
    """Return the best schedule that is found, never later than TriMoE's, and whether it is proven.

    The search ends by its own limit of work, not by the clock, so that it finds the same again.
    """
    from moeopt.problems.tri_domain import threshold  # compiled loops are imported when run

    search = Search(limit_s=inf)
    threshold.solve(instance, search)
    found: Solution = search.solution
    if search.closed:
        return found, True
    rule = trimoe(instance)
    return min(found, rule, key=lambda one: objective(instance, one)), False
