"""Solves on this machine's cores: processes that a crash of one of them does not end.

A process is a child of `moeopt.solvers.process`, which Ctrl-C never reaches and which ends with
this one. A thread for each waits for its answers.
"""

from math import inf
from queue import SimpleQueue
from threading import Thread
from typing import Any

from moeopt.core.cores import available_cores
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import of_json
from moeopt.solvers.process import (
    Answering,
    Process,
    ProcessEndedError,
    Words,
    serve_pipes,
    tell,
)
from moeopt.study.attempt import News, Watch, as_asked, attempt_telling, failed
from moeopt.study.plan import Job
from moeopt.study.record import SolveRecord, from_row, to_row
from moeopt.study.store import packed_instance, unpacked_instance

STOP_S = 5.0
"""How long a thread may take to notice that its process was ended."""

QUICK_S = 0.1
"""Solves are quick if they take less at the mean of the last few."""

Told = SolveRecord | News | Exception
"""What a thread says of a solve: its end, an incumbent or bound, or what must end the campaign."""


class Pool:
    """Processes, each with a thread that gives it one solve after the other.

    A process that dies is reported as the end of its solve and replaced; one that dies without a
    solve is only replaced. Where solves are quick, a few are taken in advance, so that no process
    waits while the last result is stored.

    Parameters
    ----------
    jobs
        The number of processes.
    watch
        Told of incumbents and bounds.
    """

    def __init__(self, jobs: int, watch: Watch) -> None:
        self._watch = watch
        self._mean_s = inf
        self._todo: SimpleQueue[Job | None] = SimpleQueue()
        self._told: SimpleQueue[tuple[Job, Told]] = SimpleQueue()
        self._workers = [Worker(self._todo, self._told) for _ in range(jobs)]

    @property
    def slots(self) -> int:
        """How many solves are taken at once."""
        return len(self._workers) * (2 if self._mean_s < QUICK_S else 1)

    def submit(self, job: Job) -> None:
        """Give a job to the process that is idle first."""
        self._todo.put(job)

    def completed(self) -> tuple[Job, SolveRecord]:
        """Wait for a result, or for the death of a process that has a job.

        Raises
        ------
        InputError
            If processes do not even start, or a job cannot be sent.
        """
        while True:
            job, told = self._told.get()
            if isinstance(told, SolveRecord):
                self._note(told)
                return job, told
            if isinstance(told, Exception):
                raise told
            self._watch.improved(job, *told)

    def close(self) -> None:
        """End all processes, whatever they do."""
        for _ in self._workers:
            self._todo.put(None)
        for worker in self._workers:
            worker.close()

    def _note(self, record: SolveRecord) -> None:
        """Learn how long solves take."""
        if not record.failed:
            seconds = record.build_s + record.solve_s + (record.compile_s or 0)
            known = self._mean_s if self._mean_s < inf else seconds
            self._mean_s = known + (seconds - known) / 8


class Worker:
    """A thread and its process.

    Attributes
    ----------
    job
        What it is at; None while it waits.
    process
        None until the first job.
    """

    def __init__(
        self, todo: "SimpleQueue[Job | None]", told: "SimpleQueue[tuple[Job, Told]]"
    ) -> None:
        self.job: Job | None = None
        self.process: Process | None = None
        self._todo, self._told = todo, told
        self._has: InstanceEnvelope | None = None
        self._closed = False
        self._thread = Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the process, and the thread after it."""
        self._closed = True
        if self.process is not None:
            self.process.running.kill()
        self._thread.join(STOP_S)
        if self.process is not None:
            self.process.end()

    def _work(self) -> None:
        while (job := self._todo.get()) is not None and not self._closed:
            self.job = job
            try:
                told: Told = self._solved(job)
            except Exception as error:  # the campaign ends with it, in the main thread
                told = error
            self.job = None
            self._told.put((job, told))

    def _solved(self, job: Job) -> SolveRecord:
        """Have the process make a solve; it keeps the instance for the next one."""
        process = self._started()
        payload = b"" if self._has is job.instance else packed_instance(job.instance)
        words = {"problem": job.instance.problem, "asked": as_asked(job)}
        self._has = job.instance
        try:
            answer = process.ask(words, payload, on_news=lambda news: self._hear(job, *news))
        except ProcessEndedError as error:
            return failed(job, "died", str(error))
        if answer is None:
            raise TypeError("no limit, and late")
        return from_row(answer["row"])

    def _started(self) -> Process:
        if self.process is None or not self.process.alive:
            self._has = None
            if self.process is not None:
                self.process.end()
            try:
                self.process = Process(__name__)
            except ProcessEndedError as error:
                raise InputError(f"jobs: a process does not start: {error}") from None
        return self.process

    def _hear(self, job: Job, seconds: float, objective: Any, bound: Any) -> None:
        self._told.put((job, (seconds, of_json(objective), of_json(bound))))


def answering() -> Answering:
    """Return what makes the solves in a process; an instance that came before is not sent again."""
    instance: InstanceEnvelope | None = None

    def answer(request: Words, payload: bytes) -> Words:
        nonlocal instance
        if payload:
            instance = unpacked_instance(request["problem"], payload)
        if instance is None:
            raise ValueError("the first solve came without its instance")
        job = Job(instance, **request["asked"])
        return {"row": to_row(attempt_telling(job, lambda *news: tell(news)))}

    return answer


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


if __name__ == "__main__":
    serve_pipes(answering(), prints=True)
