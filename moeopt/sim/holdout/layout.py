"""A layout decided on some windows, executed on others."""

from dataclasses import dataclass

import numpy as np

from moeopt.errors import InputError
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.paths import STRIPED
from moeopt.problems.layout.solution import Solution
from moeopt.problems.layout.systems import Layout, on_layout
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.sim.fixed_layout import Schedule, scheduled


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
    if len(decision.resident) != instance.experts:
        raise InputError(
            f"decision: must have {instance.experts} experts, not {len(decision.resident)}"
        )
    if any(dimm is not None and dimm >= instance.dimms for dimm in decision.dimm):
        raise InputError(f"decision: dimm: must be below {instance.dimms}")
    layout = Layout(
        np.array(decision.resident),
        np.array([STRIPED if dimm is None else dimm for dimm in decision.dimm]),
    )
    runs = [
        scheduled(on_layout(instance, layout, number), schedule, instance.gpu_base_ns or 0)
        for number in range(len(instance.scenarios))
    ]
    makespans = tuple(makespan for _, makespan in runs)
    weights = [scenario.weight for scenario in instance.scenarios]
    active = [any(tokens) for tokens in zip(*(s.tokens for s in instance.scenarios), strict=True)]
    solution = Solution(
        instance=instance.name,
        resident=tuple(held and on for held, on in zip(decision.resident, active, strict=True)),
        dimm=tuple(dimm if on else None for dimm, on in zip(decision.dimm, active, strict=True)),
        assignment=tuple(
            tuple(domains.get(number) for number in range(instance.experts)) for domains, _ in runs
        ),
    )
    total = sum(weight * makespan for weight, makespan in zip(weights, makespans, strict=True))
    return ExecutedLayout(solution, makespans, total)


def run(instance: Instance, decision: Solution, schedule: Schedule) -> int:
    """Return what a layout costs on the scenarios of `instance`; see `execute_layout`."""
    return execute_layout(instance, decision, schedule).objective_ns


def adopted(instance: Instance, decision: Solution, schedule: Schedule) -> Solution:
    """Return a layout with schedules for the scenarios of `instance`; see `execute_layout`."""
    return execute_layout(instance, decision, schedule).solution
