"""Arguments of public functions: a wrong type gets an error that names the argument."""

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from types import NoneType
from typing import TypedDict

from moeopt.core.clock import SolvingClock, by_work, solving_clock
from moeopt.core.errors import InputError, expect
from moeopt.core.wording import unknown_name
from moeopt.solvers.backends import ENGINES

MAX_SEED = 2**31 - 1
MAX_WORKERS = 1024


DEFAULT_TIME_LIMIT_S = 60.0


class Asked(TypedDict):
    """The arguments of `moeopt.solve` that limit it."""

    time_limit_s: float | None
    work_limit: float | None


@dataclass(frozen=True)
class Limits:
    """What ends a solve: seconds, units of work (`moeopt.core.clock`), or the first of both."""

    seconds: float = float("inf")
    work: float | None = None

    @property
    def first(self) -> float:
        """The limit in the unit of the clock that the solve goes by."""
        return self.seconds if self.work is None else self.work

    @property
    def time_limit_s(self) -> float | None:
        """The argument of `moeopt.solve` that asks for the seconds."""
        return None if self.seconds == float("inf") else self.seconds

    @property
    def asked(self) -> Asked:
        """The arguments of `moeopt.solve` that ask for these limits."""
        return Asked(time_limit_s=self.time_limit_s, work_limit=self.work)

    def part(self, share: float) -> "Limits":
        """Return so large a share of every limit."""
        return Limits(share * self.seconds, None if self.work is None else share * self.work)

    def clock(self) -> AbstractContextManager[SolvingClock]:
        """Let this thread go by the clock that counts: of work if that is limited."""
        return nullcontext(solving_clock()) if self.work is None else by_work(self.seconds)


def limits(time_limit_s: float | None, work_limit: float | None, workers: int = 1) -> Limits:
    """Return the limits of a solve; without any it is 60 s.

    Raises
    ------
    InputError
        Also if work is limited and there are several workers: what each of them does in a unit
        depends on the others.
    """
    if work_limit is None:
        limit = DEFAULT_TIME_LIMIT_S if time_limit_s is None else time_limit_s
        return Limits(seconds(limit))
    if workers > 1:
        raise InputError(f"needs one worker, not {workers}", field="work_limit")
    work = _positive("work_limit", "work limit", work_limit, "units of work")
    return Limits(float("inf") if time_limit_s is None else seconds(time_limit_s), work)


def seconds(value: float) -> float:
    """Return a time limit, a positive number of seconds."""
    return _positive("time_limit_s", "time limit", value, "seconds")


def _positive(name: str, words: str, value: float, unit: str) -> float:
    expect(name, value, float, int, Real, what=f"a number of {unit}")
    limit = float(value)
    if not 0 < limit < float("inf"):
        raise InputError(f"{words}: must be a positive number of {unit}, not {limit}")
    return limit


def share(name: str, value: float) -> float:
    """Return a number from 0 to 1."""
    expect(name, value, float, int, Real, what="a number from 0 to 1")
    number = float(value)
    if not 0 <= number <= 1:
        raise InputError(f"must be from 0 to 1, not {number:g}", field=name)
    return number


def integer(name: str, value: int, least: int, most: int) -> int:
    """Return an integer argument within its range; NumPy's integers are integers, too."""
    expect(name, value, int, Integral, what="an integer")
    number = int(value)
    if not least <= number <= most:
        raise InputError(f"must be from {least} to {most}, not {number}", field=name)
    return number


def flag(name: str, value: bool) -> bool:
    """Return an argument that is True or False."""
    expect(name, value, bool, what="True or False")
    return bool(value)


def engine_name(value: str | None) -> str | None:
    """Return the argument `engine`, the name of one of `ENGINES` or None."""
    expect("engine", value, str, NoneType, what="the name of a MILP engine")
    if value is not None and value not in ENGINES:
        raise unknown_name("engine", value, ENGINES, "known engines")
    return value


def constraint_ids(value: Collection[str]) -> frozenset[str]:
    """Return the argument `without`: a collection of strings, which a string is not meant to be."""
    what = "a list of constraint IDs"
    if isinstance(value, str):
        raise InputError(f"must be {what}, not one: write [{value!r}]", field="without")
    expect("without", value, Collection, what=what)
    for constraint in value:
        expect("without", constraint, str, what=what)
    return frozenset(value)


def a_function(name: str, value: object) -> None:
    """Refuse an argument that is neither None nor callable."""
    if value is not None and not callable(value):
        expect(name, value, what="a function")
