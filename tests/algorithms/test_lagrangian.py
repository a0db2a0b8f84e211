"""Three ways to raise multipliers, against all prices, linear programs and all integer points."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from tests.rooms.algorithms import (
    Pace,
    Tangent,
    Volume,
    best_price,
    bisection,
    multiplicative_weights,
    stride,
)

Floats = NDArray[np.float64]
MOST = 64


def knapsack(worth: list[int], size: list[int], room: int) -> Callable[[int], Tangent[list[int]]]:
    """Return the dual of a knapsack: the least of minus the worth, sizes priced."""

    def dual(price: int) -> Tangent[list[int]]:
        taken = [w > price * s for w, s in zip(worth, size, strict=True)]
        used = sum(s for s, there in zip(size, taken, strict=True) if there)
        value = sum(price * s - w for w, s, there in zip(worth, size, taken, strict=True) if there)
        return Tangent(price, value - price * room, used - room, [*map(int, taken)])

    return dual


items = st.lists(st.tuples(st.integers(0, MOST), st.integers(1, 9)), min_size=1, max_size=8)


@given(items, st.integers(0, 30))
def test_bisection_finds_the_best_price(drawn: list[tuple[int, int]], room: int) -> None:
    """The maximum over all prices, both sides next to each other, below every choice that fits."""
    worth, size = map(list, zip(*drawn, strict=True))
    dual, most = knapsack(worth, size, room), MOST + 1
    found = best_price(dual, most)
    assert found.best.value == max(dual(price).value for price in range(most + 1))
    assert found.fallen.slope <= 0
    if found.rising is None:
        assert found.fallen.price == 0
    else:
        assert found.rising.slope > 0
        assert found.fallen.price == found.rising.price + 1
    share = found.share_of_rising
    mixed = [(1 - share) * there for there in found.fallen.solution]
    if found.rising is not None:
        mixed = [a + share * b for a, b in zip(mixed, found.rising.solution, strict=True)]
        assert np.dot(mixed, size) == pytest.approx(room)
    assert np.dot(mixed, size) <= room + 1e-9
    for chosen in product((0, 1), repeat=len(worth)):
        if np.dot(chosen, size) <= room:
            assert found.best.value <= -np.dot(chosen, worth)


def test_bisection_halves() -> None:
    """Few prices are looked at, fewer if the price need not be exact, and none twice."""
    dual = knapsack([10**9 * n for n in range(1, 90)], [1] * 89, 40)
    exact = [found.price for found in bisection(dual, 10**12)]
    rough = [found.price for found in bisection(dual, 10**12, close=8)]
    assert len(rough) < len(exact) < 43
    assert exact[: len(rough)] == rough
    assert len(set(exact)) == len(exact)
    low, high = (best_price(dual, 10**12, close=8).rising, best_price(dual, 10**12, close=8).fallen)
    assert low is not None
    assert 0 < high.price - low.price <= 1 + (high.price >> 8)


def test_no_price_is_dear_enough() -> None:
    """What exceeds the limit at any price is told at the dearest one."""
    found = best_price(lambda price: Tangent(price, price, 1, None), 7)
    assert (found.fallen.price, found.fallen.slope, found.share_of_rising) == (7, 1, 0.0)
    assert best_price(lambda price: Tangent(price, price, 1, None), 0).fallen.price == 0


def scheduled(seed: int) -> tuple[NDArray[np.int64], float]:
    """Return times of jobs on machines, shape (jobs, machines), and the LP's makespan."""
    rng = np.random.default_rng(seed)
    times = rng.integers(1, 50, (rng.integers(4, 12), rng.integers(2, 5)))
    jobs, machines = times.shape
    loads = np.zeros((machines, jobs * machines + 1))
    for machine in range(machines):
        loads[machine, np.arange(jobs) * machines + machine] = times[:, machine]
    loads[:, -1] = -1
    once = np.hstack([np.kron(np.eye(jobs), np.ones(machines)), np.zeros((jobs, 1))])
    cost = np.zeros(jobs * machines + 1)
    cost[-1] = 1
    found = linprog(cost, loads, np.zeros(machines), once, np.ones(jobs))
    return times, float(found.fun)


