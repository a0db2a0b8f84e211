"""Types that `moeopt.core` gets in version 2.0: the base class of a problem, and errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, NamedTuple, TypeVar

from pydantic import BaseModel

from moeopt.core.formulation import Formulation
from moeopt.core.objective import Objective
from moeopt.core.problem import Phases, Run, Stretch
from moeopt.core.view import Changes, Difference, Lane

InstanceT = TypeVar("InstanceT", bound=BaseModel)
SolutionT = TypeVar("SolutionT", bound=BaseModel)

Information = Literal["none", "past loads", "current loads", "oracle"]

class Rule(NamedTuple):
    """Heuristic of a problem: where it is written, and what it may know."""

    name: str
    where: str
    information: Information
    note: str = ""
    needs: str | None = None
    coincides_with: str | None = None

class ExactMethod(NamedTuple):
    """Exact algorithm of a problem, and the method that goes on where it ends without proof."""

    name: str
    where: str
    then: str | None = None

class Violation(NamedTuple):
    """Broken constraint: its ID, and a sentence with the numbers."""

    constraint: str
    sentence: str

@dataclass(frozen=True)
class Executed:
    """Run of a solution in the event engine."""

    objective: Objective
    lanes: tuple[Lane, ...]

class Problem(Generic[InstanceT, SolutionT]):
    """Base class of a problem: data about it, and methods that import what they need."""

    name: ClassVar[str]
    title: ClassVar[str]
    paper: ClassVar[str]
    published: ClassVar[str]
    exact: ClassVar[tuple[ExactMethod, ...]]
    rules: ClassVar[tuple[Rule, ...]]
    restrictions: ClassVar[Mapping[str, object]]
    holdout: ClassVar[Stretch | Phases | None]
    absent: ClassVar[Mapping[str, str]]

    def Instance(self) -> type[InstanceT]: ...  # noqa: N802
    def Solution(self) -> type[SolutionT]: ...  # noqa: N802
    def violations(self, instance: InstanceT, solution: SolutionT) -> list[Violation]: ...
    def objective(self, instance: InstanceT, solution: SolutionT) -> Objective: ...
    def bound(self, instance: InstanceT) -> Objective: ...
    def grid(self, instance: InstanceT) -> int: ...
    def model(
        self, instance: InstanceT, engine: Literal["cp-sat", "milp"], without: Sequence[str] = ()
    ) -> Formulation: ...
    def generate(self, source: Any, options: Any) -> InstanceT: ...
    def assume(self, instance: InstanceT, name: str, value: str) -> InstanceT | None: ...
    def execute(self, instance: InstanceT, solution: SolutionT) -> Executed: ...
    def later(self, instance: InstanceT, solution: SolutionT, rule: str | None) -> Run: ...
    def facts(self, instance: InstanceT, solution: SolutionT) -> Mapping[str, str | int]: ...
    def differences(
        self, instance: InstanceT, ours: SolutionT, best: SolutionT
    ) -> Sequence[Difference]: ...
    def changes(self, instance: InstanceT, solution: SolutionT) -> Changes: ...
    def lanes(self, instance: InstanceT, solution: SolutionT) -> Sequence[Lane]: ...

class MoeoptError(Exception):
    """Base of every error that is meant for a user's eyes."""

    exit_code: ClassVar[int]

class InputError(MoeoptError):
    """Wrong file, field or option (exit code 2)."""

    where: str
    field: str
    reason: str
    suggestion: str | None

class HeuristicError(MoeoptError):
    """Failure inside a custom heuristic, which is kept as the cause (exit code 2)."""

class StoreError(MoeoptError):
    """Store of a campaign that cannot be read or written (exit code 2)."""

class InfeasibleError(MoeoptError):
    """Request for a plan where none exists (exit code 3)."""

class LimitError(MoeoptError):
    """Limit that ended before any solution was known (exit code 4)."""

class ContradictionError(MoeoptError):
    """Disagreement of claims of which none stands (exit code 5)."""
