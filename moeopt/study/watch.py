"""Who is told how a campaign goes on."""

from moeopt.problems.objective import Objective
from moeopt.solvers.result import Result
from moeopt.study.attempt import Failure
from moeopt.study.plan import Job


class Watch:
    """Told of everything that happens in a campaign; does nothing, but raises at a failure.

    A subclass that overrides `failed` lets the campaign go on after a failure.
    """

    def planned(self, total: int, stored: int) -> None:
        """Hear how many solves there are, and how many of them the store has already."""

    def started(self, job: Job) -> None:
        """Hear that a solve has been handed out."""

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Hear of a running solve's incumbent and bound."""

    def solved(self, job: Job, result: Result) -> None:
        """Hear of a result; it is in the store."""

    def failed(self, job: Job, failure: Failure) -> None:
        """Hear of a solve without a result."""
        raise failure.error()

    def skipped(self, job: Job) -> None:
        """Hear of a solve that another process has stored meanwhile."""

    def interrupted(self) -> None:
        """Hear of Ctrl-C."""
