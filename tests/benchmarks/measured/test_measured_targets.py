"""What predictions must reach on public measurements, and that the profiles are the fit."""

import pytest

from benchmarks.measured.comparison import BARE, IN_SAMPLE, Comparison
from benchmarks.measured.crossvalidation import (
    Held,
    coverage,
    curves,
    factor_holding,
    fitted_profiles,
)
from benchmarks.measured.points import read_points
from moeopt.sim.machines.runtimes.profile import get_runtime


def test_a_machine_that_was_held_out(comparison: Comparison) -> None:
    """Median at most 15 %, p90 at most 35 %; intervals hold 80 % of the points, give or take 8.

    Expectations twice as uncertain say the same.
    """
    summary = comparison.summary()
    for name in ("machine", "machine, spread of the expected costs doubled"):
        assert summary[name].points == 56
        assert summary[name].median <= 0.15
        assert summary[name].p90 <= 0.35
        assert 0.72 <= (summary[name].inside or 0) <= 0.88
    assert summary[IN_SAMPLE].median < summary["machine"].median < 0.2 * summary[BARE].median


def test_two_calibrated_points(comparison: Comparison) -> None:
    """Median at most 2 % between them, better than a line; 10 % for another model."""
    summary = comparison.summary()
    ours = summary["between two calibrated points, llama.cpp"]
    line = summary["the same by a straight line, llama.cpp"]
    assert ours.median <= 0.02
    assert ours.median < line.median
    assert ours.p90 < line.p90
    assert summary["calibrated on another model of the machine"].median <= 0.1


def test_what_is_held_out_is_not_in_the_fit(comparison: Comparison) -> None:
    """Without llama.cpp's only point on two sockets nothing says what they cost it."""
    [row] = [
        row
        for row in comparison.rows
        if (row.point.machine, row.point.runtime) == ("4090d+2x6454s", "llama.cpp")
    ]
    assert row.held_out.error > 0.5
    assert abs(row.in_sample_error) < 0.15
    assert len(comparison.cross_validated.machines) == len(comparison.rows)


def test_the_ends_of_a_curve_are_not_predicted(comparison: Comparison) -> None:
    """Between two calibrated points are those that were not calibrated on."""
    found = curves([p for p in read_points() if p.runtime != "ktransformers"])
    assert sum(len(curve) - 2 for curve in found) == len(comparison.cross_validated.llama.between)
    for curve in found:
        shares = [sum(p.setting.host_calls) for p in curve if p.setting]
        assert shares == sorted(shares)


def test_the_shipped_profiles_are_the_fit(comparison: Comparison) -> None:
    """Those that `python benchmarks/studies/measured.py --write` writes, intervals included."""
    for fitted in fitted_profiles(read_points(), comparison.cross_validated):
        shipped = get_runtime(fitted.name)
        assert fitted.costs == pytest.approx(shipped.costs, rel=1e-4)
        assert fitted.model_copy(update={"costs": shipped.costs, "intervals": ()}) == (
            shipped.model_copy(update={"intervals": ()})
        )
        for ours, theirs in zip(fitted.intervals, shipped.intervals, strict=True):
            assert (ours.certainty, ours.points) == (theirs.certainty, theirs.points)
            assert ours.factor == pytest.approx(theirs.factor, rel=2e-4)
            assert ours.median_error == pytest.approx(theirs.median_error, abs=2e-4)


def test_intervals_by_hand() -> None:
    """A group of n points weighs as much as the root of n; others' errors make the interval."""
    points = read_points()
    [a100, other] = [next(p for p in points if p.group == g) for g in ("a100", "10900x")]
    held = [Held(a100, f * a100.tokens_per_s) for f in (1.1, 1.2, 0.5, 1.0)]
    held.append(Held(other, 1.3 * other.tokens_per_s))  # weighs 1, the others 1/2 each
    assert factor_holding(held) == pytest.approx(1.3)
    assert factor_holding(held, share=0.5) == pytest.approx(1.2)
    assert coverage(held) == 4 / 5  # the half lies outside
    assert coverage(held[:4]) is None
