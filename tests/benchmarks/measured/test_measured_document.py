"""docs/measured.md and its picture are what `python -m benchmarks.measured` writes."""

import re
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import pytest

from benchmarks.measured.comparison import Comparison, Errors
from benchmarks.measured.crossvalidation import Held
from benchmarks.measured.markdown import REASONS, to_markdown
from benchmarks.measured.picture import draw
from moeopt.study.pictures import save_figure

NUMBER = re.compile(r"\d+(?:\.\d+)?")


def last_digit(number: str) -> float:
    """Return what one step of the last digit is worth; whole numbers may end with a rounded one."""
    return 10.0 ** -len(number.partition(".")[2])


def assert_same(made: str, kept: str) -> None:
    """Compare texts, numbers with decimals up to one step of their last digit."""
    assert NUMBER.sub("#", made) == NUMBER.sub("#", kept)
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(kept), strict=True):
        exact = "." not in one and "." not in other
        slack = 0.0 if exact else 1.01 * max(last_digit(one), last_digit(other))
        if float(one) != float(other):
            assert abs(float(one) - float(other)) <= slack, (one, other)


def test_the_document_is_that_of_today(comparison: Comparison, root: Path) -> None:
    """Word for word; another machine's arithmetic may round the last digit the other way."""
    made = to_markdown(comparison, "measured.svg")
    assert_same(made, (root / "docs" / "measured.md").read_text())
    for changed in (made.replace("8.2 %", "8.4 %"), made.replace(" 56 ", " 57 ")):
        with pytest.raises(AssertionError):
            assert_same(made, changed)


def test_the_document_says_what_is_asked_of_it(comparison: Comparison) -> None:
    """A row per point that can be expressed, every other with a reason, others' figures beside."""
    text = to_markdown(comparison)
    every = text.split("## Every point")[1].split("\n## ")[0]
    assert every.count("\n| ") == 2 + len(comparison.rows)
    assert len(comparison.rows) + len(comparison.left_out) == 135
    assert all(point.why_not for point in comparison.left_out)
    assert "| another tool: a model carried to another machine |  | 24-34 % |" in text
    assert ".svg" not in text
    worst = text.split("## Where it is worst")[1].split("\n## ")[0]
    known = [one.point for one in comparison.worst()]
    assert ("5090+7980xe", "deepseek-r1", "IQ1_S", "ik_llama.cpp") in REASONS
    assert (known[0].machine, known[0].bits) == ("5090+7980xe", "IQ1_S")
    assert "codebook" in worst


def test_reasons_are_of_points_that_are_there(comparison: Comparison) -> None:
    """None explains what was never measured."""
    there = {(p.machine, p.model, p.bits, p.runtime) for p in (r.point for r in comparison.rows)}
    assert set(REASONS) <= there


def test_errors_by_hand(comparison: Comparison) -> None:
    """Median and p90 of sizes, the worst with its sign."""
    point = comparison.rows[0].point
    held = [Held(point, factor * point.tokens_per_s) for factor in (0.5, 1.1, 1.2)]
    found = Errors.of(held)
    assert (found.points, found.inside) == (3, None)
    assert found.median == pytest.approx(0.2)
    assert found.p90 == pytest.approx(0.2 + 0.8 * 0.3)
    assert found.worst == pytest.approx(-0.5)


def test_settings_are_told_apart(comparison: Comparison) -> None:
    """Experts on the CPU: none, some, all, and all where there is no GPU."""
    counts = {name: len(rows) for name, rows in comparison.by(lambda r: r.experts_on_cpu).items()}
    assert counts == {"none": 4, "some": 38, "all": 12, "all, no GPU": 2}


def test_the_picture_is_that_of_today(comparison: Comparison, root: Path, tmp_path: Path) -> None:
    """Labels always, all of it where matplotlib is the same; a point that moved is drawn moved."""
    one, *others = comparison.rows
    moved = replace(one, held_out=Held(one.point, 2 * one.held_out.tokens_per_s))
    made = []
    for drawn in (comparison, replace(comparison, rows=(moved, *others))):
        save_figure(draw(drawn), tmp_path / "picture.svg")
        made.append((tmp_path / "picture.svg").read_text())
    kept = (root / "docs" / "measured.svg").read_text()
    labels = re.compile(r">([^<>]*\w[^<>]*)</text>")
    assert labels.findall(made[0]) == labels.findall(kept)
    assert "80 % of the points: within a factor of 1.20" in labels.findall(kept)
    if f"Matplotlib v{mpl.__version__}" in kept:
        assert_same(made[0], kept)
        with pytest.raises(AssertionError):
            assert_same(made[1], kept)
