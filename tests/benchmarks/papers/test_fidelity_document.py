"""docs/fidelity.md is what `python -m benchmarks.papers` writes today."""

import re
from pathlib import Path

import pytest

from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.figure import Figure
from benchmarks.papers.published import published
from benchmarks.papers.registry import CONTRADICTIONS, resolve
from benchmarks.papers.report.page import fidelity_page
from benchmarks.papers.run import compute, reproduce
from tests.benchmarks.papers.nearness import without_traces
from tests.facts import assert_same_facts

QUICK = ("T15", "T17", "G1")


@pytest.fixture
def text(root: Path) -> str:
    """Return the document."""
    return (root / "docs" / "fidelity.md").read_text()


def test_every_figure_is_named(text: str) -> None:
    """Once under its verdict; its row, if it has one, states the published value."""
    verdicts, rest = text.split("## TriMoE")
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in rest.splitlines()}
    for name, figure in published().items():
        assert re.search(rf"\b{name}\b", verdicts), name
        if name in rows:
            assert f" {figure.text}" in rows[name]
    assert len(rows) > 35


@pytest.mark.parametrize("name", QUICK)
def test_quick_rows_are_those_of_today(name: str, text: str) -> None:
    """Value, kind and verdict."""
    made = fidelity_page([Figure(published()[name], compute(name))]).splitlines()
    of_today, kept = (
        next(line for line in lines if line.startswith(f"| {name} |"))
        for lines in (made, text.splitlines())
    )
    assert_same_facts(of_today, kept)


def test_what_is_not_computable_has_its_reason(text: str) -> None:
    """Here T18, of a paper that states too little."""
    made = fidelity_page([Figure(published()["T18"], compute("T18"))])
    [reason] = [line for line in made.splitlines() if line.startswith("Not computable are T18: ")]
    assert reason.removeprefix("Not computable are ") in text


@pytest.mark.parametrize("paper", CONTRADICTIONS)
def test_papers_contradictions_have_a_assumption(paper: str) -> None:
    """Where, what, and how it is assumed."""
    found: tuple[Contradiction, ...] = resolve(CONTRADICTIONS[paper])()
    assert found
    assert all(one.where and one.statement and one.assumption for one in found)


@pytest.mark.slow
def test_the_whole_document_is_that_of_today(text: str) -> None:
    """`python -m benchmarks.papers --markdown docs/fidelity.md`, without traces: a CPU minute."""
    with without_traces():
        assert_same_facts(fidelity_page(list(reproduce())), text)
