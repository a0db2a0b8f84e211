"""Solves on a Dask cluster: the same jobs, on whatever workers its scheduler has."""

import logging
from concurrent.futures import CancelledError
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from moeopt.errors import InputError
from moeopt.gap.attempt import Ended, Failure, attempt
from moeopt.gap.plan import Job

REACH_S = 10
WORKERS_S = 30


class Cluster:
    """A Dask scheduler and its workers, each of which makes one solve at a time.

    A worker that dies is replaced by Dask, which gives its solve to another one; a solve that has
    killed several is reported. Nothing is heard of incumbents before a solve ends.

    Parameters
    ----------
    address
        ``dask://HOST:PORT`` of the scheduler.

    Raises
    ------
    InputError
        If `distributed` is not installed, the address is wrong, or nobody answers.
    """

    def __init__(self, address: str) -> None:
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
        self._ended = distributed.as_completed(loop=self._client.loop)
        self._jobs: dict[str, Job] = {}

    @property
    def slots(self) -> int:
        """The number of workers there are now."""
        try:
            return max(len(self._client.nthreads()), 1)
        except OSError:
            raise InputError(f"executor: {self._address}: the scheduler has gone") from None

    def submit(self, job: Job) -> None:
        """Send a job to the scheduler."""
        future = self._client.submit(attempt, job, pure=False)
        self._jobs[future.key] = job
        self._ended.add(future)

    def completed(self) -> tuple[Job, Ended]:
        """Wait for a result."""
        future = next(self._ended)
        job = self._jobs.pop(future.key)
        try:
            ended: Ended = future.result()
        except (Exception, CancelledError) as error:  # a dead worker, a lost scheduler
            return job, Failure("died", f"{type(error).__name__}: {error}")
        return job, ended

    def close(self) -> None:
        """Give back what has not started; a worker finishes the solve it is making."""
        self._client.cancel(list(self._ended.futures), force=True)
        self._client.close()


def _target(address: str) -> str:
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port, parts = None, None, urlsplit("")
    if parts.scheme != "dask" or not host or not port or parts.path.strip("/"):
        raise InputError(f"executor: must be dask://HOST:PORT, not {address!r}")
    return f"tcp://{f'[{host}]' if ':' in host else host}:{port}"