@pytest.mark.parametrize("seed", range(8))
def test_multiplicative_weights_near_the_linear_relaxation(seed: int) -> None:
    """Of the makespan on unrelated machines: never above it, and within 3 % after 400 rounds."""
    times, best = scheduled(seed)
    jobs, machines = times.shape
    tried = []

    def dual(weights: Floats) -> tuple[float, Floats]:
        assert weights.max() == 1
        tried.append(weights)
        chosen = (times * weights).argmin(axis=1)
        cost = (times * weights)[np.arange(jobs), chosen].sum()
        loads = np.bincount(chosen, times[np.arange(jobs), chosen], machines)
        return cost / weights.sum(), loads / times.sum()

    few = multiplicative_weights(dual, np.zeros(machines), 5)
    values = [dual(weights)[0] for weights in tried[:5]]
    assert few.value == max(values)
    assert (few.weights == tried[values.index(max(values))]).all()
    many = multiplicative_weights(dual, np.zeros(machines), 400)
    assert many.value >= few.value
    assert 0.97 * best <= many.value <= best + 1e-9
    on = multiplicative_weights(dual, many.logarithms, 1)
    assert on.value >= 0.9 * best  # it goes on from where it was


@dataclass(frozen=True)
class Point:
    """The covering problem's dual at some prices."""

    bound: float
    at: Floats
    chosen: Floats


