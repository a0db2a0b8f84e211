"""A decision of any problem that sees loads, run on others of the same shape."""

from collections.abc import Callable
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.sim.fixed_layout import Schedule
from moeopt.sim.holdout.layout import execute_layout
from moeopt.sim.holdout.relayout import execute
from moeopt.sim.holdout.unchanged import held_out_objective


def run_on(
    instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule = trimoe
) -> Objective:
    """Return what a decision costs on the loads of `instance`.

    Parameters
    ----------
    instance
        Loads of the same model on the same machine as those that were decided on, or just those.
    decision
        A solution of another instance of the problem. Of a layout or of migrations only those are
        used: what runs where is scheduled anew.
    schedule
        Schedules it.

    Raises
    ------
    InputError
        If nothing of the problem's decisions outlasts the loads they were made on, or the two
        instances have different shapes.
    """
    if instance.problem != decision.problem:
        raise InputError(f"decision: must be for {instance.problem}, not {decision.problem}")
    run = RUNS.get(instance.problem)
    if run is None:
        raise InputError(f"{instance.problem}: a decision is made anew for all loads")
    return run(instance, decision, schedule)


def _unchanged(instance: Any, decision: Any, _: Schedule) -> Objective:
    return held_out_objective(instance, decision)


def _layout(instance: Any, decision: Any, schedule: Schedule) -> Objective:
    return execute_layout(instance, decision, schedule).objective_ns


def _migrations(instance: Any, decision: Any, schedule: Schedule) -> Objective:
    return execute(instance, decision.migrations, schedule).makespan_ns


RUNS: dict[str, Callable[[Any, Any, Schedule], Objective]] = {
    "layout": _layout,
    "relayout": _migrations,
    "cache": _unchanged,
    "bitwidth": _unchanged,
    "placement": _unchanged,
}
"""Problem -> how its decisions are run on other loads."""
