"""docs/measured.md and its picture are what `python -m benchmarks.measured` writes."""

from pathlib import Path

import pytest

from benchmarks.measured.comparison import Comparison, Errors
from benchmarks.measured.crossvalidation import Held
from benchmarks.measured.markdown import REASONS, to_markdown
from benchmarks.measured.picture import draw
from tests.facts import assert_same_facts


def test_the_document_is_that_of_today(comparison: Comparison, root: Path) -> None:
    """Every row of it; a point more or less, or another median, does not pass."""
    made = to_markdown(comparison, "measured.svg")
    assert_same_facts(made, (root / "docs" / "measured.md").read_text())
    for changed in (made.replace("8.2 %", "9.2 %"), made.replace(" 56 ", " 59 ")):
        assert changed != made
        with pytest.raises(AssertionError):
            assert_same_facts(made, changed)


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


def test_the_picture_shows_every_point(comparison: Comparison, root: Path) -> None:
    """Each where it was measured and predicted; the one in docs has the same machines and band."""
    [axis] = draw(comparison).axes
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    shown = sorted(point for line in axis.lines[1:] for point in zip(*line.get_data(), strict=True))
    rows = [(row.point.tokens_per_s, row.held_out.tokens_per_s) for row in comparison.rows]
    assert shown == sorted(rows)
    kept = (root / "docs" / "measured.svg").read_text()
    labels = [str(label) for label in axis.get_legend_handles_labels()[1]]
    assert "80 % of the points: within a factor of 1.20" in labels
    assert all(f">{label}</text>" in kept for label in labels)