class Covering:
    """The dual of min cost x, rows x >= due, x in {0, 1}: rows priced."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        count = int(rng.integers(6, 11))
        self.cost = rng.integers(5, 40, count)
        self.rows = rng.integers(0, 9, (int(rng.integers(2, 6)), count))
        self.due = self.rows.sum(axis=1) // 2
        self.evaluated = 0

    def evaluate(self, at: Floats) -> Point:
        self.evaluated += 1
        reduced = self.cost - at @ self.rows
        chosen = (reduced < 0).astype(float)
        return Point(float(at @ self.due + reduced @ chosen), at, chosen)

    def seen(self, value: Point) -> dict[str, Floats]:
        return {"chosen": value.chosen, "lacking": self.due - self.rows @ value.chosen}

    def moved(self, now: Point, mean: dict[str, Floats], step: float, gap: float) -> Floats | None:
        lacking = np.where((now.at <= 0) & (mean["lacking"] < 0), 0.0, mean["lacking"])
        factor = stride(step, gap, lacking)
        return np.maximum(0.0, now.at + factor * lacking) if factor else None

    @property
    def least(self) -> int:
        """The optimum, by all integer points."""
        points = np.array([*product((0, 1), repeat=len(self.cost))])
        return int((points @ self.cost)[(points @ self.rows.T >= self.due).all(axis=1)].min())

    @property
    def relaxed(self) -> float:
        """The optimum of the linear relaxation."""
        return float(linprog(self.cost, -self.rows, -self.due, bounds=(0, 1)).fun)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("known", [True, False])
def test_the_volume_algorithm_reaches_the_linear_relaxation(seed: int, known: bool) -> None:
    """Never above it, within 1 % in the end; its averages nearly solve it."""
    dual = Covering(seed)
    least, relaxed = dual.least, dual.relaxed
    volume = Volume(dual, dual.evaluate(np.zeros(len(dual.due))))
    bounds = []
    for _ in range(100):
        volume.iterate(float(least) if known else None, 20, lambda: False)
        bounds.append(volume.best.bound)
        assert volume.best.bound <= relaxed + 1e-6 <= least + 2e-6
        assert volume.best.bound == dual.evaluate(volume.best.at).bound
    assert bounds == sorted(bounds)
    assert bounds[-1] >= 0.99 * relaxed
    assert volume.converged or bounds[-1] >= least - 1e-9
    used = dual.rows @ volume.mean["chosen"]
    assert volume.mean["lacking"] == pytest.approx(dual.due - used)


def test_averages_are_of_all_that_was_seen() -> None:
    """The newest counts its share, whether it was better or not."""
    dual = Covering(3)
    volume = Volume(dual, dual.evaluate(np.zeros(len(dual.due))), Pace(share=0.25))
    mean = volume.now.chosen
    for _ in range(15):
        volume.iterate(float(dual.least), 1, lambda: False)
        mean = 0.25 * volume.now.chosen + 0.75 * mean
        assert volume.mean["chosen"] == pytest.approx(mean)


def test_steps_stop_when_told_at_the_target_and_at_the_end() -> None:
    """And only then; each evaluates the dual once."""
    dual = Covering(0)
    first = dual.evaluate(np.zeros(len(dual.due)))
    volume = Volume(dual, first)
    dual.evaluated = 0
    volume.iterate(float(dual.least), 7, lambda: dual.evaluated >= 3)
    assert dual.evaluated == 3
    volume.iterate(volume.best.bound, 7, lambda: False)
    assert dual.evaluated == 3
    volume.iterate(float(dual.least), 4, lambda: False)
    assert dual.evaluated == 7
    solved = Covering(0)
    solved.due = np.zeros_like(solved.due)
    volume = Volume(solved, solved.evaluate(np.zeros(len(solved.due))))
    volume.iterate(5.0, 7, lambda: False)
    assert volume.converged  # nothing is lacking: no direction
    assert solved.evaluated == 1


def test_steps_become_shorter_and_go_back_to_the_best() -> None:
    """After as many failures as the pace allows, and longer again when asked."""

    class Falling(Covering):
        """A dual that only falls."""

        def evaluate(self, at: Floats) -> Point:
            self.evaluated += 1
            return Point(-float(self.evaluated), at, np.zeros(len(self.cost)))

    dual = Falling(0)
    first = dual.evaluate(np.zeros(len(dual.due)))
    pace = Pace(longest=0.8, shortest=0.25, shorter=0.5, patience=3)
    volume = Volume(dual, first, pace)
    volume.iterate(10.0, 2, lambda: False)
    assert volume.now is not first
    volume.iterate(10.0, 1, lambda: False)
    assert volume.now is volume.best is first
    assert not volume.converged
    volume.iterate(10.0, 99, lambda: False)
    assert volume.converged
    assert dual.evaluated == 7
    volume.again()
    assert not volume.converged
    volume.iterate(10.0, 1, lambda: False)
    assert volume.now is not first
    volume.again()
    assert volume.now is first


def test_a_step_closes_its_part_of_the_gap() -> None:
    """On a linear dual, whatever the direction's length."""
    for direction in (np.array([3.0, -4.0]), np.array([[0.5], [1e3]])):
        factor = stride(0.5, 10.0, direction)
        assert factor * (direction * direction).sum() == pytest.approx(5.0)
    assert stride(0.5, 10.0, np.full(4, 1e-9)) == 0.0


def test_a_step_that_went_astray_is_no_longer_than_any_other() -> None:
    """The gap counts up to twice the target."""

    class Told(Covering):
        """Keeps the gaps."""

        gaps: ClassVar[list[float]] = []

        def moved(
            self, now: Point, mean: dict[str, Floats], step: float, gap: float
        ) -> Floats | None:
            self.gaps.append(gap)
            return None

    for bound, gap in ((-1e12, 20.0), (4.0, 6.0), (-3.0, 13.0)):
        dual = Told(1)
        volume = Volume(dual, Point(bound, np.zeros(len(dual.due)), np.zeros(len(dual.cost))))
        volume.iterate(10.0, 1, lambda: False)
        assert dual.gaps[-1] == gap
    volume = Volume(dual, Point(100.0, np.zeros(len(dual.due)), np.zeros(len(dual.cost))))
    volume.iterate(None, 1, lambda: False)
    assert dual.gaps[-1] == pytest.approx(5.0)
