"""Resources and their queues: first come, first served."""

from dataclasses import dataclass
from heapq import heapreplace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError

Times = NDArray[np.int64]


@dataclass(frozen=True)
class Resource:
    """Something that tasks occupy: a device or a link.

    Parameters
    ----------
    name
        What error messages, tables and traces call it.
    capacity
        How many tasks it holds at a time; None if there is no limit (a pure delay).
    """

    name: str
    capacity: int | None = 1


class Queue(Protocol):
    """When tasks start that reach a resource in order of their ready times."""

    def place(self, ready_ns: int, duration_ns: int) -> int:
        """Return the start of a task that is ready now, and occupy the resource with it."""

    def place_many(self, ready_ns: int, duration_ns: Times) -> Times:
        """Return the starts of tasks that are ready together, in their order; shape (tasks,)."""


def queue_of(resource: Resource) -> Queue:
    """Return the empty queue of a resource.

    Raises
    ------
    InputError
        If the capacity is below 1.
    """
    if resource.capacity is None:
        return _Unlimited()
    if resource.capacity < 1:
        raise InputError(f"{resource.name}: capacity must be at least 1, not {resource.capacity}")
    return _Serial(resource) if resource.capacity == 1 else _Several(resource)


class _Serial:
    """One task at a time."""

    def __init__(self, resource: Resource) -> None:
        self.name = resource.name
        self.free_ns = 0
        self.last_ready_ns = 0

    def place(self, ready_ns: int, duration_ns: int) -> int:
        if ready_ns < self.last_ready_ns:
            raise InputError(_too_late(self.name, ready_ns, self.last_ready_ns))
        self.last_ready_ns = ready_ns
        start = self.free_ns if self.free_ns > ready_ns else ready_ns
        self.free_ns = start + duration_ns
        return start

    def place_many(self, ready_ns: int, duration_ns: Times) -> Times:
        first = self.place(ready_ns, 0)
        ends = duration_ns.cumsum()
        self.free_ns = first + int(ends[-1])
        return np.asarray(ends - duration_ns + first)


class _Several:
    """Up to `capacity` tasks at a time; a task takes the unit that is free first."""

    def __init__(self, resource: Resource) -> None:
        self.name = resource.name
        self.free_ns = [0] * (resource.capacity or 1)
        self.last_ready_ns = 0

    def place(self, ready_ns: int, duration_ns: int) -> int:
        if ready_ns < self.last_ready_ns:
            raise InputError(_too_late(self.name, ready_ns, self.last_ready_ns))
        self.last_ready_ns = ready_ns
        start = max(ready_ns, self.free_ns[0])
        heapreplace(self.free_ns, start + duration_ns)
        return start

    def place_many(self, ready_ns: int, duration_ns: Times) -> Times:
        return np.array([self.place(ready_ns, length) for length in duration_ns.tolist()])


class _Unlimited:
    """Any number of tasks at a time."""

    def place(self, ready_ns: int, duration_ns: int) -> int:
        return ready_ns

    def place_many(self, ready_ns: int, duration_ns: Times) -> Times:
        return np.full(len(duration_ns), ready_ns, dtype=np.int64)


def _too_late(name: str, ready_ns: int, last_ns: int) -> str:
    return (
        f"{name}: a task ready at {ready_ns} ns was added after one ready at {last_ns} ns had run"
    )
