"""What predictions reach on public measurements is what the pages say; the profiles are the fit."""

import os
import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from benchmarks.measured.crossvalidation import (
    CrossValidated,
    by_runtime,
    coverage,
    cross_validated,
    expressible,
    factor_holding,
    fitted_profiles,
)
from benchmarks.measured.effects import Held
from benchmarks.measured.fit import RUNTIMES, Form, Points, fit
from benchmarks.measured.nested import FORMS, data_of, nested
from benchmarks.measured.points import (
    FOLDER,
    MeasuredPoint,
    all_points,
    read_points,
    withheld,
    withheld_points,
)
from benchmarks.measured.prompts import fit_prompts, prompts, read_prompts
from benchmarks.measured.report import details, reversals, to_markdown
from benchmarks.studies.split import predicted, settings
from moeopt import InputError
from tests.rooms.sim import PRIOR, TERMS, get_runtime, prior, token_us

needs_points = pytest.mark.skipif(FOLDER not in os.environ, reason=f"{FOLDER} names no folder")

FACTORS = [name for name, term in PRIOR.items() if "of" in term]

Cells = dict[str, list[str]]


@cache
def rows_of(page: str) -> Cells:
    """Return the rows of a page's first table."""
    table = page.split("## By class")[1].split("## What was chosen")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    return {row[0]: row[1:] for row in rows if len(row) == 7}


@pytest.fixture
def page(root: Path) -> str:
    """Return docs/measured.md."""
    return (root / "docs" / "measured.md").read_text()


def stated(points: list[MeasuredPoint]) -> list[MeasuredPoint]:
    """Return those that a fit is made to."""
    return [point for point in expressible(points) if not point.assumed]


@needs_points
def test_the_shipped_costs_are_the_fit(page: str) -> None:
    """Of the form that the page says, to all points; prompts as well."""
    [chosen] = re.findall(r"With all machines: ([^.]+)\.", page)
    [form] = [form for form in FORMS if form.name == chosen]
    costs = by_runtime(fit(data_of(stated(all_points())), form))
    read = prompts(read_prompts()).costs
    for name in RUNTIMES:
        shipped = get_runtime(name)
        assert list(shipped.costs.values()) == pytest.approx(costs[name].tolist(), rel=0.02)
        assert shipped.prompt.costs == pytest.approx(read.costs, rel=0.02)


@pytest.mark.slow
@needs_points
def test_the_shipped_profiles_and_page_are_the_fit(root: Path) -> None:
    """Those that `python -m benchmarks.measured --write` writes: 3 CPU minutes."""
    points, read = all_points(), prompts(read_prompts())
    found: CrossValidated = cross_validated(points)
    for fitted in fitted_profiles(points, found, read.costs):
        shipped = get_runtime(fitted.name)
        assert fitted.costs == pytest.approx(shipped.costs, rel=0.02)
        assert fitted.uncertainty.scale == pytest.approx(shipped.uncertainty.scale, rel=0.05)
        assert fitted.uncertainty.measured == shipped.uncertainty.measured
    for made, file in (
        (to_markdown(points, found, read), "docs/measured.md"),
        (details(points, found), "benchmarks/measured/details.md"),
    ):
        kept = (root / file).read_text().splitlines()
        assert [line.split("|")[1:2] for line in made.splitlines()] == [
            line.split("|")[1:2] for line in kept
        ]


def test_classes_with_few_machines_have_no_numbers(page: str) -> None:
    """The others have a nested and an inner median; most machines' intervals hold 80 %."""
    rows = rows_of(page)
    assert len(rows) > 15
    for name, (machines, points, *numbers) in rows.items():
        if machines.isdigit() and not name.startswith(("plain", "a model")):
            assert (int(machines) < 3) == (numbers == ["-"] * 4), name
            assert int(points) >= int(machines)
    assert 75 <= int(rows["all"][4].rstrip(" %")) <= 85


def test_the_readme_has_the_pages_figures(page: str, root: Path) -> None:
    """Its sentence by class."""
    readme, rows = (root / "README.md").read_text(), rows_of(page)
    flat = " ".join(readme.split())
    machines, _, median, p90, inside, _ = rows["all"]
    assert f"On {machines} machines that neither its fit nor its choices had seen" in flat
    assert f"is off by {median} (median of machines), one point in ten by more than" in flat
    assert f"by more than {round(float(p90.rstrip(' %')))} %, and {inside} of the speeds" in flat
    for name, words in (
        ("one socket, at most one NVIDIA card", "with one socket and at most one NVIDIA card"),
        ("several GPUs", "with several GPUs"),
        ("several sockets", "with several sockets"),
        ("CPU only", "on the CPU only"),
        ("unified memory", "with unified memory"),
    ):
        assert f"{rows[name][2]} {words}" in flat, name


