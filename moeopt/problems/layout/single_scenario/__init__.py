"""Bound and pack: the least makespan of one scenario over all layouts, with its proof.

Proof. The search branches on how many experts the hosts read striped and localized. Together the
branches cover every solution; each keeps a bound that no solution in it is below; a branch is
fathomed only when its bound reaches the incumbent. So the incumbent is optimal when the least bound
meets it. The bounds, and why an answer of a solver may raise one, are proven in
`formulations/layout/spec.md`, section "Bound and pack".
"""

from collections.abc import Callable

import numpy as np

from moeopt.core.search import Search
from moeopt.problems.layout.check import objective
from moeopt.problems.layout.instance import Instance, with_idle_localized
from moeopt.problems.layout.paths import DEVICE_OF, IDLE, STRIPED, Path
from moeopt.problems.layout.second_stage import Layout, as_solution

from .packing import Incumbent
from .scenario import Assignment, SingleScenario, all_striped
from .search import BranchAndBound


def solve(instance: Instance, search: Search) -> None:
    """Solve an instance of one scenario."""
    scenario, weight = SingleScenario.of(instance, 0), instance.scenarios[0].weight

    def improved(found: Assignment, _: int) -> None:
        resident = np.zeros(instance.experts, dtype=np.bool_)
        dimm = np.full(instance.experts, STRIPED)
        device = np.full((1, instance.experts), IDLE)
        resident[scenario.rows], dimm[scenario.rows] = found.path == Path.HIT, found.dimm
        device[0, scenario.rows] = DEVICE_OF[found.path]
        solution = as_solution(instance, Layout(resident, dimm), device)
        search.offer(with_idle_localized(instance, solution), objective(instance, solution))

    def proved(bound: int) -> None:
        search.prove(weight * bound * scenario.unit_ns)

    run = _run(
        scenario, lambda: search.remaining_s, search.seed, improved, proved, search.enough_gap
    )
    search.note, search.enough = run.note, not run.closed and run.is_enough


def scenario_bounds(instance: Instance, search: Search, share_s: float) -> list[int]:
    """Return weight times a proven bound on the makespan of each scenario by itself.

    Their sum, and the sum over any part of the scenarios for these, is a bound: whatever layout is
    chosen for all is one that each scenario may choose.

    Parameters
    ----------
    share_s
        About how many seconds may be spent; each scenario gets an equal share of what is left.
    """
    end, found = search.remaining_s - share_s, []
    for number, scenario in enumerate(instance.scenarios):
        left = max(0.0, search.remaining_s - end)
        until = search.remaining_s - left / (len(instance.scenarios) - number)

        def remaining(until: float = until) -> float:
            return max(0.0, search.remaining_s - until)

        bound = instance.base_ns
        if any(scenario.tokens):
            alone = SingleScenario.of(instance, number)
            bound = max(_run(alone, remaining, search.seed).bound, 0) * alone.unit_ns
        found.append(scenario.weight * bound)
    return found


def _run(
    scenario: SingleScenario,
    remaining_s: Callable[[], float],
    seed: int,
    improved: Callable[[Assignment, int], None] = lambda *_: None,
    proved: Callable[[int], object] = lambda _: None,
    enough_gap: float = 0.0,
) -> BranchAndBound:
    """Run the search from the layout that stripes all."""
    first = all_striped(scenario)
    makespan = first.makespan(scenario)
    incumbent = Incumbent(scenario, makespan, improved, seed, first)
    improved(first, makespan)
    run = BranchAndBound(incumbent, remaining_s, proved, enough_gap)
    run.run()
    return run
