"""What theory says about bitwidth: deletion, larger instances, bounds, and the Monge condition."""

import random
from itertools import combinations, product
from typing import Any

import pytest

from moeopt import solve
from tests.problems.agreement import assert_missed
from tests.problems.bitwidth.bitwidth_random_instances import KINDS, random_instance
from tests.rooms.bitwidth import (
    CONSTRAINTS,
    Instance,
    dynamic_program,
    heuristics,
    lower_bound,
    objective,
    prefix_split,
    priced,
    violations,
)
from tests.rooms.core import Search
from tests.shares import shares

SPEAKING = {
    "BW-C1": ("one width per layer", 0),
    "BW-C2": ("one width per model", 0),
    "BW-C3": ("a model budget", 0),
    "BW-C4": ("one width per model", 1),
    "BW-C5": ("one width per model", 0),
}
"""An instance for each rule on which every model without it breaks it."""


def layered(seed: int, layers: int, experts: int, **changes: Any) -> Instance:
    """Return layers too large for brute force, with losses that are neither convex nor monotone."""
    rng = random.Random(seed)
    rows = []
    for _ in range(layers):
        made = [
            {
                "expert": e,
                "importance": rng.randint(0, 10**6),
                "loss": [rng.randint(0, 10**6) >> (3 * j) for j in range(4)],
            }
            for e in range(experts)
        ]
        rows.append({"budget_bits": rng.randint(experts, 3 * experts), "experts": made})
    data: dict[str, Any] = {"bits": [1, 2, 3, 4], "layers": rows}
    return Instance(name=f"layered-{seed}", **(data | changes))


def optimum(instance: Instance) -> int | None:
    """Return the optimum by dp."""
    search = Search()
    dynamic_program.solve(instance, search)
    assert search.closed
    return search.objective  # type: ignore[return-value]


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    chosen = product(KINDS, range(5)) if more else [SPEAKING[rule]]
    assert_missed(rule, [random_instance(seed, of, largest=4) for of, seed in chosen], optimum)


@pytest.mark.parametrize("seed", range(6))
def test_dp_agrees_with_models_on_larger_instances(seed: int) -> None:
    """Three layers of 12 experts, also with counts and a model's budget: dp = cp-sat = milp."""
    changes: dict[str, Any] = {"min_count": {"3": 2, "1": 1}} if seed % 2 else {}
    if seed >= 2:
        changes["model_budget_bits"] = 70 + seed
    instance = layered(seed, 3, 12, **changes)
    expected = optimum(instance)
    for model in ("cp-sat", "milp"):
        result = solve(instance, model, warm_start=False)
        assert (result.status, result.objective) == ("optimal", expected), model


@pytest.mark.parametrize("kind", ["any losses", "losses that may rise", "a model budget"])
@pytest.mark.parametrize("seeds", shares(5, 20))
def test_the_bound_is_that_of_the_linear_relaxation(kind: str, seeds: range) -> None:
    """Without counts and ties it is within one unit per budget of the best price, tried finely."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        bound = lower_bound(instance)
        value = optimum(instance)
        if value is None:
            continue
        assert bound <= value
        parts = [
            (losses, layer.budget_bits)
            for losses, layer in zip(instance.layer_losses, instance.layers, strict=True)
        ]
        if instance.model_budget_bits is None:
            finest = 0.0
            for losses, budget in parts:
                assert budget is not None
                finest += max(
                    float((losses + price / 8 * _bits(instance)).min(axis=1).sum())
                    - price / 8 * budget
                    for price in range(8 * 100 + 1)
                )
            assert bound >= finest - 1e-6


def _bits(instance: Instance) -> Any:
    import numpy as np

    return np.array(instance.bits)


def test_the_bound_holds_for_huge_losses() -> None:
    """Where losses must be rounded down to stay within 64 bits."""
    import numpy as np

    rng = np.random.default_rng(0)
    losses = np.sort(rng.integers(0, 2**42, size=(2**14, 4)), axis=1)[:, ::-1].copy()
    bound = priced(losses, (1, 2, 3, 64), 2**14 * 30)
    exact = [[int(x) for x in row] for row in losses]
    price = 2**36
    dual = sum(min(x + price * b for x, b in zip(row, (1, 2, 3, 64), strict=True)) for row in exact)
    assert bound > 0
    least = sum(min(row) for row in exact)
    assert bound >= least * 0.999
    assert dual - price * 2**14 * 30 <= bound * 1.0001 + 2**30


def test_greedy_is_optimal_for_convex_losses_but_for_the_last_increment() -> None:
    """Its excess is below the largest single gain; where the bound meets it, it is proven."""
    closed = 0
    for seed in range(40):
        instance = random_instance(seed, "convex losses")
        solution, value = heuristics.greedy_marginal(instance), optimum(instance)
        if solution is None or value is None:
            continue
        gains = [e.loss[0] - e.loss[-1] for layer in instance.layers for e in layer.experts]
        assert objective(instance, solution) - value <= len(instance.layers) * max(gains)
        closed += objective(instance, solution) == value
    assert closed > 25


def monge(seed: int) -> Instance:
    """Return a layer whose more important experts gain at least as much from every upgrade."""
    rng = random.Random(seed)
    size = rng.randint(2, 6)
    gains = [[rng.randint(0, 9) for _ in range(3)]]
    for _ in range(size - 1):
        gains.append([max(0, gain - rng.randint(0, 3)) for gain in gains[-1]])
    experts = []
    for number, (first, second, third) in enumerate(gains):
        last = rng.randint(0, 5)
        losses = [last + first + second + third, last + second + third, last + third, last]
        experts.append({"expert": number, "importance": 100 - number, "loss": losses})
    budget = rng.randint(size, 4 * size)
    return Instance(
        name="monge", bits=[1, 2, 3, 4], layers=[{"budget_bits": budget, "experts": experts}]
    )


def test_the_prefix_order_costs_nothing_under_the_monge_condition() -> None:
    """120 random layers that meet it; without it the order costs something in most."""
    for seed in range(120):
        instance = monge(seed)
        rows = [expert.loss for expert in instance.layers[0].experts]
        for first, second in combinations(rows, 2):
            for low, high in combinations(range(4), 2):
                assert first[low] - first[high] >= second[low] - second[high]
        split = prefix_split(instance)
        assert split is not None
        assert violations(instance, split) == []
        assert objective(instance, split) == optimum(instance), seed
    worse = 0
    for seed in range(40):
        instance = random_instance(seed, "any losses")
        split = prefix_split(instance)
        worse += split is not None and objective(instance, split) > (optimum(instance) or 0)
    assert worse > 10
