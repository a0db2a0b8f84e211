"""Solves on a Dask cluster: the same jobs, on whatever workers its scheduler has."""

import json
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError
from importlib import import_module
from itertools import count
from math import inf
from queue import SimpleQueue
from time import monotonic
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import of_json
from moeopt.core.untrusted import LONGEST_PLACE
from moeopt.core.wording import package, shortened
from moeopt.study.attempt import Asked, News, Watch, as_asked, attempt_telling, failed
from moeopt.study.plan import Job
from moeopt.study.record import SolveRecord
from moeopt.study.store import packed_instance, unpacked_instance

REACH_S = 10
WORKERS_S = 30


BATCH_S, BATCH = 1.0, 256
"""How long a task takes at most, but for its last solve; and most solves of a task."""

WORKERS_EVERY_S = 1.0
"""How often the scheduler is asked how many workers there are."""


class Cluster:
    """A Dask scheduler and its workers, each of which makes one solve at a time.

    Dask takes milliseconds for a task, so that a task is several solves: as many as take about a
    second. What a worker does not come to comes back and is sent again. A worker that dies is
    replaced by Dask, which gives its task to another one; where a task has killed several, its
    solves are sent one by one, and the one that does it again is reported. Incumbents and bounds
    come as events of a topic of its own.

    Parameters
    ----------
    address
        ``dask://HOST:PORT`` of the scheduler.
    watch
        Told of incumbents and bounds.

    Raises
    ------
    InputError
        If `distributed` is not installed, the address is wrong, or nobody answers.
    """

    def __init__(self, address: str, watch: Watch) -> None:
        target = _target(address)
        try:
            distributed: Any = import_module("distributed")
        except ModuleNotFoundError:
            raise InputError(
                f"executor: {address}: needs Dask's {package('distributed')}"
            ) from None
        self._address = address
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # tracebacks at its end
        try:
            self._client = distributed.Client(target, timeout=REACH_S, set_as_default=False)
        except (OSError, TimeoutError, UnicodeError):  # no name of a host
            raise InputError(f"executor: {address}: no Dask scheduler answers there") from None
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except TimeoutError:
            self._client.close()
            raise InputError(f"executor: {address}: the scheduler has no workers") from None
        self._watch = watch
        self._running: dict[int, tuple[list[Job], Any]] = {}
        self._waiting: deque[Job] = deque()
        self._alone: deque[Job] = deque()
        self._ended: deque[tuple[Job, SolveRecord]] = deque()
        self._size = 1
        self._workers, self._asked_at = 1, -inf
        self._numbers = count()
        self._inbox: SimpleQueue[tuple[int, int, News | None]] = SimpleQueue()
        self._topic = f"moeopt-{uuid4().hex}"
        self._client.subscribe_topic(self._topic, self._hear)

    @property
    def slots(self) -> int:
        """How many solves are taken at once: a task for each worker, and what the next ones need.

        Where a task is one long solve, none is taken in advance.
        """
        ahead = 1 if self._size == 1 else 2
        return ahead * self._size * self._count_workers()

    def submit(self, job: Job) -> None:
        """Take a job; it is sent as soon as a worker has nothing to do and a task is full."""
        self._waiting.append(job)
        if len(self._waiting) >= self._size:
            self._send()

    def completed(self) -> tuple[Job, SolveRecord]:
        """Wait for a result."""
        while not self._ended:
            self._send()
            number, at, news = self._inbox.get()
            if number not in self._running:  # news that came after the result
                continue
            if news is None:
                self._end(number)
            else:
                self._watch.improved(self._running[number][0][at], *news)
        self._send()
        return self._ended.popleft()

    def close(self) -> None:
        """Give back what has not started; a worker finishes the task it is at."""
        self._client.cancel([future for _, future in self._running.values()], force=True)
        self._client.close()

    def _count_workers(self) -> int:
        if monotonic() - self._asked_at > WORKERS_EVERY_S:
            try:
                self._workers = max(len(self._client.nthreads()), 1)
            except OSError:
                raise InputError(f"executor: {self._address}: the scheduler has gone") from None
            self._asked_at = monotonic()
        return self._workers

    def _send(self) -> None:
        """Send tasks to the scheduler until every worker has one."""
        while (self._alone or self._waiting) and len(self._running) < self._count_workers():
            if self._alone:
                jobs = [self._alone.popleft()]
            else:
                few = min(self._size, len(self._waiting))
                jobs = [self._waiting.popleft() for _ in range(few)]
            self._submit(next(self._numbers), jobs)

    def _submit(self, number: int, jobs: list[Job]) -> None:
        asked = (*as_sent(jobs), number, self._topic)
        future = self._client.submit(attempt_several, *asked, pure=False)
        self._running[number] = jobs, future
        future.add_done_callback(lambda _: self._inbox.put((number, 0, None)))

    def _end(self, number: int) -> None:
        """Take the results of a task, or what became of it."""
        jobs, future = self._running.pop(number)
        try:
            ended: list[SolveRecord] = future.result()
        except CancelledError as error:  # a lost scheduler
            self._ended.extend((job, _died(job, error)) for job in jobs)
        except Exception as error:  # a dead worker
            if len(jobs) == 1:
                self._ended.append((jobs[0], _died(jobs[0], error)))
            else:
                self._alone.extend(jobs)
        else:
            self._ended.extend(zip(jobs, ended, strict=False))
            self._waiting.extendleft(reversed(jobs[len(ended) :]))
            if len(ended) < len(jobs):
                self._size = max(len(ended), 1)
            elif len(jobs) == self._size:
                self._size = min(2 * self._size, BATCH)

    def _hear(self, event: tuple[float, str]) -> None:
        """Take an event; called in Dask's own thread."""
        number, at, seconds, objective, bound = json.loads(event[1])
        self._inbox.put((number, at, (seconds, of_json(objective), of_json(bound))))


