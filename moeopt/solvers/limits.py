"""The time limit: one clock for building and solving."""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from moeopt.core.clock import solving_clock

POLL_S = 0.001


class TimeLimitError(Exception):
    """Raised inside a method to abandon the work when the limit has passed."""


class Deadline:
    """A time that begins at construction and ends after `limit_s` seconds of the solving clock."""

    def __init__(self, limit_s: float) -> None:
        self.clock = solving_clock()
        self.start = self.clock.now()
        self._compiled_s = self.clock.compile_s
        self.limit_s = limit_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return self.clock.now() - self.start

    @property
    def compile_s(self) -> float:
        """Seconds since the start in which the clock stood still: for compiling kernels."""
        return self.clock.compile_s - self._compiled_s

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.limit_s - self.elapsed_s)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Let `moeopt.core.clock.out_of_time` go by this limit meanwhile."""
        before = self.clock.until
        self.clock.until = min(before, self.start + self.limit_s)
        try:
            yield
        finally:
            self.clock.until = before

    def checkpoint(self) -> None:
        """Raise `TimeLimitError` if the limit has passed."""
        if self.elapsed_s >= self.limit_s:
            raise TimeLimitError


@contextmanager
def abandoned_at(deadline: Deadline) -> Iterator[None]:
    """Raise `TimeLimitError` in this thread when the limit passes, wherever it is then.

    For building models, which is Python that knows no clock, and whose rest is of no use. Native
    code is not interrupted: the error comes when it returns.
    """
    deadline.checkpoint()
    thread, lock, ended, late = threading.get_ident(), threading.Lock(), threading.Event(), []

    def watch() -> None:
        while not ended.wait(max(deadline.remaining_s, POLL_S)):  # the clock may have stood still
            with lock:
                if not ended.is_set() and deadline.remaining_s == 0:
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
