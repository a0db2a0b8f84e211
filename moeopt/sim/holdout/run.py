"""A decision of any problem that sees loads, run on others of the same shape.

A problem whose decisions do not stay just as they are on other loads has a module of its name here,
with ``run(instance, decision, schedule) -> Run``, ``adopted(instance, decision, schedule)``, which
returns a solution, and ``IS_SCHEDULED = True`` if a schedule is made anew.
"""

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from warnings import warn

from moeopt.errors import InputError, MoeoptWarning
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.sim.fixed_layout import EXACT, Schedule, schedule_name
from moeopt.sim.holdout.executed import Run
from moeopt.sim.holdout.unchanged import unchanged


def run_on(
    instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule = EXACT
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
        Who schedules it: "exact", the best schedule there is; "trimoe", TriMoE's rule (4.2); or a
        function of a tri_domain instance that returns its solution. Problems without a schedule
        take no notice. A layout tuned to the one can be far worse under the other.

    Raises
    ------
    InputError
        If nothing of the problem's decisions outlasts the loads they were made on, or the two
        instances have different shapes.

    Warns
    -----
    MoeoptWarning
        If an exact schedule is not proven the best within its effort.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/layout/esft-first-later"
    >>> first = moeopt.load(f"{folder}/law-layer4-window0.json")
    >>> next_window = moeopt.load(f"{folder}/law-layer4-window1.json")
    >>> decision = moeopt.solve(first).solution
    >>> moeopt.run_on(next_window, decision), moeopt.run_on(next_window, decision, "trimoe")
    (3717120, 5028216)
    """
    run = executed_on(instance, decision, schedule)
    if run.unproven:
        warn(f"{instance.name}: {run.unproven_in_words}", MoeoptWarning, stacklevel=2)
    return run.objective


def executed_on(instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule) -> Run:
    """Return what `run_on` does, and how much of it is proven."""
    schedule_name(schedule)
    if instance.problem != decision.problem:
        raise InputError(f"decision: must be for {instance.problem}, not {decision.problem}")
    if get_problem(instance.problem).info.holdout is None:
        raise InputError(f"{instance.problem}: a decision is made anew for all loads")
    module = _module(instance.problem)
    if module is None:
        checker = get_problem(instance.problem).part("check")
        return Run(checker.objective(instance, unchanged(instance, decision)))
    run: Run = module.run(instance, decision, schedule)
    return run


def adopted(
    instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule = EXACT
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
    module = _module(instance.problem)
    if module is None:
        return unchanged(instance, decision)
    solution: SolutionEnvelope = module.adopted(instance, decision, schedule)
    return solution


def is_scheduled(problem: str) -> bool:
    """Tell whether what a problem's decision costs depends on who schedules it."""
    return bool(getattr(_module(problem), "IS_SCHEDULED", False))


def _module(problem: str) -> ModuleType | None:
    """Return the module of a problem whose decisions do not stay just as they are."""
    name = f"{__package__}.{problem}"
    return None if find_spec(name) is None else import_module(name)
