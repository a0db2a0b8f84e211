"""How near our figures are to the published ones, without any folder of real traces."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest

from benchmarks.papers import data
from benchmarks.papers.figure import Figure
from benchmarks.papers.published import published
from benchmarks.papers.run import compute

HARD, SOFT = 0.05, 0.10
"""Largest error of what follows from stated numbers, and of what needs assumptions."""


@contextmanager
def without_traces() -> Iterator[None]:
    """Hide the real traces, so that stored statistics are used."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(data.VARIABLE, raising=False)
        data.use(None)
        yield


@cache
def figure_of(figure: str) -> Figure:
    """Return a figure computed without real traces."""
    with without_traces():
        return Figure(published()[figure], compute(figure))


def error_of(figure: str, place: int = 0) -> float:
    """Return how far one of our values is off, as a share in size."""
    error = figure_of(figure).errors[place]
    assert error is not None
    return abs(error)


def value_of(figure: str, place: int = 0) -> float:
    """Return one of our values."""
    value = figure_of(figure).ours.values[place]
    assert value is not None
    return value
