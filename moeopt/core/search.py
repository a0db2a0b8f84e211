"""What a problem's own exact algorithm works with: the clock, and the place to report to."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from moeopt.core.clock import SolvingClock, solving_clock
from moeopt.core.objective import Objective, below


class Feasibility(IntEnum):
    """The answer to a feasibility subproblem; integers, so that compiled kernels return them.

    INFEASIBLE is a refutation: a proof that there is no solution. UNKNOWN means that the work
    allowed did not decide it, and refutes nothing.
    """

    INFEASIBLE = 0
    FEASIBLE = 1
    UNKNOWN = 2


def _ignore(objective: Objective | None, bound: Objective | None) -> None:
    """Report to nobody."""


@dataclass(frozen=True)
class Refutation:
    """What CP-SAT says has no solution.

    Attributes
    ----------
    model
        A `CpModel`, as it was asked.
    least
        There is no solution with a lower objective; None: there is none at all.
    """

    model: Any
    least: int | None


_recorded: ContextVar[list[Refutation] | None] = ContextVar("recorded", default=None)


@contextmanager
def recording(refutations: list[Refutation]) -> Iterator[None]:
    """Enter what CP-SAT refutes meanwhile, in this thread, in a list."""
    token = _recorded.set(refutations)
    try:
        yield
    finally:
        _recorded.reset(token)


def record(refutation: Callable[[], Refutation]) -> None:
    """Make the entry of a refutation, where there is a list for it."""
    refutations = _recorded.get()
    if refutations is not None:
        refutations.append(refutation())


@dataclass
class Search:
    """One run of an exact algorithm: what it may use, and the best it has found and proven so far.

    An algorithm reports each improvement at once, so that nothing is lost when the time is up. It
    asks `stopped` at least every 50 ms or so and returns when told.

    Attributes
    ----------
    limit_s
        What the algorithm may take, counted from the making of this object by the clock of its
        thread: seconds without those of compiling, or units of work (`moeopt.core.clock`).
    seed, workers
        For whatever draws random numbers or runs in parallel.
    enough_gap
        Relative gap at which the answer is good enough: more work of unknown length is not begun.
    on_improvement
        Called with (objective, bound) at each improvement.
    solution, objective
        The incumbent; None if there is none.
    bound, own_bound
        The best lower bound, and the best one into which no answer of CP-SAT has entered; None if
        there is none.
    refutations
        What CP-SAT has refuted so far; `prove` takes every later bound to rest on it.
    infeasible
        Whether it is proven that there is no solution.
    enough
        Whether the gap that is left is small and not worth more time: `ExactMethod.then` is not
        tried.
    note
        The algorithm's own word on how it ended, for `Result.raw_status`.
    """

    limit_s: float = 60.0
    seed: int = 0
    workers: int = 1
    enough_gap: float = 0.0
    on_improvement: Callable[[Objective | None, Objective | None], None] = _ignore
    solution: Any = None
    objective: Objective | None = None
    bound: Objective | None = None
    own_bound: Objective | None = None
    refutations: list[Refutation] = field(default_factory=list)
    infeasible: bool = False
    enough: bool = False
    note: str = ""
    clock: SolvingClock = field(default_factory=solving_clock, repr=False)
    _begin: float = field(init=False, repr=False)
    _told_to_stop: bool = field(default=False, init=False, repr=False)

    def __post_init__(self) -> None:
        self._begin = self.clock.now()

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative; 0 after `stop`."""
        if self._told_to_stop:
            return 0.0
        return max(0.0, self.limit_s - (self.clock.now() - self._begin))

    @property
    def stopped(self) -> bool:
        """Whether the time is up or somebody asked to stop."""
        return self.remaining_s == 0

    @property
    def closed(self) -> bool:
        """Whether the incumbent is proven optimal, or that there is none."""
        return self.infeasible or (self.objective is not None and self.objective == self.bound)

    def stop(self) -> None:
        """Ask the algorithm to return, from any thread."""
        self._told_to_stop = True

    def offer(self, solution: Any, objective: Objective) -> None:
        """Report a solution and its objective; it is kept if it is better than the incumbent."""
        if self.objective is None or below(objective, self.objective):
            self.solution, self.objective = solution, objective
            self.on_improvement(objective, None)

    def prove(self, bound: Objective) -> None:
        """Report a proven lower bound; it is kept if it is higher than the one known."""
        if not self.refutations and (self.own_bound is None or below(self.own_bound, bound)):
            self.own_bound = bound
        if self.bound is None or below(self.bound, bound):
            self.bound = bound
            self.on_improvement(None, bound)

    def prove_incumbent(self) -> None:
        """Report that nothing is better than the incumbent."""
        if self.objective is None:
            raise ValueError("there is no incumbent to prove optimal")
        self.prove(self.objective)
