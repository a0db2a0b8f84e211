"""Solves on this machine's cores: processes that a crash of one of them does not end."""

import os
import signal
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from moeopt.core.cores import available_cores
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.study.attempt import News, Watch, attempt_telling, failed
from moeopt.study.plan import Job
from moeopt.study.record import SolveRecord

Ready = None
"""The first message: the process is up."""

Message = SolveRecord | News | None

Asked = tuple[Job, InstanceEnvelope | None]
"""A solve as it is sent, and its instance unless that is the one that the process had last."""


def serve(connection: "Connection[Message, Asked]") -> None:
    """Solve what comes until the other end is closed.

    Ctrl-C and the end of the terminal are the parent's business. A process whose parent has gone
    ends at once.
    """
    for number in _of_the_terminal():
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(2, 1)  # what a solver prints is no result of ours
    connection.send(Ready)
    instance = None
    while True:
        try:
            sent, other = connection.recv()
        except EOFError:
            return
        instance = other or instance
        if instance is None:
            raise ValueError("the first solve came without its instance")
        job = replace(sent, instance=instance)
        try:
            connection.send(attempt_telling(job, lambda *news: connection.send(news)))
        except OSError:  # nobody listens any more
            return


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


NO_INSTANCE: Any = None
"""Stands in a job that is sent for the instance that the process has already."""

STOP_S = 1.0

QUICK_S = 0.1
"""Solves are quick if they take less at the mean of the last few."""


@dataclass
class _Worker:
    process: SpawnProcess
    connection: "Connection[Asked, Message]"
    ready: bool = False
    job: Job | None = None
    has: InstanceEnvelope | None = None


class Pool:
    """Spawned processes, each with a pipe of its own.

    A process that dies is reported as the end of its solve and replaced; one that dies without a
    solve is only replaced. Where solves are quick, a few are taken in advance, so that no process
    waits while the last result is stored.

    Parameters
    ----------
    jobs
        The number of processes.
    watch
        Told of incumbents and bounds.

    Raises
    ------
    InputError
        If processes do not even start.
    """

    def __init__(self, jobs: int, watch: Watch) -> None:
        self._watch = watch
        self._waiting: deque[Job] = deque()
        self._mean_s = inf
        self._context = get_context("spawn")
        self._workers = [self._start() for _ in range(jobs)]

    @property
    def slots(self) -> int:
        """How many solves are taken at once."""
        return len(self._workers) * (2 if self._mean_s < QUICK_S else 1)

    def submit(self, job: Job) -> None:
        """Give a job to an idle process, or let it wait for one."""
        number = next((i for i, worker in enumerate(self._workers) if worker.job is None), None)
        if number is None:
            self._waiting.append(job)
            return
        worker, sent = self._workers[number], job.portable()
        worker.job = job
        try:
            same = worker.has is job.instance
            bare = replace(sent, instance=NO_INSTANCE)
            worker.connection.send((bare, None if same else sent.instance))
            worker.has = job.instance
        except OSError:  # it died while it was idle
            self._replace(number)
            self.submit(job)

    def completed(self) -> tuple[Job, SolveRecord]:
        """Wait for a result, or for the death of a process that has a job."""
        while True:
            for number, message in self._messages():
                worker = self._workers[number]
                job = worker.job
                if isinstance(message, EOFError):
                    code = self._replace(number)
                    if job is not None:
                        self._next()
                        return job, failed(job, "died", _how(code))
                elif job is not None and isinstance(message, SolveRecord):
                    worker.job = None
                    self._note(message)
                    self._next()
                    return job, message
                elif message is None:
                    worker.ready = True
                elif job is not None and isinstance(message, tuple):
                    self._watch.improved(job, *message)

    def close(self) -> None:
        """End all processes; the busy ones are killed."""
        for worker in self._workers:
            if worker.job is not None:
                worker.process.kill()
            worker.connection.close()  # an idle one ends by itself
            worker.process.join(STOP_S)
            worker.process.kill()
            worker.process.join()

    def _next(self) -> None:
        """Start what waits, before the last result is looked at."""
        if self._waiting:
            self.submit(self._waiting.popleft())

    def _note(self, record: SolveRecord) -> None:
        """Learn how long solves take."""
        if not record.failed:
            seconds = record.build_s + record.solve_s + (record.compile_s or 0)
            known = self._mean_s if self._mean_s < inf else seconds
            self._mean_s = known + (seconds - known) / 8

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=serve, args=(theirs,), daemon=True)
        with _ctrl_c_held_back():
            process.start()
        theirs.close()  # so that the end of the process is the end of the pipe
        return _Worker(process, ours)

    def _messages(self) -> Iterator[tuple[int, Message | EOFError]]:
        """Wait, and yield one message of each process that has sent something, or its end."""
        numbers = {worker.connection: i for i, worker in enumerate(self._workers)}
        for connection in wait(list(numbers)):
            number = numbers[connection]  # type: ignore[index]
            try:
                yield number, self._workers[number].connection.recv()
            except (EOFError, OSError):
                yield number, EOFError()

    def _replace(self, number: int) -> int | None:
        """Put a new process in the place of a dead one and return its exit code."""
        worker = self._workers[number]
        worker.connection.close()
        worker.process.join(STOP_S)
        code = worker.process.exitcode
        worker.process.kill()
        worker.process.join()
        if not worker.ready:
            raise InputError(
                f"jobs: a worker process ended before it was ready (exit code {code}); a script "
                "that calls moeopt.gap(jobs=...) needs the guard `if __name__ == '__main__':`"
            )
        self._workers[number] = self._start()
        return code


@contextmanager
def _ctrl_c_held_back() -> Iterator[None]:
    """Start processes that Ctrl-C never reaches: a signal that is blocked at birth stays so."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows: they ignore it once they are up
        yield
        return
    resource_tracker.ensure_running()  # the first start would start it, and let Ctrl-C through
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _of_the_terminal())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _of_the_terminal() -> set[signal.Signals]:
    """Return the signals that a terminal sends to all processes of a command."""
    return {signal.SIGINT} | ({signal.SIGHUP} if hasattr(signal, "SIGHUP") else set())


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        return f"the worker process was killed by signal {-code}"
    return f"the worker process ended with exit code {code}"


def oversubscribed(jobs: int, workers: int) -> str | None:
    """Return a warning if solves at once need more cores than there are."""
    cores = available_cores()
    if jobs * workers <= cores:
        return None
    return (
        f"{jobs} job{'s' * (jobs > 1)} with {workers} worker{'s' * (workers > 1)} each need "
        f"{jobs * workers} cores, there are {cores}: solves take longer, and time limits cut in "
        "earlier"
    )
