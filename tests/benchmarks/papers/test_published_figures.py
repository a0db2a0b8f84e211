"""The published figures: facts in a table, and how its cells are read."""

import pytest

from benchmarks.papers.published import Interval, parse_values, published
from benchmarks.papers.registry import CHARTS, CONTRADICTIONS, FIGURES, SWEEPS, resolve
from benchmarks.papers.report.words import TITLES
from moeopt import InputError


def test_there_are_86_in_five_papers() -> None:
    """Each with a paper, a place and a value; what stands beside them names some of them."""
    table = published()
    assert sum(not figure.beside for figure in table.values()) == 86
    for figure in table.values():
        assert {table[name].beside for name in figure.beside.split()} <= {""}
    assert {figure.paper for figure in table.values()} == set(TITLES)
    assert all(figure.values and figure.where and figure.quantity for figure in table.values())


@pytest.mark.parametrize(
    ("figure", "values"),
    [
        ("T14", (Interval(0.5, 0.5),)),
        ("T12", (Interval(2.72, 2.72), Interval(2.18, 2.18), Interval(1.82, 1.82))),
        ("T17", (Interval(0.2, 0.4), Interval(0.7, 0.7))),
        ("C4", (Interval(7.6, 8.7), Interval(9.5, 11.2))),
        ("K3", (Interval(0.0, 0.0),)),
    ],
)
def test_values_are_read_as_they_stand(figure: str, values: tuple[Interval, ...]) -> None:
    """One value, several, ranges, and both mixed."""
    assert published()[figure].values == values


@pytest.mark.parametrize("text", ["", "a", "1/", "2-1", "1-2-3", "1/x"])
def test_what_is_no_value_is_refused(text: str) -> None:
    """A part that is no number, and a range that falls."""
    with pytest.raises(InputError, match="is neither a number nor a range"):
        parse_values(text)


def test_the_table_shows_what_was_parsed() -> None:
    """Numbers and ranges read the same again."""
    for figure in published().values():
        assert parse_values(figure.text) == figure.values


def test_every_figure_has_a_function_and_every_function_a_figure() -> None:
    """The registry and the table name the same ids, in the same order."""
    assert list(FIGURES) == list(published())


@pytest.mark.parametrize(
    "place", [*FIGURES.values(), *CHARTS.values(), *SWEEPS.values(), *CONTRADICTIONS.values()]
)
def test_what_the_registry_names_exists(place: str) -> None:
    """A function with a docstring."""
    assert resolve(place).__doc__


def test_every_paper_has_charts_only_under_its_name() -> None:
    """Charts and contradictions go with papers of the table."""
    assert set(CHARTS) <= set(TITLES)
    assert set(CONTRADICTIONS) == set(TITLES)
