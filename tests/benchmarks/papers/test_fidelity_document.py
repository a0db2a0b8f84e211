"""docs/fidelity.md is what `python -m benchmarks.papers` writes today."""

from pathlib import Path

import pytest

from benchmarks.papers.figure import Figure
from benchmarks.papers.published import published
from benchmarks.papers.registry import SWEEPS
from benchmarks.papers.report.document import Document
from benchmarks.papers.report.markdown import plain, to_markdown
from benchmarks.papers.run import compute, reproduce
from benchmarks.papers.sweep import sweeps
from tests.benchmarks.papers.nearness import without_traces
from tests.facts import assert_same_facts

QUICK = ("T1", "T15", "T16", "T17")


@pytest.fixture
def text(root: Path) -> str:
    """Return the document."""
    return (root / "docs" / "fidelity.md").read_text()


def test_every_figure_has_its_row(text: str) -> None:
    """With id and published value."""
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in text.splitlines()}
    for name, figure in published().items():
        assert f" {figure.text}" in rows[name]


@pytest.mark.parametrize("name", QUICK)
def test_quick_rows_are_those_of_today(name: str, text: str) -> None:
    """Row and note."""
    figure = Figure(published()[name], compute(name))
    made = to_markdown(Document([figure], {}, {}, {}), brief=True).splitlines()
    of_today, kept = (
        next(line for line in lines if line.startswith(f"| {name} |"))
        for lines in (made, text.splitlines())
    )
    assert_same_facts(of_today, kept)
    assert all(plain(clause) in text for clause in figure.ours.assumptions)


def test_what_is_missed_has_its_remark(text: str) -> None:
    """Here T18, of a paper that states too little; remarks on what comes out are left out."""
    assert plain(compute("T18").note).rstrip(".") in text
    assert plain(compute("T15").note) not in text


def test_every_sweep_is_named(text: str) -> None:
    """In a line of its own."""
    for name in SWEEPS:
        assert f"(`{name}`, default " in text


@pytest.mark.slow
def test_the_whole_document_is_that_of_today(text: str) -> None:
    """`python -m benchmarks.papers --markdown docs/fidelity.md`, without traces: some minutes."""
    with without_traces():
        document = Document.of(list(reproduce()), dict(sweeps(["all"])), charts=False)
        assert_same_facts(to_markdown(document, brief=True), text)
