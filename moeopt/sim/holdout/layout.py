"""A layout decided on some windows, executed on others."""

from dataclasses import dataclass
from typing import NamedTuple

from moeopt.errors import InputError
from moeopt.problems.layout.instance import COSTS, Instance, Scenario
from moeopt.problems.layout.solution import Solution
from moeopt.problems.relayout.fixed_layout import fixed_layout
from moeopt.problems.relayout.instance import Expert
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.sim.fixed_layout import Schedule, scheduled


class Place(NamedTuple):
    """Where an expert lies: `dimm` is None if it is striped."""

    resident: bool
    dimm: int | None


@dataclass(frozen=True)
class ExecutedLayout:
    """A layout run on the scenarios of an instance.

    Attributes
    ----------
    solution
        Valid for that instance: an expert without tokens in it has no layout there.
    makespans_ns
        Of each scenario.
    objective_ns
        Their sum, weighted.
    """

    solution: Solution
    makespans_ns: tuple[int, ...]
    objective_ns: int


def execute_layout(
    instance: Instance, decision: Solution, schedule: Schedule = trimoe
) -> ExecutedLayout:
    """Run a layout that was decided on other windows of the same layer.

    On the windows that it was decided on, this is its in-sample value under `schedule`.

    Parameters
    ----------
    instance
        The windows to run: generated with a ``first_window`` after those of the decision.
    decision
        A solution for the earlier windows; only its layout is used. An expert without a layout,
        which had no tokens then, is striped.
    schedule
        Decides what runs where, in each window for itself.

    Raises
    ------
    InputError
        If the decision is for another number of experts, or uses a DIMM that is not there.
    """
    places = [Place(*place) for place in zip(decision.resident, decision.dimm, strict=True)]
    if len(places) != instance.experts:
        raise InputError(f"decision: must have {instance.experts} experts, not {len(places)}")
    if any(place.dimm is not None and place.dimm >= instance.dimms for place in places):
        raise InputError(f"decision: dimm: must be below {instance.dimms}")
    runs = [_scenario_run(instance, scenario, places, schedule) for scenario in instance.scenarios]
    makespans = tuple(makespan for _, makespan in runs)
    weights = [scenario.weight for scenario in instance.scenarios]
    active = [any(tokens) for tokens in zip(*(s.tokens for s in instance.scenarios), strict=True)]
    solution = Solution(
        instance=instance.name,
        resident=tuple(p.resident and on for p, on in zip(places, active, strict=True)),
        dimm=tuple(p.dimm if on else None for p, on in zip(places, active, strict=True)),
        assignment=tuple(assignment for assignment, _ in runs),
    )
    total = sum(weight * makespan for weight, makespan in zip(weights, makespans, strict=True))
    return ExecutedLayout(solution, makespans, total)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> int:
    """Return what a layout costs on the scenarios of `instance`; see `execute_layout`."""
    return execute_layout(instance, decision, schedule).objective_ns


def _scenario_run(
    instance: Instance, scenario: Scenario, places: list[Place], schedule: Schedule
) -> tuple[tuple[str | None, ...], int]:
    experts = [
        Expert(
            expert=number,
            tokens=scenario.tokens[number],
            resident=place.resident,
            dimm=place.dimm,
            **{name: getattr(scenario, name)[number] for name in COSTS},
        )
        for number, place in enumerate(places)
    ]
    layer = fixed_layout(
        instance.name,
        instance.dimms,
        instance.dram_striped_ns,
        instance.dram_localized_ns,
        experts,
    )
    domains, makespan_ns = scheduled(layer, schedule)
    return tuple(domains.get(number) for number in range(len(places))), makespan_ns
