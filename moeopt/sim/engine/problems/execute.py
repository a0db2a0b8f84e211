"""Executing a solution of any problem, and comparing with its checker."""

from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.registry import get_problem
from moeopt.sim.engine.timeline import Timeline


@dataclass(frozen=True)
class Executed:
    """A solution as it ran: the timeline, and the objective as measured on it."""

    timeline: Timeline
    objective: Any


@dataclass(frozen=True)
class Comparison:
    """A solution's objective as executed and as the problem's checker computes it."""

    timeline: Timeline
    measured: Any
    judged: Any

    @property
    def agree(self) -> bool:
        """Whether the two are the same."""
        return bool(self.measured == self.judged)


def compare(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Comparison:
    """Execute a solution and check it.

    Raises
    ------
    InputError
        If the solution is not one of this instance or not valid, or no executor for the problem
        exists.
    """
    for field, theirs, ours in (
        ("problem", solution.problem, instance.problem),
        ("instance", solution.instance, instance.name),
    ):
        if theirs != ours:
            raise InputError(f"{field}: the solution is for {theirs!r}, not for {ours!r}")
    problem = get_problem(instance.problem)
    checker = problem.part("check")
    if wrong := checker.violations(instance, solution):
        constraint, sentence = wrong[0]
        raise InputError(f"{constraint}: {sentence}")
    executed = execute(instance, solution)
    return Comparison(executed.timeline, executed.objective, checker.objective(instance, solution))


def execute(instance: InstanceEnvelope, solution: SolutionEnvelope) -> Executed:
    """Execute a valid solution.

    Raises
    ------
    InputError
        If there is no executor for the problem.
    """
    module = f"{__package__}.{instance.problem}"
    if find_spec(module) is None:
        raise InputError(f"problem: {instance.problem} cannot be executed yet")
    executed: Executed = import_module(module).execute(instance, solution)
    return executed
