"""Arguments of public functions: a wrong type gets an error that names the argument."""

from collections.abc import Collection
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.wording import shown

MAX_SEED = 2**31 - 1
MAX_WORKERS = 1024


def an_instance(value: object) -> InstanceEnvelope:
    """Return the argument `instance` if it is one."""
    if isinstance(value, InstanceEnvelope):
        return value
    raise InputError(f"instance: must be an instance, not {_told(value)}{_hint(value, 'load')}")


def a_solution(value: object) -> SolutionEnvelope:
    """Return the argument `solution` if it is one."""
    if isinstance(value, SolutionEnvelope):
        return value
    hint = _hint(value, "load_solution")
    raise InputError(f"solution: must be a solution, not {_told(value)}{hint}")


def seconds(value: object) -> float:
    """Return a time limit, a positive number of seconds."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InputError(f"time_limit_s: must be a number of seconds, not {_told(value)}")
    limit = float(value)
    if not 0 < limit < float("inf"):
        raise InputError(f"time limit: must be a positive number of seconds, not {limit}")
    return limit


def integer(name: str, value: object, least: int, most: int) -> int:
    """Return an integer argument within its range; NumPy's integers are integers, too."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise InputError(f"{name}: must be an integer, not {_told(value)}")
    number = int(value)
    if not least <= number <= most:
        raise InputError(f"{name}: must be from {least} to {most}, not {number}")
    return number


def flag(name: str, value: object) -> bool:
    """Return an argument that is True or False."""
    if not isinstance(value, bool):
        raise InputError(f"{name}: must be True or False, not {_told(value)}")
    return value


def engine_name(value: object) -> str | None:
    """Return the argument `engine`, a name or None."""
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"engine: must be the name of a MILP engine, not {_told(value)}")


def constraint_ids(value: object) -> frozenset[str]:
    """Return the argument `without`: a collection of strings, which a string is not meant to be."""
    if isinstance(value, str):
        raise InputError(f"without: must be a list of constraint IDs: write [{value!r}]")
    if not isinstance(value, Collection):
        raise InputError(f"without: must be a list of constraint IDs, not {_told(value)}")
    for constraint in value:
        if not isinstance(constraint, str):
            raise InputError(f"without: must hold constraint IDs, not {_told(constraint)}")
    return frozenset(value)


def a_function(name: str, value: object) -> None:
    """Refuse an argument that is neither None nor callable."""
    if value is not None and not callable(value):
        raise InputError(f"{name}: must be a function, not {_told(value)}")


def _told(value: Any) -> str:
    if value is None or isinstance(value, bool | int | float | str):
        return shown(value)
    return f"a value of type {type(value).__name__}"


def _hint(value: object, function: str) -> str:
    return f"; read a file with moeopt.{function}" if isinstance(value, str | Path) else ""
