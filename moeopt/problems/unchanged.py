"""Decisions that are used later just as they are: placements, ways of a cache, bit widths.

Of a placement with free dispatch that is what lives on the GPU: who computes it is decided anew.
"""

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.problems.registry import get_problem


def unchanged(instance: InstanceEnvelope, decision: SolutionEnvelope) -> SolutionEnvelope:
    """Return a decision as a solution of loads that it was not made on.

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
