"""What a campaign is doing now: the solves that run, with their incumbents and bounds."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any

from moeopt.core.objective import Objective, first_key
from moeopt.solvers.result import Result
from moeopt.study.attempt import Failure
from moeopt.study.execute import Watch
from moeopt.study.plan import Job, Key


@dataclass(frozen=True)
class Running:
    """One solve that was started; `objective` and `bound` are None until they are known."""

    instance: str
    method: str
    began: float
    objective: Objective | None = None
    bound: Objective | None = None


class Live(Watch):
    """Keeps what runs for readers in other threads, and tells another watch everything.

    Parameters
    ----------
    other
        What is told besides, e.g. the progress on a terminal.
    """

    def __init__(self, other: Watch) -> None:
        self._other = other
        self._lock = threading.Lock()
        self._running: dict[Key, Running] = {}
        self._total = self._stored = self._ended = self._failed = 0
        self._began = monotonic()

    def snapshot(self) -> dict[str, Any]:
        """Return numbers and running solves, to be written as JSON."""
        now = monotonic()
        with self._lock:
            running = list(self._running.values())
            counts = {
                "total": self._total,
                "done": self._stored + self._ended,
                "failed": self._failed,
                "seconds": now - self._began,
            }
        solves = [
            {
                "instance": one.instance,
                "method": one.method,
                "seconds": now - one.began,
                "objective": _first(one.objective),
                "bound": _first(one.bound),
            }
            for one in running
        ]
        return counts | {"running": solves}

    def planned(self, total: int, stored: int) -> None:
        """Start counting."""
        with self._lock:
            self._total, self._stored, self._began = total, stored, monotonic()
        self._other.planned(total, stored)

    def spared(self, solves: int, doubts: Sequence[str]) -> None:
        """Pass it on."""
        self._other.spared(solves, doubts)

    def started(self, job: Job) -> None:
        """Keep the solve until it ends."""
        with self._lock:
            self._running[job.key] = Running(job.instance.name, job.key.method, monotonic())
        self._other.started(job)

    def improved(
        self, job: Job, seconds: float, objective: Objective | None, bound: Objective | None
    ) -> None:
        """Keep its incumbent and bound."""
        with self._lock:
            if (one := self._running.get(job.key)) is not None:
                self._running[job.key] = replace(one, objective=objective, bound=bound)
        self._other.improved(job, seconds, objective, bound)

    def solved(self, job: Job, result: Result) -> None:
        """Count it."""
        self._end(job)
        self._other.solved(job, result)

    def failed(self, job: Job, failure: Failure) -> None:
        """Count it."""
        with self._lock:
            self._failed += 1
        self._end(job)
        self._other.failed(job, failure)

    def skipped(self, job: Job) -> None:
        """Count it."""
        self._end(job)
        self._other.skipped(job)

    def interrupted(self) -> None:
        """Pass it on."""
        self._other.interrupted()

    def _end(self, job: Job) -> None:
        with self._lock:
            self._running.pop(job.key, None)
            self._ended += 1


def _first(objective: Objective | None) -> int | None:
    return None if objective is None else first_key(objective)
