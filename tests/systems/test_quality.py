"""Widths and deferred experts at the loss of a system's own choice."""

from itertools import product

import numpy as np
import pytest

import moeopt
from tests.rooms.systems import fastest_widths
from tests.shares import shares

BITS = np.array([1, 2, 3, 4])


def busiest(cost: np.ndarray, unit: np.ndarray, chosen: np.ndarray) -> int:
    """Return what the busiest units take in all steps together."""
    taken = cost[:, np.arange(len(chosen)), chosen]
    return sum(max(int(step[unit == one].sum()) for one in set(unit.tolist())) for step in taken)


@pytest.mark.parametrize("seeds", shares(15, 60))
def test_widths_lie_between_bound_and_own_choice(seeds: range) -> None:
    """All choices are tried: none within the limits is below the bound, or faster than found."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        experts, units, steps = (int(rng.integers(1, most)) for most in (6, 4, 4))
        cost = rng.integers(0, 40, (steps, experts, 1))
        cost = cost + np.sort(rng.integers(0, 90, (steps, experts, 4)), axis=2)
        loss = -np.sort(-rng.integers(0, 60, (experts, 4)), axis=1)
        unit, start = rng.integers(0, units, experts), rng.integers(0, 4, experts)
        rows = np.arange(experts)
        most_loss, most_bits = loss[rows, start].sum(), BITS[start].sum()
        every = [np.array(one) for one in product(range(4), repeat=experts)]
        least = min(
            busiest(cost, unit, one)
            for one in every
            if loss[rows, one].sum() <= most_loss and BITS[one].sum() <= most_bits
        )
        found = fastest_widths(cost, unit, loss, BITS, start)
        assert found.bound_ns <= least == busiest(cost, unit, found.chosen)
        assert loss[rows, found.chosen].sum() <= most_loss
        assert BITS[found.chosen].sum() <= most_bits


def test_the_bound_is_not_trivial() -> None:
    """One unit, no limits that bind: the bound is the optimum."""
    cost = np.array([[[3, 5, 7, 9]] * 4])
    loss = np.zeros((4, 4), dtype=np.int64)
    found = fastest_widths(cost, np.zeros(4, dtype=np.int64), loss, BITS, np.full(4, 3))
    assert found.bound_ns == 12


def test_deferral_has_an_optimum_where_experts_are_deferred() -> None:
    """For single requests; in batches the paper defers none, and nothing is chosen."""
    machine, model = "ktransformers-a100", "deepseek-v2-lite"
    args = {"workload": "trimoe-skew", "prompt": 4, "output": 3, "layers": 3}
    for batch, there in ((1, True), (8, False)):
        found = moeopt.compare(machine, model, batch=batch, systems=("ktransformers",), **args)
        [row] = found.rows
        same = row.at_optimum_ms("same")
        assert (same is not None) == there
        if same is not None and row.mean_ms is not None:
            assert same <= row.mean_ms
