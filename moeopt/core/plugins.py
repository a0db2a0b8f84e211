"""Objects that other packages announce by an entry point.

A package that is installed beside this one adds a custom heuristic, an export target or a trace
reader without a change here. It is imported when its name is first used, not when it is listed.
"""

from functools import cache
from importlib import metadata
from typing import TypeVar

from moeopt.core.errors import InputError

T = TypeVar("T")


@cache
def entries(group: str) -> dict[str, metadata.EntryPoint]:
    """Return the entry points of a group by name, in the order in which packages were found."""
    return {entry.name: entry for entry in metadata.entry_points(group=group)}


def in_words(entry: metadata.EntryPoint) -> str:
    """Return an entry point's name and its package for a message."""
    return f"plugin {entry.name!r} of {entry.dist.name if entry.dist else 'an unknown package'}"


def loaded(entry: metadata.EntryPoint, kind: type[T]) -> T:
    """Import what an entry point names.

    Raises
    ------
    InputError
        If the import fails or gives another kind of object; the message names the package.
    """
    plugin = in_words(entry)
    try:
        found = entry.load()
    except (Exception, SystemExit) as error:  # whatever another package's import raises
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(f"{plugin} cannot be loaded: {text}") from error
    if not isinstance(found, kind):
        raise InputError(f"{plugin} must be a {kind.__name__}, not a {type(found).__name__}")
    return found
