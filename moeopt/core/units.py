"""Numbers as people write them: tokens as 8k, memory as 24GiB."""

import re

from moeopt.core.errors import InputError

MIB, GIB = 2**20, 2**30

MOST_TOKENS = 2**24

_NUMBER = re.compile(r"([0-9.eE+-]+)\s*([a-zA-Z]*)")

_GIB = {"": 1.0, "gib": 1.0, "g": 1.0, "gb": 1e9 / 2**30, "mib": 2.0**-10, "m": 2.0**-10}
_GIB |= {"mb": 1e6 / 2**30, "tib": 1024.0, "t": 1024.0, "tb": 1e12 / 2**30}

_TOKENS = {"": 1, "k": 1024, "ki": 1024, "m": 2**20, "mi": 2**20}


def tokens_of(name: str, text: str | int) -> int:
    """Return a number of tokens from a number or text such as 8k, 131072, 128K.

    Raises
    ------
    InputError
        If it is neither; `name` says what was given.
    """
    found = whole_of(name, text, "tokens")
    if not 0 <= found <= MOST_TOKENS:
        raise InputError(f"must be from 0 to {MOST_TOKENS}, not {text!s:.40}", field=name)
    return found


def whole_of(name: str, text: str | int, what: str = "a whole number") -> int:
    """Return a whole number from a number or text such as 8k; errors as in `tokens_of`."""
    found = _split(text, _TOKENS)
    if found is None or found != int(found):
        raise InputError(f"must be {what}, e.g. 8192 or 8k, not {str(text)!r:.40}", field=name)
    return int(found)


def gib_of(name: str, text: str | float) -> float:
    """Return GiB from a number or text such as 24GiB, 512MiB, 24GB; errors as in `tokens_of`."""
    found = _split(text, _GIB)
    if found is None:
        raise InputError(f"must be GiB, e.g. 24 or 512MiB, not {str(text)!r:.40}", field=name)
    return found


def _split(text: str | float, units: dict[str, float] | dict[str, int]) -> float | None:
    """Return the number times its unit; None if it is no number, or the unit is unknown."""
    if isinstance(text, int | float) and not isinstance(text, bool):
        return float(text) if abs(text) < float("inf") else None
    said = str(text).strip()
    match = _NUMBER.fullmatch(said) if len(said) < 60 else None
    factor = units.get(match[2].lower()) if match else None
    try:
        found = None if factor is None or match is None else float(match[1]) * factor
    except ValueError:
        return None
    return found if found is not None and abs(found) < float("inf") else None
