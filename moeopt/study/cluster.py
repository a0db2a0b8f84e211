"""Solves on a Dask cluster: the same jobs, on whatever workers its scheduler has."""

import json
import logging
from concurrent.futures import CancelledError
from importlib import import_module
from itertools import count
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from moeopt.errors import InputError
from moeopt.study.attempt import Ended, Failure, attempt
from moeopt.study.execute import News, NowAndThen, Watch
from moeopt.study.plan import Job
from moeopt.study.store import frozen

REACH_S = 10
WORKERS_S = 30


class Cluster:
    """A Dask scheduler and its workers, each of which makes one solve at a time.

    A worker that dies is replaced by Dask, which gives its solve to another one; a solve that has
    killed several is reported. Incumbents and bounds come as events of a topic of its own.

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
                f"executor: {address}: needs Dask's distributed, the extra 'dask'"
            ) from None
        self._address = address
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # tracebacks at its end
        try:
            self._client = distributed.Client(target, timeout=REACH_S, set_as_default=False)
        except (OSError, TimeoutError):
            raise InputError(f"executor: {address}: no Dask scheduler answers there") from None
        try:
            self._client.wait_for_workers(1, timeout=WORKERS_S)
        except TimeoutError:
            self._client.close()
            raise InputError(f"executor: {address}: the scheduler has no workers") from None
        self._watch = watch
        self._running: dict[int, tuple[Job, Any]] = {}
        self._numbers = count()
        self._inbox: SimpleQueue[tuple[int, News | None]] = SimpleQueue()
        self._topic = f"moeopt-{uuid4().hex}"
        self._client.subscribe_topic(self._topic, self._hear)

    @property
    def slots(self) -> int:
        """The number of workers there are now."""
        try:
            return max(len(self._client.nthreads()), 1)
        except OSError:
            raise InputError(f"executor: {self._address}: the scheduler has gone") from None

    def submit(self, job: Job) -> None:
        """Send a job to the scheduler."""
        number = next(self._numbers)
        asked = (job.portable(), number, self._topic)
        future = self._client.submit(attempt_and_tell, *asked, pure=False)
        self._running[number] = job, future
        future.add_done_callback(lambda _: self._inbox.put((number, None)))

    def completed(self) -> tuple[Job, Ended]:
        """Wait for a result."""
        while True:
            number, news = self._inbox.get()
            if number not in self._running:  # news that came after the result
                continue
            if news is None:
                return self._end_of(number)
            self._watch.improved(self._running[number][0], *news)

    def close(self) -> None:
        """Give back what has not started; a worker finishes the solve it is making."""
        self._client.cancel([future for _, future in self._running.values()], force=True)
        self._client.close()

    def _end_of(self, number: int) -> tuple[Job, Ended]:
        job, future = self._running.pop(number)
        try:
            ended: Ended = future.result()
        except (Exception, CancelledError) as error:  # a dead worker, a lost scheduler
            return job, Failure("died", f"{type(error).__name__}: {error}")
        return job, ended

    def _hear(self, event: tuple[float, str]) -> None:
        """Take an event; called in Dask's own thread."""
        number, seconds, objective, bound = json.loads(event[1])
        self._inbox.put((number, (seconds, frozen(objective), frozen(bound))))


def attempt_and_tell(job: Job, number: int, topic: str) -> Ended:
    """Make one solve on a worker, which tells of incumbents and bounds.

    They go as text: the scheduler's own format has no integers beyond 64 bits.
    """
    worker: Any = import_module("distributed").get_worker()
    tell = NowAndThen(lambda *news: worker.log_event(topic, json.dumps([number, *news])))
    return attempt(job, tell)


def _target(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "dask" or not host or not port or parts.path.strip("/"):
        raise InputError(f"executor: must be dask://HOST:PORT, not {address!r}")
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
