"""A decision of any problem that sees loads, run on others of the same shape.

What differs from problem to problem is in its `moeopt.core.problem.Later`.
"""

from collections.abc import Sequence
from typing import Any
from warnings import warn

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, MoeoptWarning
from moeopt.core.objective import Objective
from moeopt.core.problem import Later, Run
from moeopt.problems.registry import get_problem
from moeopt.problems.tri_domain.fixed_layout import EXACT, Schedule, schedule_name


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
    run = executed_on(instance, decision, schedule)
    if run.unproven:
        warn(f"{instance.name}: {run.unproven_in_words}", MoeoptWarning, stacklevel=2)
    return run.objective


def executed_on(instance: InstanceEnvelope, decision: SolutionEnvelope, schedule: Schedule) -> Run:
    """Return what `run_on` does, and how much of it is proven."""
    schedule_name(schedule)
    if instance.problem != decision.problem:
        raise InputError(f"decision: must be for {instance.problem}, not {decision.problem}")
    if get_problem(instance.problem).holdout is None:
        raise InputError(f"{instance.problem}: a decision is made anew for all loads")
    own = _later(instance.problem).run
    if own is None:
        checker = get_problem(instance.problem).check
        return Run(checker.objective(instance, unchanged(instance, decision)))
    run: Run = own(instance, decision, schedule)
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
    own = _later(instance.problem).adopted
    if own is None:
        return unchanged(instance, decision)
    solution: SolutionEnvelope = own(instance, decision, schedule)
    return solution


def windows_of(instance: InstanceEnvelope) -> list[InstanceEnvelope]:
    """Return the windows of an instance whose optima are of interest one by one, or just itself."""
    own = _later(instance.problem).windows_of
    return [instance] if own is None else own(instance)


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
    problem = instances[0].problem
    own = _later(problem).joined
    if own is None:
        raise InputError(f"{problem}: one later instance at most: several cannot be joined to one")
    try:
        whole: InstanceEnvelope = own(instances)
    except InputError as error:
        raise InputError(f"{problem}: later instances cannot be joined: {error}") from None
    name = f"{instances[0].name[:150]} and {len(instances) - 1} more"
    return whole.model_copy(update={"name": name})


def separated(instance: InstanceEnvelope, decision: SolutionEnvelope) -> SolutionEnvelope:
    """Return a decision on joined instances as one on an instance among them."""
    own = _later(instance.problem).separated
    return decision if own is None else own(instance, decision)


def is_scheduled(problem: str) -> bool:
    """Tell whether what a problem's decision costs depends on who schedules it."""
    return _later(problem).is_scheduled


def _later(problem: str) -> Later[Any, Any]:
    """Return how a problem's decisions are run later: just as they are, if it says nothing."""
    later = get_problem(problem).later
    return Later() if later is None else later()


def unchanged(instance: InstanceEnvelope, decision: SolutionEnvelope) -> SolutionEnvelope:
    """Return a decision that is used later just as it is as a solution of other loads.

    So are placements, ways of a cache, bit widths. Of a placement with free dispatch that is what
    lives on the GPU: who computes it is decided anew.

    Parameters
    ----------
    instance
        Other loads of the same model on the same machine: later steps for placement, a later part
        of the trace for cache (its caches start empty), decoded tokens for bitwidth.
    decision
        A solution for the first ones.

    Raises
    ------
    InputError
        If the decision is for another shape, or breaks a rule of the instance.
    """
    problem = get_problem(instance.problem)
    adapted = problem.later().unchanged if problem.later is not None else None
    moved = decision.model_copy(update={"instance": instance.name})
    if adapted is not None:  # what is decided step by step is decided anew
        moved = adapted(instance, decision)
    if wrong := problem.check.violations(instance, moved):
        raise InputError(f"{wrong[0][0]}: {wrong[0][1]}")
    return moved
