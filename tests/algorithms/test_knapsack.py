"""Knapsacks against all choices, on small numbers with many equal ones."""

import random
from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest

from tests.rooms.algorithms import (
    FAR,
    Curve,
    Knapsack,
    MergedCurves,
    Stopped,
    TooLarge,
    capacity_price,
    knapsack,
    merged,
    priced,
)


def choices(
    weights: np.ndarray, costs: np.ndarray, least: list[int]
) -> Iterator[tuple[int, int, tuple[int, ...]]]:
    """Yield weight, cost and options of every choice that takes each option often enough."""
    classes, options = costs.shape
    rows = np.arange(classes)
    weights = np.broadcast_to(weights, costs.shape)
    for of in product(range(options), repeat=classes):
        if (costs[rows, of] < FAR).all() and all(
            of.count(option) >= count for option, count in enumerate(least)
        ):
            yield int(weights[rows, of].sum()), int(costs[rows, of].sum()), of


@pytest.mark.parametrize("seed", range(120))
def test_the_table_is_that_of_all_choices(seed: int) -> None:
    """The least cost of every weight, and a choice that has it; with counts, and without."""
    rng = np.random.default_rng(seed)
    classes, options = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    shape = (classes, options) if seed % 2 else (options,)
    weights = rng.integers(0, 5, shape)
    costs = rng.integers(0, int(rng.choice([2, 6, 2**58])), (classes, options))
    if seed % 5 == 0:
        costs[rng.random(costs.shape) < 0.2] = FAR
    capacity = int(rng.integers(0, 15))
    least = rng.integers(0, 3, options).tolist() if seed % 3 == 0 else None
    best = dict.fromkeys(range(capacity + 1), FAR)
    for weight, cost, _ in choices(weights, costs, least or [0] * options):
        if weight <= capacity:
            best[weight] = min(best[weight], cost)
    found = Knapsack(weights, costs, capacity, least)
    assert found.costs_at.tolist() == [*best.values()]
    for weight, cost in best.items():
        if cost < FAR:
            chosen = tuple(found.choice(weight).tolist())
            assert (weight, cost, chosen) in choices(weights, costs, least or [0] * options)


def test_of_equal_choices_later_classes_take_the_first_options() -> None:
    """So that a result does not depend on how the table is made."""
    found = Knapsack(np.array([0, 1, 2]), np.zeros((3, 3), np.int64), 6)
    assert [found.choice(weight).tolist() for weight in (0, 2, 3, 6)] == [
        [0, 0, 0],
        [2, 0, 0],
        [2, 1, 0],
        [2, 2, 2],
    ]


