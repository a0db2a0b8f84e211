"""Weights and labels against plain dynamic programs, on curves that no trace would give."""

import random
from typing import Any

import numpy as np
import pytest

from moeopt import solve
from tests.problems.cache.cache_random_instances import random_accesses
from tests.rooms.cache import (
    Answer,
    Instance,
    Sides,
    bisect,
    cheapest,
    dual_function,
    dynamic_program,
    priced_ns,
    within,
)
from tests.rooms.core import Feasibility, Search, spend
from tests.shares import first

CASES = 80


def random_sides(seed: int, layers: int = 5, counts: int = 6) -> Sides:
    """Return any costs at all, with many equal ones among the small numbers."""
    rng = np.random.default_rng(seed)
    shape = (rng.integers(1, layers + 1), rng.integers(1, counts + 1))
    largest = int(rng.choice([3, 20, 1000, 2**45]))
    compute, copy = rng.integers(0, largest, size=(2, *shape))
    return Sides(compute, copy, int(rng.integers(0, shape[0] * shape[1])))


def pareto(sides: Sides) -> set[tuple[int, int, int]]:
    """Return (slots, computing, copying) of all ways that fit."""
    found = {(0, 0, 0)}
    for compute, copy in zip(sides.compute_ns.tolist(), sides.copy_ns.tolist(), strict=True):
        pairs = list(enumerate(zip(compute, copy, strict=True)))
        found = {(s + w, a + x, g + y) for s, a, g in found for w, (x, y) in pairs}
    return {point for point in found if point[0] <= sides.slots}


@pytest.mark.parametrize("seed", first(30, [*range(CASES)]))
def test_weights_and_labels_are_those_of_all_plans(seed: int) -> None:
    """The least weighted cost, the bound, and the best plan within any target."""
    sides = random_sides(seed)
    plans = pareto(sides)
    best = min(max(a, g) for _, a, g in plans)
    answers = list(bisect(sides))
    for answer in answers:
        p, q = answer.p, sides.scale
        least = min(p * a + (q - p) * g for _, a, g in plans)
        assert answer.bound_ns == -(-least // q) <= best <= sides.trace_ns(answer.ways)
        assert int(answer.ways.sum()) <= sides.slots
    highest = max(answer.bound_ns for answer in answers)
    for p in np.linspace(0, sides.scale, 9).astype(int).tolist():
        assert dual_function(sides, p).bound_ns <= highest
    weights = [answers[0], answers[-1]]
    for target in (best - 1, best, best + 1, 2 * best + 3):
        answer = within(sides, weights, target, lambda: False)
        if target < best:
            assert answer.feasibility == Feasibility.INFEASIBLE
        else:
            assert answer.feasibility == Feasibility.FEASIBLE
            assert answer.ways is not None
            assert sides.trace_ns(answer.ways) == best
            assert int(answer.ways.sum()) <= sides.slots
        highest = max(answer.bound_ns for answer in answers)
        for p in np.linspace(0, sides.scale, 9).astype(int).tolist():
            assert dual_function(sides, p).bound_ns <= highest
        weights = [answers[0], answers[-1]]
        for target in (best - 1, best, best + 1, 2 * best + 3):
            answer = within(sides, weights, target, lambda: False)
            if target < best:
                assert answer.feasibility == Feasibility.INFEASIBLE
            else:
                assert answer.feasibility == Feasibility.FEASIBLE
                assert answer.ways is not None
                assert sides.trace_ns(answer.ways) == best
                assert int(answer.ways.sum()) <= sides.slots


@pytest.mark.parametrize("seed", range(20))
def test_the_cheapest_ways_cost_what_is_said(seed: int) -> None:
    """And nothing else that fits costs less."""
    sides = random_sides(seed, 4, 4)
    cost = sides.compute_ns
    total, ways = cheapest(cost, sides.slots)
    assert total == min(a for _, a, _ in pareto(sides))
    assert total == int(cost[np.arange(len(cost)), ways].sum())
    assert int(ways.sum()) <= sides.slots


@pytest.mark.parametrize("seed", range(30))
def test_any_weight_and_price_give_a_bound(seed: int) -> None:
    """Never above the best plan, whatever they are."""
    sides = random_sides(seed)
    best = min(max(a, g) for _, a, g in pareto(sides))
    rng = random.Random(seed)
    for _ in range(20):
        price = rng.choice([0, 1, 10, sides.scale, 100 * sides.scale])
        assert priced_ns(sides, rng.randint(0, sides.scale), price) <= best


def kinked(seed: int = 2) -> Instance:
    """Return an instance with a gap between the weights' bound and the optimum."""
    rng = random.Random(seed)
    accesses = random_accesses(rng, "reuse", 6, 12, 60)
    costs = {"gpu_ns": 1, "cpu_ns": 36, "activation_ns": 1, "fetch_ns": 140, "other_ns": 6}
    return Instance(name="kinked", layers=6, experts=12, slots=18, accesses=accesses, **costs)


def test_targets_rise_to_the_proof() -> None:
    """The weights leave a gap; the labels close it, and CP-SAT agrees."""
    search = Search(60)
    dynamic_program.solve(kinked(), search)
    assert search.closed
    assert solve(kinked(), "cp-sat").objective == search.objective
    bounds: list[Any] = []
    search = Search(60, on_improvement=lambda objective, bound: bounds.append(bound))
    dynamic_program.solve(kinked(), search)
    assert len([bound for bound in bounds if bound is not None]) >= 3


def test_too_many_labels_are_left_to_cp_sat(monkeypatch: pytest.MonkeyPatch) -> None:
    """The incumbent and the bound are handed on."""
    optimum = solve(kinked(), "dp").objective
    monkeypatch.setattr(dynamic_program, "MOST", 1)
    result = solve(kinked(), "dp")
    assert (result.status, result.objective) == ("optimal", optimum)
    assert "TOO_MANY_LABELS, then cp-sat" in result.raw_status


def test_it_stops_when_told() -> None:
    """With the heuristics' plan, and a bound if there was time for one."""
    search = Search(60)
    search.stop()
    dynamic_program.solve(kinked(), search)
    assert search.solution is not None
    assert not search.closed
    sides = random_sides(5)
    answer = within(sides, [dual_function(sides, 0)], 2**50, lambda: True)
    assert answer.feasibility == Feasibility.UNKNOWN


def test_labels_leave_half_of_the_limit_to_cp_sat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they come to no end, what they leave open is solved all the same."""
    asked: list[float] = []

    def no_end(sides: Sides, weights: Any, target_ns: int, stopped: Any) -> Answer:
        while not stopped():
            spend(0.01)
            asked.append(0.01)
        return Answer(Feasibility.UNKNOWN, note="STOPPED")

    monkeypatch.setattr(dynamic_program, "within", no_end)
    monkeypatch.setattr(dynamic_program, "_targets", lambda search, grid: iter([0]))
    instance = kinked()
    result = solve(instance, "auto", work_limit=1.0)
    assert 0.3 < sum(asked) < 0.5  # of nine tenths: the rest is kept for a second reason
    assert result.status == "optimal"
    assert "cp-sat" in result.raw_status
