"""Bound and pack: the least makespan of one scenario over all layouts, with its proof.

Proof. A state says how many experts the hosts read striped and localized. Together the states
cover every solution; each keeps a bound that no solution in it is below; a state is given up only
when its bound reaches the incumbent. So the incumbent is optimal when the least bound meets it. The
bounds, and why each answer of a solver may raise one, are proven in `formulations/layout/spec.md`,
section "Bound and pack".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.layout.check import objective
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.solution import Domain, Solution
from moeopt.problems.search import Search

from .scenario import HIT, Plan, Scenario

if TYPE_CHECKING:
    from .search import BoundAndPack

DOMAIN: tuple[Domain, ...] = ("gpu", "gpu", "cpu", "gpu", "cpu", "ndp")


@dataclass(frozen=True)
class ScenarioAnswer:
    """What is known of one scenario by itself; arrays follow the instance's experts.

    Attributes
    ----------
    bound_ns
        No layout has a smaller makespan in this scenario.
    makespan_ns
        The makespan of the plan below; None if none was found below the given upper bound.
    resident
        Whether the expert is kept in HBM.
    dimm
        Its DIMM, -1 if it is striped.
    assignment
        Its domain: 0 GPU, 1 CPU, 2 NDP, -1 without tokens.
    """

    bound_ns: int
    makespan_ns: int | None = None
    resident: NDArray[np.bool_] | None = None
    dimm: NDArray[np.int64] | None = None
    assignment: NDArray[np.int64] | None = None


def solve(instance: Instance, search: Search) -> None:
    """Solve an instance of one scenario; several are those of `multi_scenario.solve`."""
    if len(instance.scenarios) > 1:
        from moeopt.problems.layout import multi_scenario

        multi_scenario.solve(instance, search)
        return
    scenario, weight = Scenario.of(instance, 0), instance.scenarios[0].weight

    def found(plan: Plan, makespan: int) -> None:
        solution = as_solution(instance, scenario, plan)
        search.offer(solution, objective(instance, solution))

    def proved(bound: int) -> None:
        search.prove(weight * bound * scenario.unit_ns)

    run = _run(scenario, lambda: search.remaining_s, found, proved, None, search.seed)
    search.note, search.enough = run.note, run.enough


def solve_scenario(
    instance: Instance,
    scenario_index: int,
    remaining_s: Callable[[], float],
    upper: int | None = None,
    seed: int = 0,
) -> ScenarioAnswer:
    """Return the best bound on one scenario's makespan over all layouts, and the best plan.

    Parameters
    ----------
    instance, scenario_index
        The scenario.
    remaining_s
        Says how many seconds are left.
    upper
        A makespan in ns; only plans below it are of interest. The bound is at most this.
    seed
        For the packing heuristic.
    """
    if not any(instance.scenarios[scenario_index].tokens):
        return _answer(instance, None, None, 0)
    scenario = Scenario.of(instance, scenario_index)
    top = None if upper is None else -(-upper // scenario.unit_ns)
    run = _run(scenario, remaining_s, lambda plan, makespan: None, lambda bound: None, top, seed)
    bound = max(run.bound, 0) * scenario.unit_ns
    return _answer(
        instance, scenario, run.incumbent.plan, bound if upper is None else min(bound, upper)
    )


def as_solution(instance: Instance, scenario: Scenario, plan: Plan) -> Solution:
    """Return a plan for the only scenario as a solution."""
    dimm: list[int | None] = [None] * instance.experts
    resident = [False] * instance.experts
    for row, way, place in zip(scenario.rows, plan.way, plan.dimm, strict=True):
        resident[row] = bool(way == HIT)
        dimm[row] = None if place < 0 else int(place)
    domain = dict(zip(scenario.rows.tolist(), plan.way.tolist(), strict=True))
    return Solution(
        instance=instance.name,
        resident=tuple(resident),
        dimm=tuple(dimm),
        assignment=(
            tuple(DOMAIN[domain[i]] if i in domain else None for i in range(instance.experts)),
        ),
    )


def _run(
    scenario: Scenario,
    remaining_s: Callable[[], float],
    found: Callable[[Plan, int], Any],
    proved: Callable[[int], Any],
    upper: int | None,
    seed: int,
) -> "BoundAndPack":
    """Run the search; compiled code and solvers are imported here."""
    from .incumbent import Incumbent, everything_striped
    from .search import BoundAndPack

    first = everything_striped(scenario)
    makespan = first.makespan(scenario)
    if upper is None or makespan < upper:
        incumbent = Incumbent(scenario, makespan, found, seed, first)
        found(first, makespan)
    else:
        incumbent = Incumbent(scenario, upper, found, seed)
    run = BoundAndPack(incumbent, remaining_s, proved)
    run.run()
    return run


def _answer(
    instance: Instance, scenario: Scenario | None, plan: Plan | None, bound_ns: int
) -> ScenarioAnswer:
    if scenario is None or plan is None:
        return ScenarioAnswer(bound_ns)
    resident = np.zeros(instance.experts, dtype=np.bool_)
    dimm = np.full(instance.experts, -1, dtype=np.int64)
    assignment = np.full(instance.experts, -1, dtype=np.int64)
    resident[scenario.rows] = plan.way == HIT
    dimm[scenario.rows] = plan.dimm
    codes = np.array([0, 0, 1, 0, 1, 2])
    assignment[scenario.rows] = codes[plan.way]
    makespan = plan.makespan(scenario) * scenario.unit_ns
    return ScenarioAnswer(bound_ns, makespan, resident, dimm, assignment)
