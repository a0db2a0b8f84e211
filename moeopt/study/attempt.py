"""One solve of a campaign, wherever it runs, and who is told of it."""

import os
import platform
import threading
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Protocol

from moeopt.core.assumptions import split_name
from moeopt.core.errors import ContradictionError, HeuristicError, InputError
from moeopt.core.json_files import JsonObject
from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import Result
from moeopt.solvers.rules import Rule, load_rule
from moeopt.solvers.run import solve
from moeopt.solvers.task import Progress

from .plan import Job, our_version
from .record import FailureKind, SolveRecord, packed_solution

_ONE_AT_A_TIME = Lock()
"""Dask may run several tasks in one process; the clock wants the process for itself."""


def attempt(job: Job, on_progress: Progress | None = None) -> SolveRecord:
    """Make one solve; what goes wrong is returned as well, so that the campaign can go on."""
    if job.version != our_version():  # a worker of a cluster has its own installation
        said = f"the worker has moeopt {our_version()}, the campaign {job.version}"
        return failed(job, "input", said)
    try:
        rule = _rule(job)
        with _ONE_AT_A_TIME:
            result = solve(
                job.instance,
                job.method if rule is None else rule,
                time_limit_s=job.time_limit_s,
                work_limit=job.work_limit,
                seed=job.seed,
                workers=job.workers,
                on_progress=on_progress,
                **job.options,  # type: ignore[arg-type]
            )
        return record_of(job, result)
    except HeuristicError as error:
        return _of_heuristic(job, error)
    except InputError as error:
        return failed(job, "input", str(error))
    except ContradictionError as error:
        return failed(job, "mismatch", str(error))
    except Exception as error:  # a bug in one method must not end a campaign of hours
        return _crash(job, error)


def failed(job: Job, kind: FailureKind, message: str, detail: str = "") -> SolveRecord:
    """Return the record of a solve without a result."""
    said = {"failure": kind, "raw_status": message, "detail": detail, "finished": now()}
    return SolveRecord(**job.asked, status="failed", **said)  # type: ignore[arg-type]


def record_of(job: Job, result: Result) -> SolveRecord:
    """Return the record of a result."""
    same = {name: getattr(result, name) for name in RESULTS}
    return SolveRecord(
        **job.asked,
        **same,
        solution=packed_solution(result.solution),
        facts=_facts(job, result),
        machine=machine(),
        finished=now(),
    )


RESULTS = (
    *("engine", "status", "termination", "raw_status", "objective", "bound", "proof"),
    *("build_s", "solve_s", "compile_s", "work", "violations", "trace", "versions"),
)
"""The fields that a record takes from a result as they are."""


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def _rule(job: Job) -> Rule | None:
    """Return the job's rule, as it was when the campaign began.

    Raises
    ------
    InputError
        If this process has it otherwise, or cannot load it.
    """
    if not isinstance(job.rule, str):
        return job.rule
    expected = job.source_sha256
    rule = _loaded.get(job.rule)
    if rule is None or rule.source_sha256 != expected:
        rule = _loaded[job.rule] = load_rule(job.rule)
    if rule.source_sha256 != expected:
        raise InputError(f"{job.rule}: is not what it was when the campaign began")
    return rule


_loaded: dict[str, Rule] = {}
"""The rules that this process has loaded for others."""


def _facts(job: Job, result: Result) -> JsonObject:
    if result.solution is None:
        return {}
    problem = get_problem(result.problem)
    facts: JsonObject = dict(problem.facts(job.instance, result.solution))
    if (knew := problem.information(job.method, job.instance)) is not None:
        facts["knew"] = knew
    return facts


def _of_heuristic(job: Job, error: HeuristicError) -> SolveRecord:
    """Return a heuristic's failure; that one of the problem's own raises is a bug of ours."""
    known = get_problem(job.instance.problem).known_heuristic(split_name(job.method)[0])
    cause = error.__cause__
    if job.rule is not None or known is None or cause is None:
        return failed(job, "rule", error.reason)
    return _crash(job, cause)


def _crash(job: Job, error: BaseException) -> SolveRecord:
    text = f"{type(error).__name__}: {error}"
    return failed(job, "crash", text, "".join(traceback.format_exception(error)))


@cache
def machine() -> dict[str, str | int]:
    """Return what this machine is, without its name."""
    system = f"{platform.system()} {platform.machine()}"
    return {"processor": _processor(), "cores": os.cpu_count() or 1, "system": system}


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or "unknown"


News = tuple[float, Objective | None, Objective | None]
"""Seconds, incumbent and bound of a running solve."""

NEWS_EVERY_S = 0.2

QUIET_S = 0.003
"""How long a solve tells nothing at first."""


class Watch:
    """Told of everything that happens in a campaign; does nothing, but raises at a failure.

    A subclass that overrides `failed` lets the campaign go on after a failure; it goes on after a
    failure of a custom heuristic in any case.
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

    def solved(self, job: Job, record: SolveRecord) -> None:
        """Take a result; it is in the store."""

    def failed(self, job: Job, record: SolveRecord) -> None:
        """Take a solve without a result."""
        if record.failure != "rule":
            raise record.error()

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


def attempt_telling(job: Job, send: Progress) -> SolveRecord:
    """Make one solve; news of it go out now and then, and never after its end."""
    news = NowAndThen(send)
    record = attempt(job, news)
    with news.sending:
        news.over = True
    return record


Asked = dict[str, Any]
"""A solve as another process gets it: its fields as plain data, without the instance."""


def as_asked(job: Job) -> Asked:
    """Return a solve without objects of ours."""
    sent = job.portable()
    names = [one.name for one in fields(Job) if one.init and one.name != "instance"]
    return {name: getattr(sent, name) for name in names}


class Executor(Protocol):
    """Where solves are made."""

    @property
    def slots(self) -> int:
        """How many solves it makes at once."""

    def submit(self, job: Job) -> None:
        """Start a solve; only while fewer than `slots` are running."""

    def completed(self) -> tuple[Job, SolveRecord]:
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

    def completed(self) -> tuple[Job, SolveRecord]:
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
    on_end: Callable[[Job, SolveRecord], None],
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
