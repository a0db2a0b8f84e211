"""A placement decided on some steps, used for others."""

from moeopt.errors import InputError
from moeopt.problems.placement.check import objective, violations
from moeopt.problems.placement.instance import Instance
from moeopt.problems.placement.solution import Solution


def held_out_ns(instance: Instance, decision: Solution) -> int:
    """Return the total time in ns of steps with a placement that was decided on others.

    Parameters
    ----------
    instance
        Other steps, for the same model and as many slots.
    decision
        A solution for the first ones.

    Raises
    ------
    InputError
        If the decision is for another shape, or breaks a rule of the instance.
    """
    moved = decision.model_copy(update={"instance": instance.name})
    if wrong := violations(instance, moved):
        raise InputError(f"{wrong[0][0]}: {wrong[0][1]}")
    return objective(instance, moved)
