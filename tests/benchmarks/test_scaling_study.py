"""Costs against size: the fitted slope, where proofs end, and the figures."""

import sys
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest

from benchmarks.studies import scaling
from benchmarks.studies.scaling import AXES, BEGIN, END, doubling, measure, slope
from benchmarks.studies.scaling_figures import Line, Panel, figure
from tests.rooms.problems import PROBLEMS


def test_the_slope_is_the_power() -> None:
    """Of the last four points alone; too few have none."""
    assert slope({size: 3e-4 * size**2.5 for size in (2, 4, 8, 16)}) == pytest.approx(2.5)
    floor = {1: 1.0, 2: 1.0, 4: 1.0} | {size: size**1.5 for size in (8, 16, 32, 64)}
    assert slope(floor) == pytest.approx(1.5)
    assert slope({2: 1.0, 4: 2.0}) is None


def test_every_problem_has_its_sizes() -> None:
    """All of the registry; each size doubles, and its instances are the problem's own."""
    assert set(AXES) == set(PROBLEMS)
    for problem, axes in AXES.items():
        for axis in axes:
            first = axis.sizes[0]
            assert axis.sizes == tuple(first * 2**n for n in range(len(axis.sizes)))
            assert len(axis.sizes) >= 4
            assert axis.make(first, 0).problem == problem
    assert doubling(3, 25) == (3, 6, 12, 24)


def test_a_proof_that_is_not_found_ends_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most seeds decide; the rule's line goes on."""
    [axis] = AXES["deferral"]
    real = scaling._solved

    def solved(instance: object, method: str, limit_s: float) -> tuple[float, object]:
        seconds, result = real(instance, method, limit_s)
        layers = len(instance.attention_ns)  # type: ignore[attr-defined]
        if method == "dp" and layers > 4:
            result = result.__class__(**(vars(result) | {"status": "feasible"}))
        return seconds, result

    monkeypatch.setattr(scaling, "_solved", solved)
    found = measure("deferral", axis, (4, 8, 16), range(2), 1.0)
    assert found.stopped == (8, 0, 2)
    assert list(found.seconds["exact"]) == [4]
    assert list(found.seconds["rule"]) == list(found.seconds["execute"]) == [4, 8, 16]


def test_the_page_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table between the markers, and a figure that is XML."""
    page = tmp_path / "costs.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    command = ["scaling.py", "--problems", "deferral", "--seeds", "1", "--smaller", "3"]
    monkeypatch.setattr(sys, "argv", [*command, "--page", str(page)])
    scaling.main()
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| problem")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| deferral | layers | 4 | 32 |" in text
    assert Xml.parse(tmp_path / "costs" / "deferral.svg").getroot().tag.endswith("svg")


def test_labels_do_not_touch_and_crosses_are_drawn() -> None:
    """Lines that end at one place get labels one below the other."""
    lines = [Line(name, {8: 1e-3, 16: 2e-3}, 1.0) for name in ("proof", "rule", "execution")]
    drawn = figure("some <title>", [Panel("experts", lines, 16)])
    root = Xml.fromstring(drawn)
    labels = [e for e in root.iter() if e.get("class") == "label"]
    assert [label.text for label in labels] == ["proof 1.0", "rule 1.0", "execution 1.0"]
    heights = [float(label.get("y", "0")) for label in labels]
    assert min(b - a for a, b in pairwise(heights)) >= 11
    assert "no proof at" in drawn
    assert "&lt;title&gt;" in drawn
    assert "prefers-color-scheme: dark" in drawn
