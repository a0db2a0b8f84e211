"""One solve of a campaign, wherever it runs: a result with its facts, or what went wrong.

Solves are handed out here or to an executor, and whoever watches is told how it goes on.

What an instance's provenance says of it as evidence: whose loads, and which readings.

Two instances from one layer of one trace are two looks at one thing, however their batches are cut.
So tables count *cells* beside instances: a layer of a trace, or a draw of a law (model, seed and
layer), or a machine and a model where no loads take part. Intervals are bootstrapped over
*clusters*: traces, and cells of laws. Provenance is untrusted: what is not understood makes an
instance a cell of its own.
"""

import json
import os
import platform
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Literal, Protocol

from moeopt.core.assumptions import split_name
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import (
    ContradictionError,
    HeuristicError,
    InputError,
    LimitError,
    MoeoptError,
)
from moeopt.core.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers.result import Result, failed_result
from moeopt.solvers.rules import Rule, load_rule
from moeopt.solvers.run import solve
from moeopt.solvers.task import Progress

from .campaign import repeats
from .plan import Job, Key, version

DEFAULTS = ""
"""What `origin` says of an instance that is made under every assumption's default."""

NO_LOADS = "none: "
"""How the name of a trace begins that is none."""

LAW = "workload "
"""How the name of a trace begins that is drawn by a law, and that of its cells."""


def origin(instance: InstanceEnvelope) -> dict[str, str]:
    """Return ``cell``, ``cluster`` and ``settled``; ``repeats`` where it repeats another one.

    ``settled`` are the assumptions of instances that are not at their default, ``name=value``.
    ``batch`` is there where the instance has one: rules change places over it.
    """
    provenance = instance.provenance or {}
    options = provenance.get("options")
    options = options if isinstance(options, Mapping) else {}
    cell, cluster = place(instance.name, provenance)
    original = repeats(instance)
    again = {} if original is None else {"repeats": original}
    assumed = _assumed(instance.problem, options)
    batch = options.get("batch")
    sizes = {"batch": str(batch)} if isinstance(batch, int) else {}
    return {"cell": cell, "cluster": cluster, "settled": assumed} | sizes | again


def place(instance: str, provenance: Mapping[str, object]) -> tuple[str, str]:
    """Return the cell and the cluster of an instance, by its name and its provenance."""
    options = provenance.get("options")
    options = options if isinstance(options, Mapping) else {}
    model = provenance.get("same_experiment_as", provenance.get("model"))
    trace = provenance.get("trace")
    if not isinstance(model, str):
        return instance, instance
    name = trace.get("name") if isinstance(trace, Mapping) else None
    layer = options.get("layer")
    where = f" layer {layer}" if isinstance(layer, int) else ""
    if not isinstance(trace, Mapping) or not isinstance(name, str) or name.startswith(NO_LOADS):
        cell = f"{model} on {provenance.get('machine')}"
        return cell, cell
    if "workload" in trace:
        cell = f"{name} {model} seed {provenance.get('seed')}{where}"
        return cell, cell
    return f"{name}{where}", name


def _assumed(problem: str, options: Mapping[str, object]) -> str:
    if not options:
        return DEFAULTS
    readings = [one for one in get_problem(problem).assumptions() if not one.is_setting]
    values = {one.name: one.not_default(options) for one in readings}
    return ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)


Facts = dict[str, str | int]

_ONE_AT_A_TIME = Lock()
"""Dask may run several tasks in one process; the clock wants the process for itself."""


@dataclass(frozen=True)
class Solved:
    """A result, and what else is kept of the solve.

    Attributes
    ----------
    facts
        What the problem's view says about the solution, e.g. the bottleneck; of a heuristic, which
        information it decided by, `knew`; and the instance's `moeopt.study.attempt.origin`.
    machine
        Processor, cores and system of the machine that solved it: times mean little without.
    """

    result: Result
    facts: Facts = field(default_factory=dict)
    machine: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True)
