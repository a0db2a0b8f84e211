"""Executing a solution of any problem, and comparing with its checker."""

from dataclasses import dataclass

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope, check_pair
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.sim.engine.core import Executed
from moeopt.sim.engine.timeline import Timeline


@dataclass(frozen=True)
class Agreement:
    """A solution's objective as executed and as the problem's checker computes it."""

    timeline: Timeline
    measured: Objective
    judged: Objective

    @property
    def agree(self) -> bool:
        """Whether the two are the same."""
        return bool(self.measured == self.judged)


def compare(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Agreement:
    """Execute a solution and check it.

    Raises
    ------
    InputError
        If the solution is not one of this instance or not valid, or no executor for the problem
        exists.
    """
    checked(instance, solution)
    executed = execute(instance, solution)
    judged = get_problem(instance.problem).check.objective(instance, solution)
    return Agreement(executed.timeline, executed.objective, judged)


def checked(instance: InstanceEnvelope, solution: SolutionEnvelope) -> None:
    """Raise an `InputError` if a solution is not one, not of this instance or not valid."""
    check_pair(instance, solution)
    if wrong := get_problem(instance.problem).check.violations(instance, solution):
        constraint, sentence = wrong[0]
        raise InputError(f"{constraint}: {sentence}")


def execute(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Executed:
    """Execute a valid solution.

    Raises
    ------
    InputError
        If there is no executor for the problem.
    """
    problem = get_problem(instance.problem)
    if problem.executor is None:
        reason = problem.absent.get("executor", "there is no executor")
        raise InputError(f"problem: {instance.problem} cannot be executed: {reason}")
    executed: Executed = problem.executor()(instance, solution)
    return executed
