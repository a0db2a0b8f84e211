"""Handing out solves: one at a time here, or several to whatever an executor has."""

from collections.abc import Callable, Iterable
from typing import Protocol

from moeopt.study.attempt import Ended, attempt
from moeopt.study.plan import Job
from moeopt.study.watch import Watch


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
