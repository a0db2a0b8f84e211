"""Machines and their curves: what they compute, and what makes them invalid."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from moeopt.problems.wording import describe
from moeopt.sim.machine import Curve, Machine
from moeopt.sim.presets import get_machine

RISING = Curve(scale="linear", points=((0, 0.0), (256, 0.3), (512, 0.6)))
LOG = Curve(scale="log-log", points=((16, 10.0), (256, 40.0)))


def fault(model: type[Any], data: Any) -> str:
    """Return the one line that says what is wrong with the data of a machine or curve."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return describe(caught.value)


def test_a_linear_curve_is_straight_between_points() -> None:
    """A quarter of the way in tokens is a quarter of the way in value."""
    assert RISING([64, 128, 256, 384]) == pytest.approx([0.075, 0.15, 0.3, 0.45])


def test_a_log_log_curve_is_straight_in_the_logarithms() -> None:
    """Halfway between 16 and 256 in the logarithm is 64, between 10 and 40 it is 20."""
    assert LOG([16, 64, 256]) == pytest.approx([10, 20, 40])


def test_a_curve_is_flat_outside_its_points() -> None:
    """Nothing is extrapolated."""
    assert LOG([1, 15, 257, 10**6]) == pytest.approx([10, 10, 40, 40])
    assert RISING([512, 10**6]) == pytest.approx([0.6, 0.6])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_a_curve_gives_each_token_count_what_it_gives_it_alone(tokens: list[int]) -> None:
    """An array of counts is worked on entry by entry, and every rate is above zero."""
    for curve in (RISING, LOG):
        together = curve(np.array(tokens))
        assert together.tolist() == [float(curve(count)) for count in tokens]
        assert (together > 0).all()


@pytest.mark.parametrize(
    ("scale", "points", "says"),
    [
        ("linear", [[1, 1.0], [1, 2.0]], "points[1][0]: must be above the tokens of the point"),
        ("linear", [[1, 1.0], [9, 2.0], [5, 3.0]], "points[2][0]: must be above the tokens"),
        ("linear", [], "points: tuple should have at least 1 item"),
        ("linear", [[1, -1.0]], "points[0][1]: must be at least 0.0, not -1.0"),
        ("linear", [[-1, 1.0]], "points[0][0]: must be at least 0.0, not -1"),
        ("linear", [[1, float("nan")]], "points[0][1]: "),
        ("linear", [[1, float("inf")]], "points[0][1]: "),
        ("linear", [[1, "2"]], "points[0][1]: "),
        ("linear", [[True, 2.0]], "points[0][0]: "),
        ("linear", [[1, 2.0, 3.0]], "points[0]: "),
        ("linear", [[1]], "points[0][1]: is missing"),
        ("linear", [[0, 0.0]], "points[0][1]: must be above 0, except at 0 tokens"),
        ("linear", [[0, 0.0], [4, 0.0], [8, 1.0]], "points[1][1]: must be above 0"),
        ("linear", [[1, 0.0], [8, 1.0]], "points[0][1]: must be above 0"),
        ("log-log", [[0, 1.0], [8, 1.0]], "points[0][0]: must be above 0 on log-log axes"),
        ("log-log", [[1, 0.0], [8, 1.0]], "points[0][1]: must be above 0"),
        ("cubic", [[1, 1.0]], "scale: must be 'linear' or 'log-log', not \"cubic\""),
    ],
)
def test_a_curve_that_gives_no_rate_is_refused(scale: str, points: Any, says: str) -> None:
    """Falling tokens, negative or infinite values, and a rate of zero at any token count."""
    assert fault(Curve, {"scale": scale, "points": points}).startswith(says)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pcie_gb_s", -64.0, "pcie_gb_s: input should be greater than 0, not -64.0"),
        ("pcie_gb_s", 0, "pcie_gb_s: input should be greater than 0, not 0"),
        ("pcie_gb_s", float("nan"), "pcie_gb_s: "),
        ("pcie_gb_s", float("inf"), "pcie_gb_s: "),
        ("pcie_gb_s", "64", 'pcie_gb_s: input should be a valid number, not "64"'),
        ("pcie_gb_s", True, "pcie_gb_s: input should be a valid number, not true"),
        ("pcie_mb_s", 64.0, "pcie_mb_s: is not a known key"),
        ("dram", {"dimms": 0, "striped_gb_s": 1, "localized_gb_s": 1}, "dram.dimms: must be at"),
        ("dram", {"dimms": 2.0, "striped_gb_s": 1, "localized_gb_s": 1}, "dram.dimms: must be an"),
        ("ndp", {"gflops": 1.0}, "ndp.internal_gb_s: is missing"),
        ("sources", {"pcie_gb_s": 5}, "sources.pcie_gb_s: must be a string, not 5"),
    ],
)
def test_a_machine_with_an_impossible_number_is_refused(field: str, value: Any, says: str) -> None:
    """Zero, negative, infinite and textual rates, unknown and missing keys."""
    data = get_machine("trimoe").model_dump() | {field: value}
    assert fault(Machine, data).startswith(says)


def test_a_whole_number_is_a_rate_too() -> None:
    """64 in a file means 64.0."""
    data = get_machine("trimoe").model_dump() | {"pcie_gb_s": 64}
    assert Machine.model_validate(data) == get_machine("trimoe")


def test_a_machine_cannot_be_changed() -> None:
    """Presets are shared, so they are frozen."""
    with pytest.raises(ValidationError, match="frozen"):
        get_machine("trimoe").pcie_gb_s = 1.0
