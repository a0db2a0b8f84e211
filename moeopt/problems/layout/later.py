"""Later windows: a layout executed on them, one by one and together."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.problem import EXACT, Run, Schedule
from moeopt.problems.tri_domain.fixed_layout import scheduled

from .instance import MAX_SCENARIOS, Instance, Solution
from .paths import STRIPED
from .systems import Layout, on_layout, with_runs


@dataclass(frozen=True)
class ExecutedLayout:
    """A layout run on the scenarios of an instance.

    Attributes
    ----------
    solution
        Valid for that instance; experts without tokens in it keep their layout.
    makespans_ns
        Of each scenario.
    objective_ns
        Their sum, weighted.
    unproven
        How many scenarios' exact schedules are not proven the best; 0 if somebody else scheduled.
    """

    solution: Solution
    makespans_ns: tuple[int, ...]
    objective_ns: int
    unproven: int


def execute_layout(
    instance: Instance, decision: Solution, schedule: Schedule = EXACT
) -> ExecutedLayout:
    """Run a layout that was decided on other windows of the same layer.

    On the windows that it was decided on, this is its in-sample value under `schedule`.

    Parameters
    ----------
    instance
        The windows to run: generated with a ``first_window`` after those of the decision.
    decision
        A solution for the earlier windows; only its layout is used. An expert that had no tokens
        then is striped, unless the decision says otherwise.
    schedule
        Decides what runs where, in each window for itself: "exact", "trimoe" or a function of a
        tri_domain instance. A layout tuned to the one can be far worse under another.

    Raises
    ------
    InputError
        If the decision is for another number of experts, or uses a DIMM that is not there; or if
        there is no such schedule.
    """
    if len(decision.resident) != instance.experts:
        raise InputError(
            f"decision: must have {instance.experts} experts, not {len(decision.resident)}"
        )
    further = [dimm for dimms in decision.copies or () for dimm in dimms]
    if any(dimm is not None and dimm >= instance.dimms for dimm in (*decision.dimm, *further)):
        raise InputError(f"decision: dimm: must be below {instance.dimms}")
    if further and instance.copies is None:
        raise InputError("decision: copies: the windows to run permit one copy of each expert")
    layout = _layout_of(decision)
    runs = [
        scheduled(on_layout(instance, layout, number), schedule, instance.gpu_base_ns or 0)
        for number in range(len(instance.scenarios))
    ]
    of_copies = [{i: (at, run.sources[i]) for i, at in run.domains.items()} for run in runs]
    place = (decision.resident, decision.dimm, decision.copies)
    pairs = zip(instance.scenarios, runs, strict=True)
    return ExecutedLayout(
        with_runs(instance, *place, of_copies),
        tuple(run.makespan_ns for run in runs),
        sum(scenario.weight * run.makespan_ns for scenario, run in pairs),
        sum(not run.proven for run in runs) if schedule == EXACT else 0,
    )


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a layout costs on the scenarios of `instance`; see `execute_layout`."""
    executed = execute_layout(instance, decision, schedule)
    return Run(executed.objective_ns, executed.unproven)


def windows_of(instance: Instance) -> list[Instance]:
    """Return every scenario that has tokens as an instance of its own, with its weight."""
    found = [
        instance.model_copy(update={"name": f"{instance.name[:180]} [{n}]", "scenarios": (one,)})
        for n, one in enumerate(instance.scenarios)
        if any(one.tokens)
    ]
    return found if len(instance.scenarios) > 1 else [instance]


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all scenarios: a layout costs there what it does in all together."""
    scenarios = [scenario for one in instances for scenario in one.scenarios]
    if len(scenarios) > MAX_SCENARIOS:
        raise InputError(f"{len(scenarios)} windows are more than {MAX_SCENARIOS}")
    change = {"scenarios": tuple(scenarios), "forecast_tokens": None, "provenance": None}
    return instances[0].model_copy(update=change)


def _layout_of(solution: Solution) -> Layout:
    dimm = [STRIPED if at is None else at for at in solution.dimm]
    return Layout(np.array(solution.resident), np.array(dimm), solution.copies or ())
