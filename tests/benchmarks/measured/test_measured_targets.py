"""What predictions must reach on public measurements, and that the profiles are the fit."""

import os
import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks.measured.together import fit_together

from benchmarks.measured.crossvalidation import (
    CrossValidated,
    by_model,
    coverage,
    coverage_by_kind,
    cross_validated,
    factor_holding,
    fitted_profiles,
)
from benchmarks.measured.effects import Held
from benchmarks.measured.points import FOLDER, SECOND, MeasuredPoint, all_points, read_points
from benchmarks.measured.report import Errors, bandwidth_alone, classes, details, to_markdown
from benchmarks.studies.split import predicted, settings
from tests.rooms.sim import TERMS, get_runtime, prior, token_us

there = (Path(os.environ.get(FOLDER, "")) / SECOND).is_file()
needs_points = pytest.mark.skipif(not there, reason=f"{FOLDER} does not name the second table")


@pytest.fixture(scope="module")
def points() -> list[MeasuredPoint]:
    """Return the points of both tables."""
    return all_points()


@pytest.fixture(scope="module")
def found(points: list[MeasuredPoint]) -> CrossValidated:
    """Return the predictions of what was held out: 5 CPU seconds."""
    return cross_validated(points)


@needs_points
def test_machines_that_were_held_out(found: CrossValidated, points: list[MeasuredPoint]) -> None:
    """Machines' medians 12 % at most, p90 30 %; 75 to 85 % of the points in their interval."""
    stated = [one for one in found.machines if not one.point.assumed]
    errors = Errors.of(stated)
    assert errors.machines >= 25
    assert errors.machine_median <= 0.12
    assert errors.p90 <= 0.3
    assert 0.75 <= coverage_by_kind(stated) <= 0.85
    plain = Errors.of(bandwidth_alone([one.point for one in stated]))
    assert errors.machine_median < 0.5 * plain.machine_median
    assert Errors.of(found.llama.between).machine_median <= 0.02


@needs_points
def test_every_class_has_its_share_inside(found: CrossValidated) -> None:
    """75 to 85 % of each class's points in the interval of its other machines."""
    for name, held in classes(found):
        inside = coverage(held)
        if inside is not None and name != "host's memory not stated":
            assert 0.75 <= inside <= 0.85, name


@needs_points
def test_another_model_of_the_machine(found: CrossValidated) -> None:
    """Off by the sum of two models' own effects: 10 % by machine, hardly more by model."""
    by_another = Errors.of(found.llama.by_another, by_model)
    assert by_another.machines >= 20
    assert by_another.machine_median <= 0.12
    assert Errors.of(found.llama.by_another).machine_median <= 0.1
    for own in found.llama.several:
        assert (own.effects.machine > 0.03).all()
        assert np.median(own.left) < np.median(own.expected) < 2 * np.median(own.left)


@needs_points
def test_the_shipped_profiles_and_page_are_the_fit(
    found: CrossValidated, points: list[MeasuredPoint], root: Path
) -> None:
    """Those that `python -m benchmarks.measured --write` writes."""
    for fitted in fitted_profiles(points, found):
        assert fitted.costs == pytest.approx(get_runtime(fitted.name).costs, rel=1e-2)
    for made, file in (
        (to_markdown(points, found), "docs/measured.md"),
        (details(points, found), "benchmarks/measured/details.md"),
    ):
        kept = (root / file).read_text().splitlines()
        assert [line.split("|")[1:2] for line in made.splitlines()] == [
            line.split("|")[1:2] for line in kept
        ]


def test_the_readme_has_the_pages_figures(root: Path) -> None:
    """Median and p90 of machines held out, and the share inside the interval."""
    page, readme = [(root / name).read_text() for name in ("docs/measured.md", "README.md")]
    [row] = [line for line in page.splitlines() if line.startswith("| all whose memory is stated")]
    _, machines, _, median, p90 = [cell.strip() for cell in row.split("|")[1:6]]
    [inside] = re.findall(r"prints it, lie (\d+ %)", page)
    flat = " ".join(readme.split())
    assert f"On {machines} machines that it had not seen" in flat
    assert f"`moeopt predict` is off by {median}" in flat
    assert f"by more than {round(float(p90.rstrip(' %')))} %, and {inside} of the speeds" in flat


def test_the_published_reversals_are_predicted() -> None:
    """A second, slower GPU makes decoding slower; memory by first touch beats one node's.

    In the order of ik_llama.cpp's issue 629 (24.07 and 21.88 tokens/s), and of two old sockets.
    """
    speeds = {row: predicted(one, at) for one in settings() for row, at in one.rows.items()}
    assert speeds[9] > speeds[11] > speeds[1]
    assert speeds[13] > speeds[15]
    assert speeds[60] > speeds[59]
    assert speeds[63] > max(speeds[61], speeds[62])


def test_pages_have_the_figures_of_the_runs_beside_real_models(root: Path) -> None:
    """Median and largest error by own and other width, as the committed results have them."""
    rows = (root / "benchmarks" / "real" / "results.md").read_text().splitlines()
    table = [[cell.strip() for cell in row.split("|")] for row in rows]
    found = {cells[1]: cells[3:5] for cells in table if len(cells) == 7}
    flat = " ".join((root / "docs" / "findings.md").read_text().split())
    own, other = (
        [error.replace("%", " %") for error in found[name]] for name in ("own width", "other width")
    )
    assert f"calibrated on the same width by {own[0]} (largest {own[1]})" in flat
    assert f"on another width by {other[0]} ({other[1]})" in flat


def test_intervals_by_hand() -> None:
    """Every point counts alike; others' errors make the interval."""
    first = read_points()
    [a100, other] = [next(p for p in first if p.group == g) for g in ("a100", "10900x")]
    held = [Held(a100, f * a100.tokens_per_s) for f in (1.1, 1.2, 0.5, 1.0)]
    held.append(Held(other, 1.3 * other.tokens_per_s))
    assert factor_holding(held) == pytest.approx(1.3)
    assert factor_holding(held, share=0.5) == pytest.approx(1.2)
    assert factor_holding(held, share=0.81) == pytest.approx(2.0)
    assert coverage(held) == 4 / 5  # the half lies outside
    assert coverage(held[:4]) is None


def test_a_machines_own_factor_is_found() -> None:
    """Points made by known costs and factors: both come back, 40 points of one machine or not."""
    rng = np.random.default_rng(5)
    expected, spread = prior()
    costs = np.exp(expected + 0.3 * spread)
    factors = {"one": 0.0, "two": 0.3, "three": -0.3, "four": 0.1, "five": -0.1}
    names = ["one"] * 40 + [name for name in factors for _ in range(12)]
    rows = rng.uniform(0.2, 1.0, (len(names), len(TERMS))) * 1e4 / costs
    times = token_us(rows, costs) * np.exp([factors[name] for name in names])
    made = fit_together(rows, times, [("r", name) for name in names], (expected, spread))
    for name, factor in factors.items():
        assert made.machines[name] - made.machines["one"] == pytest.approx(factor, abs=0.1)
    assert token_us(rows[:1], made.costs["r"]) == pytest.approx(token_us(rows[:1], costs), rel=0.1)
