"""The limit: one clock for building and solving. Ctrl-C keeps the best so far."""

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar

from moeopt.core.clock import TimeLimitError, WorkClock, go_by_mine, solving_clock, told

from .arguments import Limits

T = TypeVar("T")

POLL_S = 0.05
GRACE_S = 2.0
"""How long a solver may take to come to an end after Ctrl-C."""

LATE_SHARE, LATE_S = 0.04, 0.1
"""And after its limit: this part of it, or so many seconds if they are more."""


def allowance_s(limit_s: float) -> float:
    """Return how long after its limit somebody may still hand over what is ready."""
    return max(LATE_SHARE * limit_s, LATE_S)


@dataclass
class Interruptible(Generic[T]):
    """What became of a call: its value if it ended, and whether Ctrl-C was pressed."""

    value: T | None = None
    error: BaseException | None = None
    ended: bool = False
    interrupted: bool = False


def run_interruptible(
    call: Callable[[], T], stop: Callable[[], None], limit_s: float
) -> Interruptible[T]:
    """Run `call` in a thread and wait for it; at Ctrl-C run `stop` and wait a little longer.

    Solvers hold the main thread inside native code, where Python cannot act on Ctrl-C; from a
    second thread they can be stopped. One that does not stop within `GRACE_S`, or is too late after
    `limit_s` (HiGHS and CP-SAT sometimes are), is told to `stop` and left behind: `ended` is False
    then and `value` is None. The limit is one of the solving clock, the grace after Ctrl-C of any.

    Raises
    ------
    KeyboardInterrupt
        At a second Ctrl-C.
    BaseException
        Whatever `call` raised before it was told to stop.
    """
    run: Interruptible[T] = Interruptible()
    ended, clock, go_by = threading.Event(), solving_clock(), go_by_mine()

    def target() -> None:
        go_by()
        try:
            run.value = call()
        except BaseException as error:  # handed over to the waiting thread
            run.error = error
        ended.set()

    threading.Thread(target=target, daemon=True).start()
    seconds = clock.seconds_for(limit_s)  # a work clock is not to be looked at from here
    late, give_up = clock.seconds() + seconds + allowance_s(seconds), float("inf")
    while not ended.is_set() and clock.seconds() < late and monotonic() < give_up:
        try:
            ended.wait(min(POLL_S, max(late - clock.seconds(), 0.001)))
        except KeyboardInterrupt:
            if run.interrupted:
                raise
            run.interrupted = True
            give_up = monotonic() + GRACE_S
            stop()
    if not ended.is_set():
        stop()
        return Interruptible(interrupted=run.interrupted)  # what it still does is for nobody
    if run.error is not None and run.interrupted:  # it was stopped, and says so in its way
        return Interruptible(interrupted=True)
    if run.error is not None:
        raise run.error
    run.ended = True
    return run


def run_here(call: Callable[[], T], stop: Callable[[], None]) -> Interruptible[T]:
    """Run `call` in this thread; Ctrl-C ends it wherever it is, and `stop` is run.

    For calls that soon come back to Python, where Ctrl-C is acted on, and look at the clock: a
    thread of their own, 0.1 ms and more on a busy machine, would take longer than many of them.
    """
    run: Interruptible[T] = Interruptible(ended=True)
    try:
        run.value = call()
    except KeyboardInterrupt:
        run.interrupted = True
        stop()
    return run


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

    def told(self, gives_up: bool = False) -> AbstractContextManager[None]:
        """Let `moeopt.core.clock.out_of_time`, and `checkpoint`, go by this limit meanwhile."""
        return told(self._begin + self.limit, gives_up)

    def left(self, share: float = 1.0) -> Limits:
        """Return what a solve within may take: one of so many parts of what is left."""
        left = max(self.remaining_s / share, 1e-9)  # a limit must be positive
        seconds = max(self.clock.seconds_for(left), 1e-9)
        return Limits(seconds, left if self.counts_work else None)

    def checkpoint(self) -> None:
        """Raise `TimeLimitError` if the limit has passed."""
        if self.remaining_s == 0:
            raise TimeLimitError


def within(deadline: Deadline, call: Callable[[], T]) -> T:
    """Return what `call` returns, or give it up when the limit passes.

    For what knows no clock, such as the Python that builds models. It runs in a thread; nothing is
    thrown into it. One that is late is left behind and ends at its next checkpoint, if it has any.
    Where only work is limited it runs to its end, here.

    Raises
    ------
    TimeLimitError
        If it did not end in time.
    KeyboardInterrupt
        At Ctrl-C, once it has ended or `moeopt.solvers.limits.GRACE_S` have passed.
    """
    deadline.checkpoint()
    remaining = deadline.remaining_s
    if deadline.clock.seconds_for(remaining) == float("inf"):
        return call()
    running = run_interruptible(call, lambda: None, remaining)
    if running.interrupted:
        raise KeyboardInterrupt
    if not running.ended:
        raise TimeLimitError
    value: T = running.value  # type: ignore[assignment]  # it has ended
    return value
