"""HiGHS on plain arrays."""

import numpy as np
import pytest
from scipy.sparse import csr_array

from tests.rooms.core import Program, minimize


def knapsack(capacity: float, least: float = -np.inf) -> Program:
    """Keep what is worth most: sizes 3, 4, 5, worth 4, 5, 6."""
    return Program(
        cost=np.array([-4.0, -5.0, -6.0]),
        lower=np.zeros(3),
        upper=np.ones(3),
        integer=np.ones(3, dtype=np.int64),
        rows=csr_array(np.array([[3.0, 4.0, 5.0]])),
        row_lower=np.array([least]),
        row_upper=np.array([capacity]),
    )


@pytest.mark.parametrize(("capacity", "worth"), [(12, 15), (9, 11), (8, 10), (7, 9), (2, 0)])
def test_optima_by_hand(capacity: int, worth: int) -> None:
    """The bound comes with the value, and meets it."""
    found = minimize(knapsack(capacity), 10)
    assert found.status == "optimal"
    assert found.objective == pytest.approx(-worth)
    assert found.bound == pytest.approx(-worth)
    assert found.values is not None
    assert knapsack(capacity).cost @ found.values == pytest.approx(-worth)


def test_unknown_is_none() -> None:
    """Without a solution there are no numbers."""
    found = minimize(knapsack(2, least=1), 10)
    assert (found.status, found.objective, found.values) == ("infeasible", None, None)
