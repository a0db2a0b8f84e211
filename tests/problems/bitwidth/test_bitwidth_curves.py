"""The parts of dp: budgets all at once, stopping, and large tables."""

import numpy as np
import pytest

from moeopt import solve
from tests.problems.bitwidth.bitwidth_random_instances import KINDS, random_instance
from tests.problems.bitwidth.test_bitwidth_theory import layered, optimum
from tests.rooms.algorithms import FAR, Stopped, knapsack
from tests.rooms.bitwidth import (
    Instance,
    candidates,
    dynamic_program,
    frontier,
    objective,
    violations,
)
from tests.rooms.core import Search


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
            assert objective(limited, solution) == found.curve.costs[r] == oracle


def flat_optimum(instance: Instance, budget: int) -> int:
    """Return the least loss of 1 to 4 bits each within a budget: one table for all experts."""
    best = np.full(budget + 1, FAR)
    best[0] = 0
    for expert in (expert for layer in instance.layers for expert in layer.experts):
        after = np.full(budget + 1, FAR)
        for width, loss in zip(instance.bits, expert.loss, strict=True):
            after[width:] = np.minimum(after[width:], best[: budget + 1 - width] + loss)
        best = after
    return int(best.min())


def test_a_larger_frontier_agrees_with_dp_at_single_budgets() -> None:
    """Seven layers of 20 experts, an odd number in the tree of merges."""
    instance = layered(9, 7, 20)
    found = frontier(instance)
    assert found is not None
    assert len(found.curves.levels) == 4
    for budget in (140, 141, 200, 333, 500, 560, 900):
        solution = found.solution(budget)
        assert solution is not None
        limited = layered(9, 7, 20, model_budget_bits=budget)
        assert violations(limited, solution) == []
        assert objective(limited, solution) == optimum(limited)
        assert found.curve.costs[found.curve.entry(budget)] == flat_optimum(instance, budget)


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
    monkeypatch.setattr(knapsack, "MAX_ENTRIES", 50)
    result = solve(instance, "dp")
    assert (result.status, result.objective) == ("optimal", expected)
    assert result.raw_status.startswith("TABLES TOO LARGE")


def test_absurd_counts_are_refused_before_any_table() -> None:
    """2**42 experts of a width: infeasible, at once and without memory."""
    assert optimum(layered(3, 2, 6, min_count={"1": 2**42, "2": 2**42})) is None
