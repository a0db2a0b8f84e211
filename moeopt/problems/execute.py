"""Executing a solution of any problem, and comparing with its checker."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.problems.registry import get_problem
from moeopt.sim.engine.core import Engine
from moeopt.sim.engine.resource import Resource
from moeopt.sim.engine.timeline import Timeline


@dataclass(frozen=True)
class Executed:
    """A solution as it ran: the timeline, and the objective as measured on it.

    Attributes
    ----------
    numbers
        What tasks are numbered by: "expert", or "layer" where tasks are whole layers'.
    weights
        How often each bundle of the timeline counts in the objective; None: once each. Those that
        do not count once lie between two tasks that everything else is before or after.
    """

    timeline: Timeline
    objective: Any
    numbers: str = "expert"
    weights: tuple[int, ...] | None = None


BETWEEN = Resource("between windows", capacity=None)
"""Where the tasks without length are that stand between windows."""


class Windows:
    """Parts of a schedule that run one after the other and count differently in the objective.

    Parameters
    ----------
    engine
        What they are added to. Without the resource `BETWEEN` there is one window only.

    Attributes
    ----------
    before
        What the tasks of the next window depend on.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.before: tuple[int, ...] = ()
        self._weights: list[int] = []
        self._clock = 0

    @property
    def weights(self) -> tuple[int, ...]:
        """How often each bundle counts, for `Executed`."""
        return tuple(self._weights)

    def end(self, weight: int, label: str) -> int:
        """Run what was added since the last window; return its weight times its length in ns."""
        added = range(len(self._weights), len(self.engine))
        self._weights += [weight] * len(added)
        self.engine.run()
        last = max((self.engine.finish_ns(bundle) for bundle in added), default=self._clock)
        length, self._clock = last - self._clock, last
        if added and BETWEEN in self.engine.resources:
            end = self.engine.add(BETWEEN.name, 0, after=added, kind="all done", label=label)
            self.engine.run()
            self._weights.append(1)
            self.before = (end,)
        return weight * length


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
    checked(instance, solution)
    executed = execute(instance, solution)
    judged = get_problem(instance.problem).part("check").objective(instance, solution)
    return Comparison(executed.timeline, executed.objective, judged)


def checked(instance: InstanceEnvelope, solution: SolutionEnvelope) -> None:
    """Raise an `InputError` if a solution is not one, not of this instance or not valid."""
    hint = " (moeopt.load reads a file)" if isinstance(instance, str | Path) else ""
    expect("instance", instance, InstanceEnvelope, what=f"an instance{hint}")
    expect("solution", solution, SolutionEnvelope, what="a solution")
    for field, theirs, ours in (
        ("problem", solution.problem, instance.problem),
        ("instance", solution.instance, instance.name),
    ):
        if theirs != ours:
            raise InputError(f"{field}: the solution is for {theirs!r}, not for {ours!r}")
    if wrong := get_problem(instance.problem).part("check").violations(instance, solution):
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
    if not problem.has("execute"):
        reason = problem.info.absent.get("executor", "there is no executor")
        raise InputError(f"problem: {instance.problem} cannot be executed: {reason}")
    executed: Executed = problem.part("execute").execute(instance, solution)
    return executed