def test_public_points_have_an_address_and_others_no_figures() -> None:
    """A stranger has all points but those whose page has no address; nobody's figures of these."""
    public = read_points()
    assert len(public) == 304
    assert all(point.source and "address not known" not in point.source for point in public)
    rows = withheld()
    assert len(rows) == 76
    assert {*rows[0]} & {"tok_s", "source", "engine"} == set()


def test_without_the_folder_the_public_points_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a folder without the tables is an error of one line."""
    monkeypatch.delenv(FOLDER, raising=False)
    assert withheld_points() == []
    assert all_points() == read_points()
    monkeypatch.setenv(FOLDER, "/nowhere")
    with pytest.raises(InputError, match=f"{FOLDER}: /nowhere/measured-2.csv: No such file"):
        all_points()


def test_folds_of_a_few_machines() -> None:
    """Each point once outside; a machine is not in the fit that predicts it, nor in its choice."""
    few = ["10900x", "7950x", "trpro", "9355"]
    points = [point for point in stated(read_points()) if point.group in few]
    found = nested(points)
    assert [one.point for one in found.outer] == points
    assert sum(found.chosen.values()) == len(few)
    assert all(one.factor > 1.05 for one in found.outer)
    changed = [p if p.group != "trpro" else p.sped_up(2.0) for p in points]
    again = nested(changed)
    for before, after in zip(found.outer, again.outer, strict=True):
        same = before.tokens_per_s == pytest.approx(after.tokens_per_s, rel=1e-3)
        assert same == (before.point.group == "trpro")


def test_reversals_by_hand() -> None:
    """Two sockets or GPUs against one: in order, or not; near speeds do not count."""
    points = [p for p in stated(read_points()) if p.group == "6454s" and p.runtime != "llama.cpp"]
    assert reversals([Held(point, point.tokens_per_s) for point in points]) == (2, 2)
    assert reversals([Held(point, 1.0 / point.tokens_per_s) for point in points]) == (0, 2)


def test_prompts_are_left_out_by_machine() -> None:
    """A machine's points say nothing of it; the interval holds most of them."""
    points = read_prompts()
    found = prompts(points)
    assert len(found.held) == len(points) == 16
    log, _ = fit_prompts([point for point in points if point.group != "6980p"])
    assert log.shape == (len(found.costs.costs),)
    assert 0.6 <= found.inside <= 0.95
    assert found.median < 0.5


def test_the_published_reversals_are_predicted() -> None:
    """A second, slower GPU makes decoding slower; memory by first touch beats one node's.

    In the order of ik_llama.cpp's issue 629 (24.07 and 21.88 tokens/s), and of two old sockets.
    """
    speeds = {row: predicted(one, at) for one in settings() for row, at in one.rows.items()}
    assert speeds[9] > speeds[11] > speeds[1]
    assert speeds[13] > speeds[15]
    assert speeds[60] > speeds[59]
    assert speeds[63] > max(speeds[61], speeds[62])


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
    assert Held(a100, 1.2 * a100.tokens_per_s, 1.25).inside
    assert not Held(a100, 1.3 * a100.tokens_per_s, 1.25).inside


def test_a_machines_own_effects_are_found() -> None:
    """Points made by known costs and factors: both come back, 40 points of one machine or not."""
    rng = np.random.default_rng(5)
    expected, spread = prior()
    costs = np.exp(expected + 0.3 * spread)
    effects = np.array([[0.0, 0.0], [0.3, 0.3], [-0.3, -0.3], [0.1, 0.1], [-0.1, -0.1]])
    machine = np.repeat(np.arange(5), [52, 12, 12, 12, 12])
    rows = rng.uniform(0.2, 1.0, (len(machine), len(TERMS))) * 1e4 / costs
    rows[:, np.isin(TERMS, FACTORS)] = 0.0
    us = token_us(rows, costs) * np.exp(effects[machine, 0])
    found = fit(Points(rows, us, np.zeros_like(machine), machine, 5), Form("made up"))
    both = found.effects.mean(axis=1)  # the shares on GPU and host are alike, so not each of them
    assert both - both[0] == pytest.approx(effects[:, 0], abs=0.1)
    again = token_us(rows[:1], np.exp(found.logs[0]))
    assert again == pytest.approx(token_us(rows[:1], costs), rel=0.1)
    spreads = np.sqrt(np.diag(found.covariance[0]))
    assert (spreads <= prior()[1] + 0.21).all()
