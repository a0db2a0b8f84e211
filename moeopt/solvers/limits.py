"""The limit: one clock for building and solving."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moeopt.core.clock import WorkClock, solving_clock

POLL_S = 0.001


class TimeLimitError(Exception):
    """Raised inside a method to abandon the work when the limit has passed."""


class Deadline:
    """A limit that begins at construction: seconds, or units of work where a work clock runs.

    `limit` and `remaining_s` are in the clock's unit, `elapsed_s` and `compile_s` in seconds.
    """

    def __init__(self, limit: float) -> None:
        self.clock = solving_clock()
        self.limit = limit
        self._begin = self.clock.now()
        self._begin_s = self.clock.seconds()
        self._compiled_s = self.clock.compile_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self.clock.seconds() - self._begin_s

    @property
    def compile_s(self) -> float:
        """Seconds since the start in which the clock stood still: for compiling kernels."""
        return self.clock.compile_s - self._compiled_s

    @property
    def remaining_s(self) -> float:
        """What is left of the limit, never negative."""
        return max(0.0, self.limit - (self.clock.now() - self._begin))

    @property
    def counts_work(self) -> bool:
        """Whether the limit is one of work."""
        return isinstance(self.clock, WorkClock)

    @property
    def work(self) -> float | None:
        """Units of work since the start; None where the clock counts none."""
        return self.clock.units - self._begin if isinstance(self.clock, WorkClock) else None

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let `moeopt.core.clock.out_of_time` go by this limit meanwhile."""
        before = self.clock.until
        self.clock.until = min(before, self._begin + self.limit)
        try:
            yield
        finally:
            self.clock.until = before

    def checkpoint(self) -> None:
        """Raise `TimeLimitError` if the limit has passed."""
        if self.remaining_s == 0:
            raise TimeLimitError


@contextmanager
def abandoned_at(deadline: Deadline) -> Iterator[None]:
    """Raise `TimeLimitError` in this thread when the limit passes, wherever it is then.

    For building models, which is Python that knows no clock, and whose rest is of no use. Native
    code is not interrupted: the error comes when it returns.
    """
    deadline.checkpoint()
    if deadline.clock.seconds_for(0.0) == float("inf"):  # no limit of seconds
        yield
        return
    thread, lock, ended, late = threading.get_ident(), threading.Lock(), threading.Event(), []

    def watch() -> None:
        clock, begin_s = deadline.clock, deadline.clock.seconds()
        limit_s = clock.seconds_for(deadline.remaining_s)
        left_s = limit_s
        while not ended.wait(max(left_s, POLL_S)):  # the clock may have stood still
            left_s = limit_s - (clock.seconds() - begin_s)
            with lock:
                if not ended.is_set() and left_s <= 0:
                    late.append(True)
                    _raise_in(thread)
                    return

    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        with lock:
            ended.set()
        for _ in range(100 * len(late)):  # the error comes at a step of a loop: not after this one
            pass


def _raise_in(thread: int) -> None:
    """Let another thread raise `TimeLimitError` at its next step in Python."""
    error = ctypes.py_object(TimeLimitError)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), error)
