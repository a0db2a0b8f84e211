"""Real traces for the figures that need one: looked for in a folder, never part of the package."""

import os
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from benchmarks.rooms.core import read_object
from benchmarks.rooms.sim import Trace, read_trace
from moeopt import InputError, MoeoptError, dedupe_trace

VARIABLE = "MOEOPT_TRACES"

TASKS = ("intent", "law", "summary")
"""Of DeepSeek-V2-Lite's traces."""

V2_LITE = tuple(f"esft_deepseek_v2_lite/{task}.npz" for task in TASKS)
MIXTRAL = tuple(
    f"hdmoe_mixtral_8x7b/{category}.npz"
    for category in ("coding", "extraction", "humanities", "roleplay", "stem", "writing")
)
"""Traces of a model, by their paths inside the folder."""

Statistic = dict[str, Any]
"""Numbers measured on real traces, as JSON values."""

P = ParamSpec("P")
R = TypeVar("R")

_FOLDER: ContextVar[Path | None] = ContextVar("folder", default=None)


class MissingDataError(MoeoptError):
    """A figure needs a file that is not there; the message names it."""

    exit_code = 2


def use(folder: Path | None) -> None:
    """Look for traces in `folder` from now on, instead of where MOEOPT_TRACES points.

    Raises
    ------
    InputError
        If it is not a folder.
    """
    if folder is not None and not folder.is_dir():
        raise InputError(f"--data: {folder} is not a folder")
    _FOLDER.set(folder)


def folder() -> Path | None:
    """Return the folder with real traces; None if nobody named one."""
    named = os.environ.get(VARIABLE)
    return _FOLDER.get() or (Path(named) if named else None)


def by_folder(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of hashable arguments: it runs once for each of them and each folder."""

    @cache
    def kept(_: Path | None, *args: P.args, **kwargs: P.kwargs) -> R:
        return function(*args, **kwargs)

    @wraps(function)
    def found(*args: P.args, **kwargs: P.kwargs) -> R:
        return kept(folder(), *args, **kwargs)

    return found


def find(name: str) -> Path | None:
    """Return a trace's file, given by its path inside the folder; None if it is not there."""
    place = folder()
    path = None if place is None else place / name
    return path if path is not None and path.exists() else None


def require(name: str) -> Path:
    """Return a trace's file.

    Raises
    ------
    MissingDataError
        If it is not there. A figure may let it pass: it then reads "not computable: needs ...".
    """
    path = find(name)
    if path is None:
        raise MissingDataError(f"needs trace {name} in the folder of --data or {VARIABLE}")
    return path


def traces(paths: Sequence[Path]) -> list[Trace]:
    """Return traces without the text that each reads a second time.

    A conversation's second turn reads the first again: that is prefill, and to an answer that is
    told from its prompt it would give the answer away.
    """
    return [dedupe_trace(read_trace(path)) for path in paths]


def statistic(
    stored: Path, files: Sequence[str], measure: Callable[[Sequence[Path]], Statistic]
) -> Statistic:
    """Return what was measured on real traces: anew where all are there, else as it is stored.

    Parameters
    ----------
    stored
        The JSON file with the statistic and its origin; part of the package.
    files
        Paths inside the folder.
    measure
        Measures the same statistic on these files.
    """
    found = [path for path in map(find, files) if path is not None]
    if files and len(found) == len(files):
        return measure(found)
    return read_object(stored)
