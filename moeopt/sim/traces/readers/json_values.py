"""Untrusted JSON, as text or line by line, and lists of numbers in it as arrays."""

import json
import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.untrusted import check_growth
from moeopt.core.wording import kind_of, shown
from moeopt.sim.traces.readers.limits import MAX_EXPERT, read_lines, read_text

MAX_DIGITS = 40
"""Most digits of an integer."""


def read_json(path: Path) -> Any:
    """Return the value of a JSON file."""
    return parse(read_text(path), str(path))


def read_json_lines(path: Path) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the objects of a file with one JSON object per line, each with "file: line n"."""
    for number, text in read_lines(path):
        where = f"{path}: line {number}"
        value = parse(text, where)
        if not isinstance(value, dict):
            raise InputError(f"{where}: must be an object, not {kind_of(value)}")
        yield where, value


def parse(text: str, where: str) -> Any:
    """Return the value of a JSON text; no NaN, no endless integers, no bottomless nesting."""
    check_growth(text, where)
    try:
        return json.loads(text, parse_constant=_refuse, parse_int=_integer, parse_float=_real)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{where}: not valid JSON at {place}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{where}: not usable: nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{where}: not usable: {error}") from None


def integer(value: object, where: str, high: int) -> int:
    """Return `value` if it is an integer from 0 to `high`."""
    if type(value) is not int:
        raise InputError(f"{where}: must be an integer, not {shown(value)}")
    if not 0 <= value <= high:
        raise InputError(f"{where}: must be from 0 to {high}, not {shown(value)}")
    return value


def expert_table(rows: Any, where: str) -> NDArray[np.int64]:
    """Return a list of equally long lists of experts as an array of shape (rows, k)."""
    for number, row in enumerate(_items(rows, where, list, "a list")):
        if len(row) != len(rows[0]):
            lengths = f"{len(row)} long, and {len(rows[0])} in row 0"
            raise InputError(f"{where}[{number}]: {lengths}")
    flat = expert_list(list(chain.from_iterable(rows)), where)
    return flat.reshape(len(rows), -1)


def expert_list(values: Any, where: str) -> NDArray[np.int64]:
    """Return a list of experts, -1 among them for none, as an array."""
    _items(values, where, int, "an integer")
    for number, value in enumerate(values):
        if not -1 <= value <= MAX_EXPERT:
            reason = f"must be from -1 to {MAX_EXPERT}, not {shown(value)}"
            raise InputError(f"{where}[{number}]: {reason}")
    return np.array(values, dtype=np.int64)


def weight_list(values: object, where: str) -> NDArray[np.float64]:
    """Return a list of gate weights as an array."""
    if not isinstance(values, list) or not {type(item) for item in values} <= {int, float}:
        raise InputError(f"{where}: must be a list of numbers")
    return np.array([float(item) for item in values], dtype=np.float64)


def _items(values: object, where: str, kind: type, word: str) -> list[Any]:
    if not isinstance(values, list) or not values:
        found = "an empty list" if values == [] else kind_of(values)
        raise InputError(f"{where}: must be a list, not {found}")
    if {type(item) for item in values} != {kind}:
        number, wrong = next(pair for pair in enumerate(values) if type(pair[1]) is not kind)
        raise InputError(f"{where}[{number}]: must be {word}, not {kind_of(wrong)}")
    return values


def _refuse(number: str) -> NoReturn:
    raise ValueError(f"{number} is not a number of usable size")


def _integer(number: str) -> int:
    if len(number) > MAX_DIGITS:
        raise ValueError(f"an integer has {len(number)} digits")
    return int(number)


def _real(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number[:MAX_DIGITS]} is not a number of usable size")
    return value
