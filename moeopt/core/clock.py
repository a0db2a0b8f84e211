"""The clock that limits and times go by: it stands still while kernels are compiled.

Compiling happens once per installation, and can take longer than the solve that needs it first. So
it neither counts as solving nor eats a limit; how long it took is told beside.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class SolvingClock:
    """Wall time less that in which any thread of one solve compiles, loads or awaits a kernel.

    Threads that a solve starts go by its clock: see `go_by`. Reading it takes no lock.

    Attributes
    ----------
    until
        When heuristics, which are given an instance and no limit, are to come to an end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiling = 0
        self._state: tuple[float, float | None] = 0.0, None  # seconds so far, since when it stands
        self.until = float("inf")

    def now(self) -> float:
        """Return seconds since some moment, without those of compiling."""
        seconds = perf_counter()
        compiled, since = self._state
        return (seconds if since is None else since) - compiled

    @property
    def compile_s(self) -> float:
        """Seconds in which it stood still so far."""
        seconds = perf_counter()
        compiled, since = self._state
        return compiled + (0.0 if since is None else seconds - since)

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Stand still; in several threads at once, until the last of them is done."""
        with self._lock:
            self._compiling += 1
            if self._compiling == 1:
                self._state = self._state[0], perf_counter()
        try:
            yield
        finally:
            with self._lock:
                self._compiling -= 1
                if self._compiling == 0:
                    self._state = self.compile_s, None


_of_thread = threading.local()


def solving_clock() -> SolvingClock:
    """Return the clock that this thread goes by; it has one of its own unless told otherwise."""
    clock: SolvingClock | None = getattr(_of_thread, "clock", None)
    if clock is None:
        clock = _of_thread.clock = SolvingClock()
    return clock


def go_by(clock: SolvingClock) -> None:
    """Let this thread, which another one has started, go by that one's clock."""
    _of_thread.clock = clock


def out_of_time() -> bool:
    """Tell a heuristic that the limit of the solve it runs in has passed; outside of one never."""
    clock = solving_clock()
    return clock.now() >= clock.until


def spend(units: float) -> None:
    """Report work done, in units of about a second of one core; a wall clock takes no notice."""