class Failure:
    """Why a solve has no result.

    `kind` is "input" (an option or a size that the method refuses), "rule" (a rule of one's own
    that raises, or returns no solution of the instance), "mismatch" (a bug in a model), "crash"
    (any other exception; `detail` has the traceback) or "died" (the process ended).
    """

    kind: Literal["input", "rule", "mismatch", "crash", "died"]
    message: str
    detail: str = ""

    def error(self) -> MoeoptError:
        """Return the error that stands for it."""
        kinds: dict[str, type[MoeoptError]] = {
            "input": InputError,
            "rule": HeuristicError,
            "mismatch": ContradictionError,
            "crash": ContradictionError,
            "died": LimitError,
        }
        return kinds[self.kind](self.message)


Ended = Solved | Failure
"""How a solve ends."""


def failed_solve(problem: str, instance: str, key: Key, failure: Failure) -> Solved:
    """Return what stands for a failure among results: nothing but its status and its reason."""
    known = (problem, instance), key.method, key.seed, key.workers
    return Solved(failed_result(*known, failure.message))


def attempt(job: Job, on_progress: Progress | None = None) -> Ended:
    """Make one solve; errors are returned, so that the campaign can go on."""
    key = job.key
    if key.version != version():  # a worker of a cluster has its own installation
        return Failure("input", f"the worker has moeopt {version()}, the campaign {key.version}")
    try:
        rule = _rule(job)
        with _ONE_AT_A_TIME:
            result = solve(
                job.instance,
                key.method if rule is None else rule,
                time_limit_s=key.time_limit_s or None,
                seed=key.seed,
                workers=key.workers,
                on_progress=on_progress,
                **json.loads(key.options),
            )
        result = replace(result, method=key.method)
        return Solved(result, _facts(job, result), machine())
    except HeuristicError as error:
        return _of_heuristic(job, error)
    except InputError as error:
        return Failure("input", str(error))
    except ContradictionError as error:
        return Failure("mismatch", str(error))
    except Exception as error:  # a bug in one method must not end a campaign of hours
        return _crash(error)


def _rule(job: Job) -> Rule | None:
    """Return the job's rule, as it was when the campaign began.

    Raises
    ------
    InputError
        If this process has it otherwise, or cannot load it.
    """
    if not isinstance(job.rule, str):
        return job.rule
    expected = job.key.source_sha256
    rule = _loaded.get(job.rule)
    if rule is None or rule.source_sha256 != expected:
        rule = _loaded[job.rule] = load_rule(job.rule)
    if rule.source_sha256 != expected:
        raise InputError(f"{job.rule}: is not what it was when the campaign began")
    return rule


_loaded: dict[str, Rule] = {}
"""The rules that this process has loaded for others."""


def _facts(job: Job, result: Result) -> Facts:
    if result.solution is None:
        return {}
    problem = get_problem(result.problem)
    facts: Facts = dict(problem.facts(job.instance, result.solution))
    facts |= origin(job.instance)
    if (knew := problem.information(result.method, job.instance)) is not None:
        facts["knew"] = knew
    return facts


def _of_heuristic(job: Job, error: HeuristicError) -> Failure:
    """Return a heuristic's failure; that one of the problem's own raises is a bug of ours."""
    known = get_problem(job.instance.problem).known_heuristic(split_name(job.key.method)[0])
    cause = error.__cause__
    if job.rule is not None or known is None or cause is None:
        return Failure("rule", error.reason)
    return _crash(cause)


def _crash(error: BaseException) -> Failure:
    text = f"{type(error).__name__}: {error}"
    return Failure("crash", text, "".join(traceback.format_exception(error)))


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


def attempt_telling(job: Job, send: Progress) -> Ended:
    """Make one solve; news of it go out now and then, and never after its end."""
    news = NowAndThen(send)
    ended = attempt(job, news)
    with news.sending:
        news.over = True
    return ended


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
