"""Results kept as JSON files, and whether a resumed run may take them."""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.papers import data
from benchmarks.rooms.core import read_object
from moeopt import InputError, save


def circumstances() -> dict[str, Any]:
    """Return what every result depends on besides its own name."""
    return {"moeopt": version("moeopt"), "data": data.folder() is not None}


def keep(path: Path, record: Mapping[str, Any]) -> None:
    """Write a result, and make its folder; InputError if that fails."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path.parent}: {error.strerror}") from None
    save(record, path)


def kept(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the result in a file; None if there is none, or it is of other circumstances."""
    if not path.exists():
        return None
    stored = read_object(path)
    return stored if {name: stored.get(name) for name in key} == key else None
