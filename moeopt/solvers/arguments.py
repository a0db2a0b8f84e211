"""Arguments of public functions: a wrong type gets an error that names the argument."""

from collections.abc import Collection
from numbers import Integral, Real
from pathlib import Path
from types import NoneType
from typing import Any

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError, expect

MAX_SEED = 2**31 - 1
MAX_WORKERS = 1024


def an_instance(value: Any) -> InstanceEnvelope:
    """Return the argument `instance` if it is one."""
    hint = " (moeopt.load reads a file)" if isinstance(value, str | Path) else ""
    expect("instance", value, InstanceEnvelope, what=f"an instance{hint}")
    instance: InstanceEnvelope = value
    return instance


def seconds(value: Any) -> float:
    """Return a time limit, a positive number of seconds."""
    expect("time_limit_s", value, Real, what="a number of seconds")
    limit = float(value)
    if not 0 < limit < float("inf"):
        raise InputError(f"time limit: must be a positive number of seconds, not {limit}")
    return limit


def share(name: str, value: Any) -> float:
    """Return a number from 0 to 1."""
    expect(name, value, Real, what="a number from 0 to 1")
    number = float(value)
    if not 0 <= number <= 1:
        raise InputError(f"{name}: must be from 0 to 1, not {number:g}")
    return number


def integer(name: str, value: Any, least: int, most: int) -> int:
    """Return an integer argument within its range; NumPy's integers are integers, too."""
    expect(name, value, Integral, what="an integer")
    number = int(value)
    if not least <= number <= most:
        raise InputError(f"{name}: must be from {least} to {most}, not {number}")
    return number


def flag(name: str, value: Any) -> bool:
    """Return an argument that is True or False."""
    expect(name, value, bool, what="True or False")
    return bool(value)


def engine_name(value: Any) -> str | None:
    """Return the argument `engine`, a name or None."""
    expect("engine", value, str, NoneType, what="the name of a MILP engine")
    engine: str | None = value
    return engine


def constraint_ids(value: Any) -> frozenset[str]:
    """Return the argument `without`: a collection of strings, which a string is not meant to be."""
    what = "a list of constraint IDs"
    if isinstance(value, str):
        raise InputError(f"without: must be {what}, not one: write [{value!r}]")
    expect("without", value, Collection, what=what)
    for constraint in value:
        expect("without", constraint, str, what=what)
    return frozenset(value)


def a_function(name: str, value: Any) -> None:
    """Refuse an argument that is neither None nor callable."""
    if value is not None and not callable(value):
        expect(name, value, what="a function")
