"""Decisions that are used later just as they are: placements, ways of a cache, bit widths.

Of a placement with free dispatch that is what lives on the GPU: who computes it is decided anew.
"""

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem


def held_out_objective(instance: InstanceEnvelope, decision: SolutionEnvelope) -> Objective:
    """Return what a decision costs on loads that it was not decided on.

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
    checker = problem.part("check")
    adapted = getattr(problem.part("solution"), "for_other_steps", None)
    moved = decision.model_copy(update={"instance": instance.name})
    if adapted is not None:  # what is decided step by step is decided anew
        moved = adapted(instance, decision)
    if wrong := checker.violations(instance, moved):
        raise InputError(f"{wrong[0][0]}: {wrong[0][1]}")
    objective: Objective = checker.objective(instance, moved)
    return objective
