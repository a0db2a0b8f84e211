"""The time limit: one clock for building and solving."""

from time import perf_counter


class TimeLimitError(Exception):
    """Raised inside a method to abandon the work when the limit has passed."""


class Deadline:
    """A clock that started at construction and ends after `limit_s` seconds."""

    def __init__(self, limit_s: float) -> None:
        self.start = perf_counter()
        self.limit_s = limit_s

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return perf_counter() - self.start

    @property
    def remaining_s(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.limit_s - self.elapsed_s)

    def checkpoint(self) -> None:
        """Raise `TimeLimitError` if the limit has passed."""
        if self.elapsed_s >= self.limit_s:
            raise TimeLimitError
