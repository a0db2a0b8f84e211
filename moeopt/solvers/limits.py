"""The limit: one clock for building and solving."""

from contextlib import AbstractContextManager

from moeopt.core.clock import TimeLimitError, WorkClock, solving_clock, told

from .arguments import Limits

LATE_SHARE, LATE_S = 0.04, 0.1
"""A child may answer so late after its limit: this part of it, or so many seconds if more."""


def late_s(limit: float) -> float:
    """Return after how many seconds a child is late that may take `limit` by this thread's clock.

    Infinite where no time limit is set.
    """
    seconds = solving_clock().seconds_for(limit)
    return seconds + max(LATE_SHARE * seconds, LATE_S)


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
