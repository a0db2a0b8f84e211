"""The parts of dp: curves and their merging, budgets all at once, stopping, and large tables."""

import random

import numpy as np
import pytest

from moeopt import solve
from tests.problems.bitwidth.bitwidth_random_instances import KINDS, random_instance
from tests.problems.bitwidth.test_bitwidth_theory import layered, optimum
from tests.rooms.bitwidth import (
    UNREACHABLE,
    Curve,
    Instance,
    Stopped,
    candidates,
    dynamic_program,
    frontier,
    merged,
    multiple_choice_knapsack,
    objective,
    violations,
)
from tests.rooms.core import Search


def falling(rng: random.Random, kind: str, length: int) -> list[int]:
    """Return losses that never rise, of a shape that is hard in some way."""
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
        assert made.losses.tolist() == expected, seed
        assert (made.least_bits, made.unit) == (12, 2)


def test_a_curve_is_cut_to_what_matters() -> None:
    """Unreachable entries before it, and equal ones after its least, are left out."""
    losses = np.array([UNREACHABLE, 9, UNREACHABLE, 4, 6, 4])
    made = Curve.of(10, 3, losses)
    assert made is not None
    assert (made.least_bits, made.unit, made.losses.tolist()) == (13, 3, [9, 9, 4])
    assert [made.entry(budget) for budget in (12, 13, 15, 16, 19, 99)] == [None, 0, 0, 1, 2, 2]
    assert Curve.of(0, 1, np.array([UNREACHABLE])) is None


def losses_by_bits(instance: Instance) -> dict[int, int]:
    """Return the least loss at each sum of widths that can be, budgets aside: of all candidates."""
    unlimited = instance.model_copy(update={"model_budget_bits": 10**6})
    best: dict[int, int] = {}
    for candidate in candidates(unlimited):
        if not violations(unlimited, candidate):
            bits = sum(map(sum, candidate.bits))
            loss = objective(unlimited, candidate)
            best[bits] = min(loss, best.get(bits, loss))
    return best


@pytest.mark.parametrize("kind", [*KINDS])
def test_the_frontier_is_the_optimum_at_every_budget(kind: str) -> None:
    """With a solution for each that is valid, within the budget and of that loss."""
    for seed in range(6):
        instance = random_instance(seed, kind)
        found = frontier(instance)
        every = losses_by_bits(instance)
        for budget in range(70):
            limited = instance.model_copy(update={"model_budget_bits": budget})
            oracle = min((loss for bits, loss in every.items() if bits <= budget), default=None)
            solution = None if found is None else found.solution(budget)
            if solution is None or found is None:
                assert oracle is None
                continue
            r = found.curve.entry(budget)
            assert r is not None
            assert violations(limited, solution) == []
            assert objective(limited, solution) == found.curve.losses[r] == oracle


def flat_optimum(instance: Instance, budget: int) -> int:
    """Return the least loss of 1 to 4 bits each within a budget: one table for all experts."""
    best = np.full(budget + 1, UNREACHABLE)
    best[0] = 0
    for expert in (expert for layer in instance.layers for expert in layer.experts):
        after = np.full(budget + 1, UNREACHABLE)
        for width, loss in zip(instance.bits, expert.loss, strict=True):
            after[width:] = np.minimum(after[width:], best[: budget + 1 - width] + loss)
        best = after
    return int(best.min())


def test_a_larger_frontier_agrees_with_dp_at_single_budgets() -> None:
    """Seven layers of 20 experts, an odd number in the tree of merges."""
    instance = layered(9, 7, 20)
    found = frontier(instance)
    assert found is not None
    assert len(found.levels) == 4
    for budget in (140, 141, 200, 333, 500, 560, 900):
        solution = found.solution(budget)
        assert solution is not None
        limited = layered(9, 7, 20, model_budget_bits=budget)
        assert violations(limited, solution) == []
        assert objective(limited, solution) == optimum(limited)
        assert found.curve.losses[found.curve.entry(budget)] == flat_optimum(instance, budget)


def test_told_to_stop_it_leaves_a_solution_and_a_bound() -> None:
    """Greedy upgrades and the priced bound: not proven, but not nothing."""
    for changes in ({}, {"model_budget_bits": 60}):
        instance = layered(1, 2, 20, **changes)
        search = Search()
        search.stop()
        dynamic_program.solve(instance, search)
        assert search.solution is not None
        assert violations(instance, search.solution) == []
        assert search.note == "STOPPED"
        assert search.bound is not None
        assert search.bound <= (optimum(instance) or 0) <= search.objective
    with pytest.raises(Stopped):
        frontier(layered(1, 2, 20), lambda: True)


def test_a_stopped_run_knows_what_is_infeasible() -> None:
    """The heuristic finds a solution if and only if there is one."""
    search = Search()
    search.stop()
    dynamic_program.solve(layered(1, 2, 20, model_budget_bits=39), search)
    assert search.infeasible


@pytest.mark.parametrize("changes", [{}, {"model_budget_bits": 90}, {"min_count": {"2": 3}}])
def test_too_large_tables_are_left_to_cp_sat(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, object]
) -> None:
    """The same optimum, and the note says how."""
    instance = layered(2, 3, 10, **changes)
    expected = optimum(instance)
    monkeypatch.setattr(multiple_choice_knapsack, "MAX_ENTRIES", 50)
    result = solve(instance, "dp")
    assert (result.status, result.objective) == ("optimal", expected)
    assert result.raw_status.startswith("TABLES TOO LARGE")


def test_absurd_counts_are_refused_before_any_table() -> None:
    """2**42 experts of a width: infeasible, at once and without memory."""
    assert optimum(layered(3, 2, 6, min_count={"1": 2**42, "2": 2**42})) is None
