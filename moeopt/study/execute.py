"""Handing out solves, here or to an executor, and telling whoever watches how it goes on."""

import threading
from collections.abc import Callable, Iterable, Sequence
from time import monotonic
from typing import Protocol

from moeopt.core.objective import Objective
from moeopt.solvers.result import Result
from moeopt.solvers.task import Progress
from moeopt.study.attempt import Ended, Failure, attempt
from moeopt.study.plan import Job

News = tuple[float, Objective | None, Objective | None]
"""Seconds, incumbent and bound of a running solve."""

NEWS_EVERY_S = 0.2

QUIET_S = 0.003
"""How long a solve tells nothing at first."""


class Watch:
    """Told of everything that happens in a campaign; does nothing, but raises at a failure.

    A subclass that overrides `failed` lets the campaign go on after a failure; it goes on after a
    failure of a rule of one's own in any case.
    """

    def planned(self, total: int, stored: int) -> None:
        """Take note of how many solves there are, and how many of them the store has."""

    def spared(self, solves: int, doubts: Sequence[str]) -> None:
        """Take note of solves left out since libraries have the proof, and of wrong entries."""

    def started(self, job: Job) -> None:
        """Take note that a solve has been handed out."""

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Take a running solve's incumbent and bound."""

    def solved(self, job: Job, result: Result) -> None:
        """Take a result; it is in the store."""

    def failed(self, job: Job, failure: Failure) -> None:
        """Take a solve without a result."""
        if failure.kind != "rule":
            raise failure.error()

    def skipped(self, job: Job) -> None:
        """Take note of a solve that another process has stored meanwhile."""

    def interrupted(self) -> None:
        """Take note of Ctrl-C."""


class NowAndThen:
    """Passes on a solve's incumbents and bounds, but not more often than anybody can read.

    Solvers call from their own threads. Whoever holds `sending` is alone; after `over` nothing is
    passed on any more. Of solves that take next to no time there is no news but their end.
    """

    def __init__(self, send: Progress) -> None:
        self._send = send
        self._latest = monotonic() - NEWS_EVERY_S + QUIET_S
        self.sending = threading.Lock()
        self.over = False

    def __call__(
        self, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Pass on the news if the last ones are old enough."""
        with self.sending:
            if not self.over and monotonic() - self._latest >= NEWS_EVERY_S:
                self._latest = monotonic()
                self._send(seconds, objective, bound)


class Executor(Protocol):
    """Where solves are made."""

    @property
    def slots(self) -> int:
        """How many solves it makes at once."""

    def submit(self, job: Job) -> None:
        """Start a solve; only while fewer than `slots` are running."""

    def completed(self) -> tuple[Job, Ended]:
        """Wait for one of the running solves and return it."""

    def close(self) -> None:
        """Stop; what is still running is dropped."""


class Here:
    """Makes solves in this process, one after the other."""

    slots = 1

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._job: Job | None = None

    def submit(self, job: Job) -> None:
        """Note the job: it is solved when its result is asked for."""
        self._job = job

    def completed(self) -> tuple[Job, Ended]:
        """Solve the job."""
        job, self._job = self._job, None
        if job is None:
            raise ValueError("nothing was submitted")
        return job, attempt(job, lambda *news: self._watch.improved(job, *news))

    def close(self) -> None:
        """Do nothing."""


def execute(
    executor: Executor,
    jobs: Iterable[Job],
    on_start: Callable[[Job], None],
    on_end: Callable[[Job, Ended], None],
) -> None:
    """Make all solves, as many at once as the executor can, and tell of each start and end.

    `jobs` is read only as fast as solves are started.
    """
    running = 0
    for job in jobs:
        while running >= executor.slots:
            on_end(*executor.completed())
            running -= 1
        on_start(job)
        executor.submit(job)
        running += 1
    for _ in range(running):
        on_end(*executor.completed())
