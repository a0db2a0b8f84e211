"""Options of a command are the keyword arguments of the function that it calls."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest

import moeopt
from tests.rooms.cli import (
    CampaignOptions,
    ExportOptions,
    HoldoutOptions,
    SensitivityOptions,
    SolveOptions,
    SolvesOptions,
    SolvingOptions,
)
from tests.rooms.study import Running, make_settings, run_campaign

OTHERWISE = {"method", "instance", "model", "out", "beside", "schedule"}
"""What a command hands over itself, in another form."""


@pytest.mark.parametrize(
    ("options", "function", "shared"),
    [
        (SolveOptions, moeopt.solve, 6),
        (SolvingOptions, moeopt.explain, 4),
        (ExportOptions, moeopt.export, 2),
        (HoldoutOptions, moeopt.holdout, 7),
        (SolvesOptions, make_settings, 5),
        (CampaignOptions, run_campaign, 3),
        (SensitivityOptions, Running, 5),
    ],
)
def test_defaults_are_those_of_the_library(
    options: type, function: Callable[..., Any], shared: int
) -> None:
    """An option that the function takes has its name, and holds by default what it says."""
    taken = inspect.signature(function).parameters
    found = [one for one in fields(options) if one.name in taken and one.name not in OTHERWISE]
    assert len(found) >= shared
    for one in found:
        assert one.default == taken[one.name].default, one.name
