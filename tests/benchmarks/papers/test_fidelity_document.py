"""docs/fidelity.md is what `python -m benchmarks.papers` writes today."""

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.figure import Figure, Ours
from benchmarks.papers.published import parse_values, published
from benchmarks.papers.registry import CONTRADICTIONS, resolve
from benchmarks.papers.report.page import CEILINGS, fidelity_page
from benchmarks.papers.run import reproduce
from tests.benchmarks.papers.nearness import figure_of, without_traces
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
    made = fidelity_page([figure_of(name)]).splitlines()
    of_today, kept = (
        next(line for line in lines if line.startswith(f"| {name} |"))
        for lines in (made, text.splitlines())
    )
    assert_same_facts(of_today, kept)


@pytest.mark.parametrize(
    ("name", "begin"), [("T21", "Not computable are T21: "), ("K24", "Not computable are K24: ")]
)
def test_what_has_no_value_has_its_reason(name: str, begin: str, text: str) -> None:
    """Here T21, which its paper does not define, and K24, which takes a model."""
    made = fidelity_page([figure_of(name)])
    [reason] = [line for line in made.splitlines() if line.startswith(begin)]
    assert reason.partition(": ")[2].removesuffix(".") in text


def test_ceilings_stand_beside_the_published_value() -> None:
    """The best that any decision could give, and what is left, as a share of the whole."""
    ours = Ours((0.33, None), "assumed", (), optimum=(0.40, None))
    row = dataclasses.replace(published()["K5"], values=parse_values("0.33/1"))
    [line] = [
        line
        for line in fidelity_page([Figure(row, ours)]).splitlines()
        if line.startswith("| K5 | 0.33 / 1 fraction | 0.33 / - | 0.4 / - |")
    ]
    assert line.endswith("| +5.3 % / - |")


def test_ceilings_name_figures_with_an_optimum() -> None:
    """Of the quick ones here; the slow test of the page has them all."""
    for name in ("K5", "K15", "E2", "E4", "C2d", "C8", "G4", "G11"):
        figure = figure_of(name)
        assert name in CEILINGS
        for value, best in zip(figure.ours.values, figure.ours.optimum, strict=True):
            assert (value is None) == (best is None)
            assert value is None or best is None or best >= value - 1e-9
    assert set(CEILINGS) <= set(published())


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
