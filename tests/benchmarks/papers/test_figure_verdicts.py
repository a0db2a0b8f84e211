"""Errors and verdicts: ours against a published value or range."""

import pytest

from benchmarks.papers.figure import Figure, Ours
from benchmarks.papers.published import Interval
from benchmarks.papers.report.words import open_for
from tests.benchmarks.papers.toy_figures import figure


@pytest.mark.parametrize(
    ("interval", "value", "error"),
    [
        (Interval(2.0, 2.0), 2.2, 0.1),
        (Interval(2.0, 2.0), 1.0, -0.5),
        (Interval(2.0, 4.0), 2.0, 0.0),
        (Interval(2.0, 4.0), 3.3, 0.0),
        (Interval(2.0, 4.0), 5.0, 0.25),
        (Interval(2.0, 4.0), 1.5, -0.25),
        (Interval(0.0, 0.0), 0.0, 0.0),
        (Interval(0.0, 0.0), 0.02, 0.02),
    ],
)
def test_error_is_a_share_from_the_nearer_end(
    interval: Interval, value: float, error: float
) -> None:
    """0 inside a range; of a published 0 the difference itself."""
    assert interval.error(value) == pytest.approx(error)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [
        (1.05, "reproduces"),
        (0.95, "reproduces"),
        (1.051, "within 10 %"),
        (1.10, "within 10 %"),
        (0.89, "within 25 %"),
        (1.25, "within 25 %"),
        (1.26, "no"),
        (0.0, "no"),
        (None, "not computable"),
    ],
)
def test_verdicts_change_at_5_10_and_25_percent(ours: float | None, verdict: str) -> None:
    """The limits themselves belong to the better verdict."""
    assert figure("1", ours).verdict == verdict


def test_the_worst_value_decides() -> None:
    """Of several values, and a range beside a value."""
    assert figure("1/2-3", 1.0, 3.5).verdict == "within 25 %"
    assert figure("1/2-3", 1.0, 2.5).verdict == "reproduces"
    assert figure("1/2-3", 0.5, 2.5).errors == (-0.5, 0.0)


def test_an_unknown_value_is_said_to_be_unknown() -> None:
    """The verdict is that of the others, in part."""
    half = figure("1/2", 1.0, None)
    assert (half.verdict, half.is_partial, half.errors) == ("reproduces", True, (0.0, None))
    assert not figure("1/2", None, None).is_partial
    assert not figure("1/2", 1.0, 2.0).is_partial


def test_an_input_is_never_a_prediction() -> None:
    """However well it agrees."""
    assert figure("1", 1.0, kind="input").verdict == "input"


def test_what_the_package_lacks_is_open() -> None:
    """A figure without a value is open if it says what is missing; one with a value is judged."""
    unknown, known = (
        Figure(figure("1", 1.0).published, Ours((value,), "assumed", (), missing="prompts"))
        for value in (None, 1.3)
    )
    assert (unknown.verdict, known.verdict) == ("open", "no")
    assert open_for(known) == "open: prompts"
    assert known.to_dict()["missing"] == "prompts"
    assert open_for(figure("1", 1.0)) == ""


def test_what_does_not_fit_is_refused() -> None:
    """A number of values that differs, an unknown kind."""
    with pytest.raises(ValueError, match="has 2 published values and 1 of ours"):
        figure("1/2", 1.0)
    with pytest.raises(ValueError, match="kind: 'guessed' is none of predicted"):
        figure("1", 1.0, kind="guessed")
    with pytest.raises(ValueError, match="optimum: must have as many values"):
        Ours((1.0, 2.0), "predicted", (), optimum=(1.0,))


def test_a_record_holds_what_the_table_shows() -> None:
    """JSON values only, with errors and verdict computed."""
    record = figure("1/2-3", 1.1, 2.0, note="why").to_dict()
    assert record["published"] == [[1.0, 1.0], [2.0, 3.0]]
    assert record["ours"] == [1.1, 2.0]
    assert record["errors"] == pytest.approx([0.1, 0.0])
    assert (record["verdict"], record["partial"], record["note"]) == ("within 10 %", False, "why")
