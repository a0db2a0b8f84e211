"""A decision of any problem that sees loads, run on others of the same shape.

A problem whose decisions do not stay just as they are on other loads has a module of its name here,
with ``run(instance, decision, schedule)``.
"""

from importlib import import_module
from importlib.util import find_spec

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.problems.tri_domain.heuristics import trimoe
from moeopt.sim.fixed_layout import Schedule
from moeopt.sim.holdout.unchanged import unchanged


def adopted(
    instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule
) -> SolutionEnvelope:
    """Return a decision as a solution of other loads than those it was made on.

    Parameters
    ----------
    instance, decision, schedule
        As for `run_on`.

    Raises
    ------
    InputError
        As for `run_on`.
    """
    module = f"{__package__}.{instance.problem}"
    if find_spec(module) is None:
        return unchanged(instance, decision)
    solution: SolutionEnvelope = import_module(module).adopted(instance, decision, schedule)
    return solution


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
    if get_problem(instance.problem).info.holdout is None:
        raise InputError(f"{instance.problem}: a decision is made anew for all loads")
    module = f"{__package__}.{instance.problem}"
    if find_spec(module) is None:
        solution = unchanged(instance, decision)
        cost: Objective = get_problem(instance.problem).part("check").objective(instance, solution)
        return cost
    objective: Objective = import_module(module).run(instance, decision, schedule)
    return objective
