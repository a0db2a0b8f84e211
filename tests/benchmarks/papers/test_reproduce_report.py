"""The report: every text escaped, the same bytes each time."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from benchmarks.papers.charts import Curve, Schedule
from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.report.document import Document
from benchmarks.papers.report.markdown import to_markdown
from benchmarks.papers.report.plots import chart_svg, ratios_svg
from benchmarks.papers.report.words import number, percent, summary, tally
from benchmarks.papers.report.write import write_report
from benchmarks.papers.sweep import Sweep
from tests.benchmarks.papers.toy_figures import NASTY, figure
from tests.rooms.core import Bar, Lane

CURVE = Curve(
    NASTY, "Fig. 1", "x", "y", (1.0, 2.0), {NASTY: (1.0, None)}, {"published": (None, 2.0)}, (1.5,)
)
BARS = Curve("bars", "Fig. 2", "x", "y", ("a", "b"), {"one": (1.0, 2.0)}, kind="bar")
SCHEDULE = Schedule(
    "schedule", "Fig. 3", {NASTY: (Lane("GPU", (Bar(0, 2_000_000, "a", "work"),)),)}
)
DOCUMENT = Document(
    [figure("1/2", 1.0, None, note=NASTY), figure("1", 2.0, name="T2")],
    {"a-sweep": Sweep(NASTY, "1", "assumed", ("T5",), ((NASTY, (1.5,)), ("b", (None,))), NASTY)},
    {"trimoe": (Contradiction("4.2", NASTY, "1 + 1 = 2.", "so"),)},
    {"trimoe": (CURVE, BARS, SCHEDULE)},
)


def test_markdown_keeps_its_tables() -> None:
    """No cell of untrusted text adds a column or a tag."""
    text = to_markdown(DOCUMENT)
    assert "<script>" not in text
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert any("a\\|b \\*c\\*" in row for row in rows)
    for before, after in pairwise(rows):
        if "---" in after:
            assert after.count("|") == before.count("|")
    assert "1 + 1 = 2." in text
    assert "(in part)" in text


@pytest.mark.slow
def test_the_report_is_the_same_each_time(tmp_path: Path) -> None:
    """Byte for byte, pictures included, and Markdown shows the pictures that are there."""
    for name in ("a", "b"):
        write_report(DOCUMENT, tmp_path / name)
    files = sorted(path.relative_to(tmp_path / "a") for path in (tmp_path / "a").rglob("*.*"))
    assert len(files) == 5
    for file in files:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
        if file.suffix == ".svg":
            assert f"({file.as_posix()})" in (tmp_path / "a" / "report.md").read_text()


def test_what_several_figures_assume_is_stated_once() -> None:
    """Under a letter that each of them names; a figure's own stays with it."""
    text = to_markdown(
        Document([figure("1", 1.0), figure("1", 2.0, name="T2", note="so.")], {}, {}, {})
    )
    assert text.split("## TriMoE")[1].count("an assumption") == 1
    for line in ("- (a) an assumption.", "- **T1** (a).", "- **T2** (a); so."):
        assert line in text.splitlines()
    alone = to_markdown(Document([figure("1", 1.0, note="so")], {}, {}, {}))
    assert "- **T1** an assumption; so." in alone.splitlines()


@pytest.mark.slow
def test_pictures_name_what_they_show() -> None:
    """Ids of the figures, series and lanes; a figure without a ratio is left out."""
    ratios = ratios_svg(DOCUMENT.figures)
    assert ratios is not None
    assert ">T1.1<" in ratios
    assert ">T1.2<" not in ratios
    assert ratios_svg([figure("1", None)]) is None
    assert ">bars (Fig. 2)<" in chart_svg(BARS)
    assert ">GPU<" in chart_svg(SCHEDULE)
    assert "&lt;script&gt;" in chart_svg(CURVE)


def test_series_must_fit_their_axis() -> None:
    """As many values as places."""
    with pytest.raises(ValueError, match="one: 1 values at 2"):
        Curve("c", "s", "x", "y", (1.0, 2.0), {"one": (1.0,)})
    with pytest.raises(ValueError, match="a: has 1 values"):
        Sweep("p", "1", "s", ("T5", "T6"), (("a", (1.0,)),))


def test_the_tally_counts_every_figure_once() -> None:
    """By verdict, with kinds and ids."""
    rows = {verdict: rest for verdict, *rest in tally(DOCUMENT.figures)}
    assert rows["reproduces"] == [1, "1 predicted", "T1"]
    assert rows["no"] == [1, "1 predicted", "T2"]
    assert sum(count for count, *_ in rows.values()) == 2


def test_what_stands_beside_a_figure_is_not_counted() -> None:
    """Neither in the sentence nor under a verdict; its own is said in the last row."""
    beside = figure("1", 1.0, name="T1u")
    beside = replace(beside, published=replace(beside.published, beside="T1"))
    figures = [figure("1", 1.0, kind="selected"), figure("1", 2.0, name="T2"), beside]
    assert summary(figures).startswith("1 of 2 published figures come out within 5 %, 1 of them")
    assert summary(figures[1:]).startswith("0 of 1 published figures")
    rows = {verdict: rest for verdict, *rest in tally(figures)}
    assert rows["reproduces"] == [1, "1 selected", "T1"]
    assert rows["not counted"] == [1, "", "T1u: reproduces"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (2.1136, "2.11"), (16.0, "16"), (0.0859, "0.0859"), (1e4, "10000")],
)
def test_numbers_are_short(value: float | None, text: str) -> None:
    """Three significant digits, and all of a large integer."""
    assert number(value) == text


def test_errors_have_a_sign() -> None:
    """None is a dash, nothing is 0."""
    assert [percent(error) for error in (0.049, -0.25, 0.0, None)] == [
        "+4.9 %",
        "-25.0 %",
        "0 %",
        "-",
    ]


def test_unknown_papers_are_no_reason_to_fail() -> None:
    """A document of one figure has its paper's contradictions; charts only if wanted."""
    document = Document.of([figure("1", 1.0)], {}, charts=False)
    assert document.charts == {}
    assert document.contradictions["trimoe"]
    assert "Assumed" in to_markdown(document)