def _died(job: Job, error: BaseException) -> SolveRecord:
    return failed(job, "died", f"{type(error).__name__}: {error}")


Packed = dict[str, tuple[str, bytes]]
"""Content hash -> problem and compressed JSON."""


def as_sent(jobs: Sequence[Job]) -> tuple[list[Asked], Packed]:
    """Return solves without objects of ours, each instance once.

    The scheduler unpacks the arguments of a task; as objects they would fill its memory.
    """
    asked: list[Asked] = []
    packed: Packed = {}
    for job in jobs:
        asked.append(as_asked(job))
        if job.instance_hash not in packed:
            packed[job.instance_hash] = job.instance.problem, packed_instance(job.instance)
    return asked, packed


def received(asked: Sequence[Asked], packed: Packed) -> Iterator[Job]:
    """Yield the solves again."""
    last: tuple[str, InstanceEnvelope] | None = None
    for values in asked:
        digest = values["instance_hash"]
        if last is None or last[0] != digest:
            last = digest, unpacked_instance(*packed[digest])
        yield Job(last[1], **values)


def attempt_several(
    asked: Sequence[Asked], packed: Packed, number: int, topic: str
) -> list[SolveRecord]:
    """Make solves on a worker, one after the other, until they have taken `BATCH_S`.

    Returns
    -------
    list
        How the first ones ended, at least one. The worker tells of incumbents and bounds meanwhile;
        they go as text: the scheduler's own format has no integers beyond 64 bits.
    """
    worker: Any = import_module("distributed").get_worker()
    until = monotonic() + BATCH_S
    ended: list[SolveRecord] = []
    for at, job in enumerate(received(asked, packed)):
        if ended and monotonic() > until:
            break

        def send(*news: object, at: int = at) -> None:
            worker.log_event(topic, json.dumps([number, at, *news]))

        ended.append(attempt_telling(job, send))
    return ended


def _target(address: str) -> str:
    try:
        parts = urlsplit(address[:LONGEST_PLACE])
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "dask" or not host or not port or parts.path.strip("/"):
        raise InputError(f"executor: must be dask://HOST:PORT, not {shortened(address)!r}")
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
