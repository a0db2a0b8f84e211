"""Means over seeds: the interval, and that a verdict needs all of it."""

import numpy as np
import pytest
from scipy.stats import t

from benchmarks.papers.figure import Figure, Ours
from benchmarks.papers.published import Interval, Published, parse_values
from benchmarks.papers.report.words import cells, ranges
from benchmarks.papers.seeds import SEEDS, over_seeds
from tests.benchmarks.papers.toy_figures import figure


def drawn(value: float, low: float, high: float, name: str = "T1") -> Figure:
    """Return a figure published as 1 whose mean has an interval."""
    published = Published(name, "trimoe", "5.3", "a_quantity", parse_values("1"), "x", "")
    ours = Ours((value,), "assumed", (), intervals=(Interval(low, high),), seeds=6)
    return Figure(published, ours)


def test_there_are_six_seeds() -> None:
    """At least; none twice."""
    assert len(set(SEEDS)) >= 6


def test_the_interval_is_students() -> None:
    """As scipy has it for the mean of six observations, of every value by itself."""
    observed = np.array([[1.0, 5.0], [1.2, 5.0], [0.9, 5.0], [1.4, 5.0], [1.1, 5.0], [1.0, 5.0]])
    found = over_seeds(lambda seed: observed[seed].tolist())
    column = observed[:, 0]
    scale = column.std(ddof=1) / np.sqrt(6)
    expected = t.interval(0.95, 5, loc=column.mean(), scale=scale)
    assert found.seeds == 6
    assert found.values == pytest.approx((column.mean(), 5.0))
    assert (found.intervals[0].low, found.intervals[0].high) == pytest.approx(expected)
    assert found.intervals[1] == Interval(5.0, 5.0)
    assert found.text() == "1.10 (0.91-1.29)"


def test_an_interval_covers_the_mean_as_often_as_it_says() -> None:
    """Of 2,000 normal samples of six some 5 % miss; a normal interval would miss 11 %."""
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(2000):
        sample = rng.normal(size=6)
        (interval,) = over_seeds(lambda seed, sample=sample: (sample[seed],)).intervals
        missed += not interval.low <= 0 <= interval.high
    assert 0.035 < missed / 2000 < 0.065


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (1.0, 0.95, 1.05, "reproduces"),
        (1.0, 0.94, 1.06, "within 10 %"),
        (1.04, 1.02, 1.06, "within 10 %"),
        (0.97, 0.94, 1.0, "within 10 %"),
        (1.2, 1.1, 1.3, "no"),
    ],
)
def test_a_verdict_needs_the_whole_interval(
    value: float, low: float, high: float, verdict: str
) -> None:
    """Its worse end decides, although the error is that of the mean."""
    found = drawn(value, low, high)
    assert found.verdict == verdict
    assert found.errors == pytest.approx((value - 1,))


def test_an_upper_limit_is_no_reproduction() -> None:
    """However near it comes."""
    assert figure("1", 1.0, kind="limit").verdict == "upper limit"


def test_an_interval_is_shown_and_recorded() -> None:
    """In the row, in the record, and in short where both ends read the same."""
    found = drawn(1.0, 0.94, 1.06)
    assert cells(found)[2:4] == ("1", "0.94-1.06")
    assert found.to_dict()["intervals"] == [[0.94, 1.06]]
    assert found.to_dict()["seeds"] == 6
    assert ranges((Interval(16.0, 16.0), None)) == "16 / -"
    assert ranges(()) == ""


def test_as_many_intervals_as_values() -> None:
    """Or none."""
    with pytest.raises(ValueError, match="intervals: must have as many values as ours"):
        Ours((1.0, 2.0), "assumed", (), intervals=(None,))
