"""Intervals of medians: the binomial's tails, and how often they hold the median."""

import numpy as np
import pytest

from tests.rooms.study import median_interval


def test_ranks_are_those_of_tables() -> None:
    """David and Nagaraja's way by hand: 2 P(B(20, 1/2) <= 5) is 0.041, with 6 it is 0.115."""
    assert median_interval(range(20)) == (5, 14)
    assert median_interval([3, 1, 2, 6, 5, 4]) == (1, 6)
    assert median_interval(range(1000)) == (468, 531)
    assert median_interval(range(8), confidence=0.99) == (0, 7)
    assert median_interval(range(7), confidence=0.99) is None


@pytest.mark.parametrize("values", [[], [1.0], [1.0] * 5])
def test_too_few_values_have_none(values: list[float]) -> None:
    assert median_interval(values) is None


@pytest.mark.parametrize("n", [6, 9, 20, 60])
def test_it_holds_the_median_as_often_as_it_says(n: int) -> None:
    """Of a skew distribution, in 95 % of 2,000 samples and more, but not in nearly all."""
    samples = np.random.default_rng(n).exponential(size=(2000, n)).tolist()
    inside = [low <= np.log(2) <= high for low, high in map(median_interval, samples)]  # type: ignore[misc]
    assert 0.94 < np.mean(inside) < 0.985
