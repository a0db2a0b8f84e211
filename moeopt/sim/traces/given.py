"""A trace or counts as an argument: an object or a path, whose readers load when needed."""

from pathlib import Path
from typing import TypeVar

from moeopt.sim.traces.trace import Counts, Trace

Other = TypeVar("Other")


def as_trace(value: Other | str | Path) -> Other | Trace:
    """Return a trace, read from its file if need be; anything else stays as it is."""
    if not isinstance(value, str | Path):
        return value
    from moeopt.sim.traces.files import load_trace

    return load_trace(value)


def as_counts(value: Other | str | Path) -> Other | Counts:
    """Return counts, read from their file if need be; anything else stays as it is."""
    if not isinstance(value, str | Path):
        return value
    from moeopt.sim.traces.files import load_counts

    return load_counts(value)
