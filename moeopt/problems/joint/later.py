"""A joint plan decided on some steps, executed on others."""

from moeopt.core.errors import InputError
from moeopt.core.problem import Run, Schedule
from moeopt.problems.joint.lagrangian.arrays import Arrays, cost, plan_of

from .check import objective, violations
from .instance import Instance, Solution


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a plan costs on the steps of `instance`, dispatched anew; caches start empty.

    The quality budget does not bind here: what experts are used for later was not known. On the
    steps that it was decided on, a plan may keep the dispatch that it has.

    Parameters
    ----------
    instance
        Steps of the same model on the same machine.
    decision
        A solution for these steps, or for others: which experts it keeps off the GPU in those is
        not used.
    schedule
        Not used: the experts that are better on the CPU go there, in each layer that defers
        nothing.

    Raises
    ------
    InputError
        If the decision is for another shape, or does not fit into the memory.
    """
    del schedule
    moved = decision.model_copy(update={"instance": instance.name, "swapped": ()})
    roomy = instance.model_copy(update={"max_loss": None})
    if wrong := violations(roomy, moved):
        raise InputError(f"{wrong[0][0]}: {wrong[0][1]}")
    anew = cost(Arrays.of(instance), plan_of(instance, moved)).total_ns
    if decision.instance != instance.name or violations(roomy, decision):
        return Run(anew)
    return Run(min(anew, objective(roomy, decision)))
