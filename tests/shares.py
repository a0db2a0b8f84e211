"""Random instances of the quick suite, and the rest of them, which is slow."""

from typing import Any

import pytest


def shares(quick: int, whole: int) -> list[Any]:
    """Return parameters: the first seeds, and in the slow suite those that follow."""
    return [range(quick), pytest.param(range(quick, whole), marks=pytest.mark.slow)]


def first(quick: int, cases: list[Any]) -> list[Any]:
    """Return parameters of which only so many first ones are in the quick suite."""
    return [*cases[:quick], *(pytest.param(case, marks=pytest.mark.slow) for case in cases[quick:])]
