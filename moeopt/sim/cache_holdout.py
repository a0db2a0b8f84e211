"""Ways decided on one part of a trace, run on another."""

from moeopt.errors import InputError
from moeopt.problems.cache.check import objective, violations
from moeopt.problems.cache.instance import Instance
from moeopt.problems.cache.solution import Solution


def held_out_ns(instance: Instance, decision: Solution) -> int:
    """Return the time in ns of a trace with ways that were decided on another one.

    Parameters
    ----------
    instance
        Another part of the trace, for the same model and as many slots. Its caches start empty.
    decision
        A solution for the first part.

    Raises
    ------
    InputError
        If the decision is for another number of layers, or needs more slots.
    """
    moved = decision.model_copy(update={"instance": instance.name})
    if wrong := violations(instance, moved):
        raise InputError(f"{wrong[0][0]}: {wrong[0][1]}")
    return objective(instance, moved)
