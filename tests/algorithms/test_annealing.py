"""Simulated annealing by its loop alone: laws that hold for whatever moves a problem brings."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rooms.algorithms import (
    EXPONENTIAL,
    IMPOSSIBLE,
    Annealing,
    below,
    drawn,
    falling,
    seeded,
    uniform,
)
from tests.rooms.core import part

Weights = list[int]


@part
def propose(weights, state, random, most, temperature):  # type: ignore[no-untyped-def]
    """Move one weight to the other side; the last one stays where it is."""
    bits, numbers = state
    i = below(random, len(bits))
    numbers[3] += 1
    if i == len(bits) - 1:
        return IMPOSSIBLE
    numbers[1], sign = i, 1 - 2 * bits[i]
    change = abs(numbers[0] + 2 * sign * weights[i]) - abs(numbers[0])
    bits[i] += sign
    numbers[0] += 2 * sign * weights[i]
    return float(change)


@part
def commit(weights, state):  # type: ignore[no-untyped-def]
    """Note the least difference of the two sides."""
    numbers = state[1]
    numbers[2] = min(numbers[2], abs(numbers[0]))
    numbers[4] += 1


@part
def revert(weights, state):  # type: ignore[no-untyped-def]
    """Move it back."""
    bits, numbers = state
    sign = 1 - 2 * bits[numbers[1]]
    bits[numbers[1]] += sign
    numbers[0] += 2 * sign * weights[numbers[1]]


anneal = Annealing(propose, commit, revert)


def begun(weights: Weights) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return weights, and all of them on one side: difference, last moved, least, tried, kept."""
    total = sum(weights)
    return np.array(weights), (np.zeros(len(weights), np.int64), np.array([-total, 0, total, 0, 0]))


def plain(weights: Weights, seed: int, temperatures: list[float], moves: int) -> np.ndarray:
    """Return a state's numbers after a walk without compiled code."""
    of, state = begun(weights)
    random = seeded(seed)
    for temperature in temperatures:
        anneal.loop.py_func(of, state, random, EXPONENTIAL, temperature, moves)
    bits, numbers = state
    assert numbers[0] == (2 * bits - 1) @ of  # nothing is left of moves that were taken back
    assert numbers[3] == len(temperatures) * moves
    return numbers


def least(weights: Weights) -> int:
    """Return the least difference of two sides, of all ways to share the weights."""
    return min(
        abs(sum(w * sign for w, sign in zip(weights, (*signs, -1), strict=True)))
        for signs in product((-1, 1), repeat=len(weights) - 1)
    )


@given(st.lists(st.integers(1, 30), min_size=2, max_size=6), st.integers(0, 99))
@settings(max_examples=30)
def test_no_state_is_better_than_brute_force_says(weights: Weights, seed: int) -> None:
    """A walk sees no state that is better than the best, and keeps the value of one that is."""
    assert plain(weights, seed, falling(30.0, 3.0, 8), 20)[2] >= least(weights)


def test_a_long_enough_walk_sees_the_best_of_a_few_states() -> None:
    """In at least 38 of 40 draws of six weights."""
    drawn = np.random.default_rng(1).integers(1, 31, (40, 6)).tolist()
    found = [plain(of, seed, falling(30.0, 3.0, 8), 150)[2] for seed, of in enumerate(drawn)]
    assert sum(one == least(of) for one, of in zip(found, drawn, strict=True)) >= 38


def test_nothing_gets_worse_without_heat() -> None:
    """At temperature 0 the value never rises, move by move."""
    of, state = begun([5, 3, 8, 1, 9, 4])
    random, before = seeded(3), abs(state[1][0])
    for _ in range(200):
        anneal.loop.py_func(of, state, random, EXPONENTIAL, 0.0, 1)
        assert abs(state[1][0]) <= before
        before = abs(state[1][0])


def test_the_walk_visits_states_as_often_as_boltzmann_says() -> None:
    """Two states with values 3 and 1: at temperature 2 they are seen e to 1."""
    of, state = begun([1, 2])
    random, seen = seeded(1), [0, 0]
    for _ in range(20_000):
        anneal.loop.py_func(of, state, random, EXPONENTIAL, 2.0, 1)
        seen[int(abs(state[1][0]) == 1)] += 1
    assert seen[1] / seen[0] == pytest.approx(np.e, rel=0.1)


def test_compiled_and_plain_walks_are_the_same() -> None:
    """The compiled loop takes the moves that Python takes; a limit ends it between temperatures."""
    weights = [5, 3, 8, 1, 9, 4]
    of, state = begun(weights)
    anneal(of, state, seeded(7), [4.0, 2.0], 100)
    assert state[1].tolist() == plain(weights, 7, [4.0, 2.0], 100).tolist()
    asked = iter([False, True])
    of, state = begun(weights)
    anneal(of, state, seeded(7), [4.0, 2.0], 100, stopped=lambda: next(asked))
    assert state[1].tolist() == plain(weights, 7, [4.0], 100).tolist()


def test_random_numbers_are_even_and_differ_by_seed() -> None:
    """Tenths of [0, 1) and integers are about equally frequent; no two seeds begin alike."""
    random = seeded(0)
    tenths = np.bincount([int(10 * uniform.py_func(random)) for _ in range(5000)])
    sevens = np.bincount([below.py_func(random, 7) for _ in range(5000)])
    assert abs(tenths - 500).max() < 100
    assert abs(sevens - 5000 / 7).max() < 120
    assert len({int(drawn.py_func(seeded(seed))) for seed in range(100)}) == 100


def test_temperatures_fall_by_one_factor() -> None:
    """From the first to the last, at least one."""
    assert falling(8.0, 1.0, 4) == pytest.approx([8.0, 4.0, 2.0, 1.0])
    assert falling(8.0, 1.0, 0) == [8.0]
    assert pytest.approx(1.0, rel=0.02) == EXPONENTIAL.mean()