def test_a_table_that_is_too_large_is_refused_and_a_long_one_can_be_stopped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before it is made, and between its rows."""
    weights, costs = np.array([0, 1]), np.ones((9, 2), np.int64)
    monkeypatch.setattr(knapsack, "MAX_ENTRIES", 10 * 2 * 6 - 1)
    with pytest.raises(TooLarge):
        Knapsack(weights, costs, 5, [1, 0])
    Knapsack(weights, costs, 5)
    looks: list[bool] = []
    Knapsack(weights, costs, 5, stopped=lambda: bool(looks.append(True)))
    assert len(looks) == 1
    monkeypatch.setattr(knapsack, "SUMS_PER_LOOK", 20)
    Knapsack(weights, costs, 5, stopped=lambda: bool(looks.append(True)))
    assert len(looks) > 3
    with pytest.raises(Stopped):
        Knapsack(weights, costs, 5, stopped=lambda: True)
    curve = Curve(0, 1, np.array([9, 8, 3]))
    with pytest.raises(Stopped):
        merged(curve, curve, lambda: True)  # not convex


@pytest.mark.parametrize("seed", range(60))
def test_a_price_bounds_all_choices_and_the_best_price_is_best(seed: int) -> None:
    """Any price; that of the capacity, or the one below, is as good as every other."""
    rng = np.random.default_rng(seed)
    classes, options = int(rng.integers(1, 5)), int(rng.integers(1, 5))
    weights = np.sort(rng.integers(0, 6, options))
    costs = rng.integers(0, int(rng.choice([3, 40])), (classes, options))
    capacity = int(rng.integers(classes * weights[0], classes * weights[-1] + 2))
    best = min(cost for weight, cost, _ in choices(weights, costs, []) if weight <= capacity)
    price = capacity_price(weights, costs, capacity)
    bounds = [priced(weights, costs, capacity, p) for p in range(50)]
    assert max(bounds) <= best
    near = {max(price - 1, 0), price}
    assert max(priced(weights, costs, capacity, p) for p in near) == max(bounds)
    used = [int(weights[(costs + p * weights).argmin(axis=1)].sum()) for p in range(50)]
    assert price == next(p for p, of in enumerate(used) if of <= capacity)


def random_curve(rng: np.random.Generator, convex: bool) -> Curve:
    """Return a curve that falls, by less and less if it is convex."""
    steps = rng.integers(0, 6, int(rng.integers(0, 7)))
    steps = np.sort(steps)[::-1] if convex else steps
    costs = np.concatenate([[0], -steps.cumsum()]) + 50
    return Curve(int(rng.integers(0, 9)), 3, costs.astype(np.int64))


@pytest.mark.parametrize("seed", range(80))
def test_merged_curves_are_those_of_all_ways_to_share(seed: int) -> None:
    """Entry by entry, and what each part may weigh adds up to it."""
    rng = np.random.default_rng(seed)
    parts = [random_curve(rng, bool(rng.random() < 0.6)) for _ in range(rng.integers(1, 6))]
    together = MergedCurves.of(parts)
    curve = together.curve
    assert (curve.least, curve.unit) == (sum(part.least for part in parts), 3)
    best: dict[int, int] = {}
    for entries in product(*(range(len(part.costs)) for part in parts)):
        r = sum(entries)
        cost = sum(int(part.costs[k]) for part, k in zip(parts, entries, strict=True))
        best[r] = min(best.get(r, FAR), cost)
    assert curve.costs.tolist() == [best[r] for r in range(len(best))]
    for r in best:
        weights = together.weights(r)
        assert sum(weights) == curve.least + 3 * r
        entries = [part.entry(weight) for part, weight in zip(parts, weights, strict=True)]
        assert None not in entries
        assert best[r] == sum(
            int(part.costs[k or 0]) for part, k in zip(parts, entries, strict=True)
        )


def falling(rng: random.Random, kind: str, length: int) -> list[int]:
    """Return costs that never rise, of a shape that is hard in some way."""
    if kind == "steps":
        values, level = [], rng.randint(0, 10**6)
        for _ in range(length):
            level -= rng.choice([0, 0, 0, rng.randint(0, 10**5)])
            values.append(level)
    elif kind == "huge":
        values = [rng.randint(0, 2**59) for _ in range(length)]
    elif kind == "concave":
        values = [10**6 - (position * position) for position in range(length)]
    else:
        values = [int(10**6 / (1 + position)) + rng.randint(0, 50) for position in range(length)]
    return list(np.minimum.accumulate(np.array(values)).tolist())


@pytest.mark.parametrize("kind", ["nearly convex", "steps", "concave", "huge"])
def test_merging_is_the_full_convolution(kind: str) -> None:
    """Every entry is the least of all sums, computed in Python's integers."""
    for seed in range(25):
        rng = random.Random(f"{kind}{seed}")
        first, second = (falling(rng, kind, rng.randint(1, 60)) for _ in range(2))
        made = merged(Curve(5, 2, np.array(first)), Curve(7, 2, np.array(second)))
        expected = [
            min(first[r - k] + second[k] for k in range(len(second)) if 0 <= r - k < len(first))
            for r in range(len(first) + len(second) - 1)
        ]
        assert made.costs.tolist() == expected, seed
        assert (made.least, made.unit) == (12, 2)


def test_a_curve_begins_and_ends_with_what_is_of_use() -> None:
    """From the first choice to the first one of the least cost; in between it never rises."""
    curve = Curve.of(10, 2, np.array([FAR, 7, 9, 4, FAR, 4, 6]))
    assert curve is not None
    assert (curve.least, curve.unit, curve.costs.tolist()) == (12, 2, [7, 7, 4])
    assert [curve.entry(weight) for weight in (11, 12, 15, 16, 99)] == [None, 0, 1, 2, 2]
    assert Curve.of(0, 1, np.array([FAR, FAR])) is None
