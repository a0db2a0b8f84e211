"""The time limit: one clock for building and solving."""

from moeopt.numeric.clock import solving_clock


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

    def checkpoint(self) -> None:
        """Raise `TimeLimitError` if the limit has passed."""
        if self.elapsed_s >= self.limit_s:
            raise TimeLimitError
