"""What a method is given, and what it gives back."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.logs import logger_of
from moeopt.core.objective import Objective, Packing
from moeopt.core.problem import Engine, ExactMethod
from moeopt.core.search import Refutation
from moeopt.problems.registry import AnyProblem
from moeopt.solvers.evidence import Claim, Proof
from moeopt.solvers.limits import Deadline
from moeopt.solvers.result import Termination
from moeopt.solvers.rules import Rule

if TYPE_CHECKING:
    from moeopt.core.formulation import Formulation

logger = logger_of(__name__)

Progress = Callable[[float, Objective | None, Objective | None], None]
"""Called with (seconds, objective, bound) at each improvement, possibly from another thread."""


@dataclass
class Trace:
    """The history of incumbent and bound; remembers the best of each. Objectives are packed."""

    deadline: Deadline
    on_progress: Progress | None = None
    packing: Packing = field(default_factory=Packing)
    points: list[tuple[float, int | None, int | None]] = field(default_factory=list)

    @property
    def bound(self) -> int | None:
        """The best bound recorded, None if there is none."""
        return self.points[-1][2] if self.points else None

    def record(self, objective: int | None = None, bound: int | None = None) -> None:
        """Note an incumbent or a bound; nothing is added where neither improves."""
        _, best, proven = self.points[-1] if self.points else (0.0, None, None)
        if objective is None or (best is not None and best <= objective):
            objective = best
        if bound is None or (proven is not None and proven >= bound):
            bound = proven
        if (objective, bound) != (best, proven):
            self.points.append((self.deadline.elapsed_s, objective, bound))
            if self.on_progress:
                self.on_progress(*self.unpacked()[-1])

    def close(self, objective: int | None, bound: int | None) -> None:
        """End the history with what stands: bounds that did not stand are taken out."""
        most = bound if objective is None else objective
        self.points = [
            (seconds, best, None if low is None or most is None or low > most else low)
            for seconds, best, low in self.points
        ]
        self.record(objective, bound)

    def unpacked(self) -> list[tuple[float, Objective | None, Objective | None]]:
        """Return the history with objectives as the problem states them."""
        unpack = self.packing.unpack
        return [
            (seconds, None if best is None else unpack(best), None if low is None else unpack(low))
            for seconds, best, low in self.points
        ]


MODELS = ("cpsat", "milp")
"""The backends that hand a model to a solver, and can leave constraints out."""


@dataclass(frozen=True)
class Method:
    """Way to solve a problem: its name, what it can promise, and the backend that runs it.

    Attributes
    ----------
    backend
        What of `moeopt.solvers.backends` runs it.
    model
        The kind of model that the backend builds, where it builds one.
    own
        The problem's own algorithm, where it is one.
    then
        The exact method that goes on from what this one leaves open; None if there is none.
    rule
        The user's rule that it is, if it is one.
    assumed
        Assumptions that a heuristic is to take, other than its defaults.
    """

    name: str
    kind: Literal["heuristic", "exact"]
    backend: str
    model: Engine | None = None
    own: ExactMethod | None = None
    then: str | None = None
    rule: Rule | None = None
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def warm_starts(self) -> bool:
        """Whether it is handed a starting solution and a bound; others look for their own."""
        return self.backend in MODELS


@dataclass
class Task:
    """One instance to solve, and everything a method may use for it.

    `lower`, `upper` and `start`
    are what is known beforehand: a bound that the package computed, and a solution with its
    objective. They are None where nothing is known or the method is to work without help.
    Objectives are packed, here and in outcomes: `packing` says how. `again` runs another method, by
    whatever solver that takes. The method has `deadline`, verification what is left until `end`.
    """

    problem: AnyProblem
    instance: InstanceEnvelope
    method: Method
    deadline: Deadline
    trace: Trace
    seed: int
    workers: int
    engine: str | None
    without: frozenset[str]
    again: Callable[["Task"], "Outcome"]
    end: Deadline
    verify: bool = True
    enough_gap: float = 0.0
    lower: int | None = None
    upper: int | None = None
    start: SolutionEnvelope | None = None
    prepares_late: bool = False

    @property
    def packing(self) -> Packing:
        """How this problem's objectives become one integer."""
        return self.trace.packing

    def checked_objective(self, solution: SolutionEnvelope) -> int:
        """Return the checker's objective of a solution, packed."""
        return self.packing.pack(self.problem.objective(self.instance, solution))

    def prepare(self) -> None:
        """Look for a starting solution and a combinatorial bound.

        Raises
        ------
        TimeLimitError
            If the limit passes meanwhile.
        """
        logger.info("%s: starting heuristic starts", self.instance.name)
        with self.deadline.told():
            try:
                self.deadline.checkpoint()
                self.start, self.upper = self._start()
                if not self.without:  # a rule left out can lower the optimum below the bound
                    self.deadline.checkpoint()
                    self.lower = self._combinatorial_bound()
            finally:
                self.trace.record(self.upper, self.lower)
                self._log_start()

    def _log_start(self) -> None:
        values = self.upper, self.lower
        known = [None if value is None else self.packing.unpack(value) for value in values]
        told = "%s: starting heuristic ends: objective %s, combinatorial bound %s"
        logger.info(told, self.instance.name, *known)

    def _start(self) -> tuple[SolutionEnvelope | None, int | None]:
        """Return the heuristic's solution and its objective, if it is one."""
        start = self.problem.start(self.instance)
        if start is None or self.problem.violations(self.instance, start):
            return None, None
        return start, self.checked_objective(start)

    def _combinatorial_bound(self) -> int:
        bound = self.problem.bound(self.instance)
        return self.up_to_grid(self.packing.pack(bound))

    def model(self) -> "Formulation":
        """Return the method's model of the instance, all posted and started from what is known.

        Raises
        ------
        TimeLimitError
            If the limit passes meanwhile.
        """
        if self.method.model is None:
            raise TypeError(f"{self.method.name} builds no model")
        self.deadline.checkpoint()
        built = self.problem.model(self.instance, self.method.model)
        built.post(self.without, self.deadline.checkpoint)
        if self.start is not None:
            built.start_from(self.start, self.upper)
        return built

    def up_to_grid(self, bound: int) -> int:
        """Round a bound up to the next number that an objective can be."""
        return -(-bound // self.grid) * self.grid

    @property
    def grid(self) -> int:
        """A number of which every objective, packed, is a multiple."""
        return self.problem.grid(self.instance)


@dataclass
class Outcome:
    """A method's claim, not yet checked.

    Attributes
    ----------
    solution, claim
        The best solution and the objective the method claims for it; None if it claims none.
    tolerance
        How far `claim` may be off because the method computes in floats; 0 for exact ones.
    bound, own_bound
        The lower bound that the method claims, and the best one that rests on no engine's word.
    proven
        What the method claims to have proven.
    by, parameters
        The engine on whose word `bound`, or the proof that there is no solution, rests, and how it
        was asked; None if the package itself computed every step.
    counts
        Whether that word is one of the two that confirm each other: not where an engine's tolerance
        is too wide for the numbers.
    refutations
        The answers of CP-SAT, inside a method of the problem's own, that its bound rests on.
    proof, claims
        What verification found: see `moeopt.solvers.verification`.
    went_on_with
        The exact method that went on from what this one left open; None if none did.
    """

    solution: SolutionEnvelope | None
    raw_status: str
    termination: Termination = "completed"
    claim: int | None = None
    tolerance: int = 0
    bound: int | None = None
    own_bound: int | None = None
    proven: Literal["optimal", "infeasible"] | None = None
    by: str | None = None
    parameters: str = ""
    counts: bool = True
    refutations: list[Refutation] = field(default_factory=list)
    proof: Proof | None = None
    claims: list[Claim] = field(default_factory=list)
    build_s: float = 0.0
    solve_s: float = 0.0
    engine: str | None = None
    went_on_with: str | None = None
