"""The clocks that limits go by: seconds of the wall, or units of work.

`SolvingClock` stands still while kernels are compiled. Compiling happens once per installation, and
can take longer than the solve that needs it first. So it neither counts as solving nor eats a
limit; how long it took is told beside.

`WorkClock` counts what was done instead, so that a limit cuts in at the same step on every machine,
busy or not. It stands still but for `spend`, in units of about a second of one core of 2024. Loops,
kernels and solvers report what they did, each by a constant of its own that was measured once:
steps, nodes or nonzeros per second.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter


class SolvingClock:
    """Wall time less that in which any thread of one solve compiles, loads or awaits a kernel.

    Reading it takes no lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._compiling = 0
        self._state: tuple[float, float | None] = 0.0, None  # seconds so far, since when it stands

    def seconds(self) -> float:
        """Return seconds since some moment, without those of compiling."""
        seconds = perf_counter()
        compiled, since = self._state
        return (seconds if since is None else since) - compiled

    def now(self) -> float:
        """Return what limits go by: `seconds` here, units of work in `WorkClock`."""
        return self.seconds()

    def passed(self, until: float) -> bool:
        """Tell whether it is so late; unlike `now`, looking takes nothing."""
        return self.seconds() >= until

    def spend(self, units: float) -> None:
        """Take no notice of work: here time passes by itself."""

    def seconds_for(self, limit: float) -> float:
        """Return for how many seconds a solver may run that is to end within `limit`.

        Infinite where no time limit is set: the solver then needs a limit of its own work.
        """
        return limit

    @property
    def out_of_seconds(self) -> bool:
        """Whether a time limit set beside one of work has passed: there is none here."""
        return False

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


LOOK = 1e-5
"""Units that a look at a work clock costs, so that a loop that reports nothing ends all the same.

It is what a loop in Python takes for a few lines.
"""

PAST = 1e12
"""Units that pass at once when the time limit set beside a work limit is reached."""


class WorkClock(SolvingClock):
    """Counts units of work, and stands still but for `spend` and a little for each look.

    One thread works by it at a time; threads that wait, or tell how it goes, look at `seconds`.

    Parameters
    ----------
    limit_s
        A time limit beside: once so many seconds have passed, it is later than any limit of work.
    """

    def __init__(self, limit_s: float = float("inf")) -> None:
        super().__init__()
        self.units = 0.0
        self._end_s = self.seconds() + limit_s

    def now(self) -> float:
        """Return the units spent so far."""
        self.units += LOOK
        return self.units + PAST if self.out_of_seconds else self.units

    def passed(self, until: float) -> bool:
        """Tell whether so much has been spent, or the time limit has passed."""
        return self.units >= until or self.out_of_seconds

    def spend(self, units: float) -> None:
        """Let so much work have been done."""
        self.units += units

    def seconds_for(self, limit: float) -> float:
        """Return the seconds left to the time limit, infinite without one."""
        if self._end_s == float("inf"):
            return self._end_s
        return max(0.0, self._end_s - self.seconds())

    @property
    def out_of_seconds(self) -> bool:
        """Whether the time limit has passed."""
        return self._end_s != float("inf") and self.seconds() >= self._end_s


class _OfThread(threading.local):
    """What a thread goes by.

    Attributes
    ----------
    until
        When heuristics, which are given an instance and no limit, are to come to an end.
    gives_up
        Whether somebody takes it from there where `checkpoint` gives up.
    """

    clock: SolvingClock | None = None
    until = float("inf")
    gives_up = False


_of_thread = _OfThread()


def solving_clock() -> SolvingClock:
    """Return the clock that this thread goes by; it has one of its own unless told otherwise."""
    clock = _of_thread.clock
    if clock is None:
        clock = _of_thread.clock = SolvingClock()
    return clock


@contextmanager
def told(until: float, gives_up: bool = False) -> Iterator[None]:
    """Let `out_of_time`, and `checkpoint`, go by this time of the clock, or what is set already."""
    before = _of_thread.until, _of_thread.gives_up
    _of_thread.until, _of_thread.gives_up = min(before[0], until), gives_up
    try:
        yield
    finally:
        _of_thread.until, _of_thread.gives_up = before


def out_of_time() -> bool:
    """Tell a heuristic that the limit of the solve it runs in has passed; outside of one never."""
    return solving_clock().now() >= _of_thread.until


def spend(units: float) -> None:
    """Report work done, in units of about a second of one core; a wall clock takes no notice."""
    clock = _of_thread.clock
    if clock is not None:
        clock.spend(units)


class TimeLimitError(Exception):
    """Raised inside a method to abandon the work when the limit has passed."""


def checkpoint(units: float) -> None:
    """Report work done; give the rest up if `out_of_time` and somebody takes it from there.

    Raises
    ------
    TimeLimitError
        For who waits for the answer to catch.
    """
    spend(units)
    if _of_thread.gives_up and solving_clock().passed(_of_thread.until):
        raise TimeLimitError


def counts_work() -> bool:
    """Tell whether this thread goes by work: solvers then need limits other than seconds."""
    return isinstance(_of_thread.clock, WorkClock)


@contextmanager
def by_work(limit_s: float = float("inf")) -> Iterator[WorkClock]:
    """Let this thread go by a new work clock meanwhile; what is spent counts outside as well.

    Parameters
    ----------
    limit_s
        A time limit beside, in seconds.
    """
    before, clock = solving_clock(), WorkClock(limit_s)
    until, _of_thread.until = _of_thread.until, float("inf")  # it is by the other clock
    _of_thread.clock = clock
    try:
        yield clock
    finally:
        _of_thread.clock, _of_thread.until = before, until
        before.spend(clock.units)
