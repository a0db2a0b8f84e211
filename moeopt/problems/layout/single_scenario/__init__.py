"""Bound and pack: the least makespan of one scenario over all layouts, with its proof.

Proof. The search branches on how many experts the hosts read striped and localized. Together the
branches cover every solution; each keeps a bound that no solution in it is below; a branch is
fathomed only when its bound reaches the incumbent. So the incumbent is optimal when the least bound
meets it. The bounds, and why an answer of a solver may raise one, are proven in
`formulations/layout/spec.md`, section "Bound and pack".
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moeopt.core.search import Search
from moeopt.problems.layout.check import objective
from moeopt.problems.layout.instance import DOMAINS, Instance, Solution, with_idle_localized
from moeopt.problems.layout.paths import DEVICE_OF, IDLE, STRIPED, Path
from moeopt.problems.layout.systems import Layout

from .scenario import Assignment, SingleScenario, all_striped

if TYPE_CHECKING:
    from .search import BranchAndBound


@dataclass(frozen=True)
class ScenarioAnswer:
    """What is known of one scenario by itself; arrays follow the instance's experts.

    Attributes
    ----------
    bound_ns
        No layout has a smaller makespan in this scenario.
    makespan_ns
        The makespan of the schedule below; None if none was found below the given upper bound.
    resident
        Whether the expert is kept in HBM.
    dimm
        Its DIMM, or `paths.STRIPED`.
    assignment
        Its `paths.Device`, or `paths.IDLE` without tokens.
    """

    bound_ns: int
    makespan_ns: int | None = None
    resident: NDArray[np.bool_] | None = None
    dimm: NDArray[np.int64] | None = None
    assignment: NDArray[np.int64] | None = None


def solve(instance: Instance, search: Search) -> None:
    """Solve an instance of one scenario."""
    scenario, weight = SingleScenario.of(instance, 0), instance.scenarios[0].weight

    def improved(found: Assignment, makespan: int) -> None:
        resident, dimm, assignment = (a.tolist() for a in _arrays(instance, scenario, found))
        solution = Solution(
            instance=instance.name,
            resident=resident,
            dimm=tuple(None if d == STRIPED else d for d in dimm),
            assignment=(tuple(None if of == IDLE else DOMAINS[of] for of in assignment),),
        )
        search.offer(with_idle_localized(instance, solution), objective(instance, solution))

    def proved(bound: int) -> None:
        search.prove(weight * bound * scenario.unit_ns)

    run = _run(scenario, lambda: search.remaining_s, improved, proved, seed=search.seed)
    search.note = run.note


def solve_scenario(
    instance: Instance,
    scenario_index: int,
    remaining_s: Callable[[], float],
    upper: int | None = None,
    seed: int = 0,
) -> ScenarioAnswer:
    """Return the best bound on one scenario's makespan over all layouts, and the best schedule.

    Parameters
    ----------
    instance, scenario_index
        The scenario.
    remaining_s
        Says how many seconds are left.
    upper
        A makespan in ns; only schedules below it are of interest. The bound is at most this.
    seed
        For the packing heuristic.
    """
    if not any(instance.scenarios[scenario_index].tokens):
        return ScenarioAnswer(instance.base_ns)
    scenario = SingleScenario.of(instance, scenario_index)
    top = None if upper is None else -(-upper // scenario.unit_ns)
    run = _run(scenario, remaining_s, _ignore, _ignore, top, seed=seed)
    bound = max(run.bound, 0) * scenario.unit_ns
    bound = bound if upper is None else min(bound, upper)
    found = run.incumbent.assignment
    if found is None:
        return ScenarioAnswer(bound)
    makespan = found.makespan(scenario) * scenario.unit_ns
    arrays = _arrays(instance, scenario, found)
    return ScenarioAnswer(bound, makespan, *arrays)


def scenario_bounds(
    instance: Instance,
    search: Search,
    share_s: float,
    layouts: list[Layout] | None = None,
) -> list[int]:
    """Return weight times a proven bound on the makespan of each scenario by itself.

    Their sum, and the sum over any part of the scenarios for these, is a bound: whatever layout is
    chosen for all is one that each scenario may choose.

    Parameters
    ----------
    share_s
        About how many seconds may be spent; each scenario gets an equal share of what is left.
    layouts
        Gets the best layout found for each scenario by itself.
    """
    begin = search.remaining_s
    found = []
    for number, scenario in enumerate(instance.scenarios):
        left = max(0.0, share_s - (begin - search.remaining_s))
        until = search.remaining_s - left / (len(instance.scenarios) - number)

        def remaining(until: float = until) -> float:
            return max(0.0, search.remaining_s - until)

        answer = solve_scenario(instance, number, remaining, seed=search.seed)
        found.append(scenario.weight * answer.bound_ns)
        if layouts is not None and answer.resident is not None and answer.dimm is not None:
            layouts.append(Layout(answer.resident, answer.dimm))
    return found


def _run(
    scenario: SingleScenario,
    remaining_s: Callable[[], float],
    improved: Callable[[Assignment, int], None],
    proved: Callable[[int], object],
    upper: int | None = None,
    *,
    seed: int,
) -> "BranchAndBound":
    """Run the search; compiled code and solvers are imported here."""
    from .packing import Incumbent
    from .search import BranchAndBound

    first = all_striped(scenario)
    makespan = first.makespan(scenario)
    if upper is None or makespan < upper:
        incumbent = Incumbent(scenario, makespan, improved, seed, first)
        improved(first, makespan)
    else:
        incumbent = Incumbent(scenario, upper, improved, seed)
    run = BranchAndBound(incumbent, remaining_s, proved)
    run.run()
    return run


def _arrays(
    instance: Instance, scenario: SingleScenario, found: Assignment
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return `resident`, `dimm` and `assignment` of all experts, as in `ScenarioAnswer`."""
    resident = np.zeros(instance.experts, dtype=np.bool_)
    dimm = np.full(instance.experts, STRIPED, dtype=np.int64)
    assignment = np.full(instance.experts, IDLE, dtype=np.int64)
    resident[scenario.rows] = found.path == Path.HIT
    dimm[scenario.rows] = found.dimm
    assignment[scenario.rows] = DEVICE_OF[found.path]
    return resident, dimm, assignment


def _ignore(*_: object) -> None:
    """Report to nobody."""
