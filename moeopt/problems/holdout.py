"""A decision of any problem that sees loads, run on other loads of the same shape."""

from collections.abc import Sequence
from warnings import warn

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, MoeoptWarning, expect
from moeopt.core.objective import Objective
from moeopt.core.problem import EXACT, Run, Schedule
from moeopt.core.wording import shown
from moeopt.problems.files import InstanceLike, SolutionLike, as_instance, as_solution
from moeopt.problems.registry import PROBLEMS, get_problem


def run_on(instance: InstanceLike, decision: SolutionLike, schedule: Schedule = EXACT) -> Objective:
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

    Returns
    -------
    Objective
        In the problem's unit.

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
    instance, decision = as_instance(instance), as_solution(decision, "decision")
    run = executed_on(instance, decision, schedule)
    if run.unproven:
        warn(f"{instance.name}: {run.unproven_in_words}", MoeoptWarning, stacklevel=2)
    return run.objective


def executed_on(instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule) -> Run:
    """Return what `run_on` does, and how much of it is proven."""
    schedule_name(schedule)
    expect("instance", instance, InstanceEnvelope, what="an instance or its file")
    expect("decision", decision, SolutionEnvelope, what="a solution or its file")
    if instance.problem != decision.problem:
        raise InputError(
            f"must be for {instance.problem}, not {decision.problem}", field="decision"
        )
    problem = get_problem(instance.problem)
    if problem.holdout is None:
        raise InputError(f"{instance.problem}: a decision is made anew for all loads")
    return problem.later(instance, decision, schedule)


def schedule_name(schedule: Schedule) -> str:
    """Return the name of a scheduler in tables.

    Raises
    ------
    InputError
        If it is neither a scheduler of some problem nor a function.
    """
    if callable(schedule):
        return str(getattr(schedule, "__name__", type(schedule).__name__))
    known = dict.fromkeys(name for problem in PROBLEMS.values() for name in problem.schedulers)
    if not isinstance(schedule, str) or schedule not in known:
        names = ", ".join(known)
        raise InputError(f"must be {names} or a function, not {shown(schedule)}", field="schedule")
    return schedule


def joined(instances: Sequence[InstanceEnvelope]) -> InstanceEnvelope:
    """Return an instance in which a decision costs what it does in all of some together, or less.

    Its optimum is a lower bound of what any one decision costs in all of them.

    Raises
    ------
    InputError
        If there are several, and the problem has no such instance, or they do not fit together.
    """
    if len(instances) == 1:
        return instances[0]
    whole: InstanceEnvelope = get_problem(instances[0].problem).joined(instances)
    name = f"{instances[0].name[:150]} and {len(instances) - 1} more"
    return whole.model_copy(update={"name": name})
