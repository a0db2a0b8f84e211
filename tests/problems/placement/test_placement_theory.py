"""Constraint deletion, rules as their sources word them, modular cases, restrictions, the view."""

from typing import Any

import numpy as np
import pytest

from moeopt import solve
from tests.problems.agreement import assert_missed
from tests.problems.placement.placement_random_instances import (
    FREE_KINDS,
    KINDS,
    random_instance,
)
from tests.rooms.placement import (
    CONSTRAINTS,
    HEURISTICS,
    Instance,
    Solution,
    best_prefix,
    capacity_of,
    fiddler,
    filled,
    held_of,
    knapsack_bound,
    layer_by_layer,
    listed,
    lower_bound,
    objective,
    offload_time,
    view,
    violations,
)

DELETION_KINDS = {
    "PL-C2": ("fill", "sizes, filled"),
    "PL-C3": ("host without copy",),
    "PL-C4": ("whole layers",),
    "PL-C5": ("equal counts", "equal counts, sizes"),
    "PL-C6": ("gpu-bound", "batch 1"),
    "PL-C8": ("costly charge",),
    "PL-C9": ("free dispatch", "free, widths"),
}
"""Kinds in which a rule matters; others: mixed and batched."""


SPEAKING = {
    "PL-C1": ("mixed", 1),
    "PL-C2": ("sizes, filled", 1),
    "PL-C3": ("host without copy", 2),
    "PL-C4": ("whole layers", 0),
    "PL-C5": ("equal counts", 0),
    "PL-C6": ("gpu-bound", 0),
    "PL-C7": ("batched", 0),
    "PL-C8": ("costly charge", 1),
    "PL-C9": ("free dispatch", 0),
}
"""An instance for each rule on which every model without it breaks it."""


def optimum(instance: Instance) -> int | None:
    """Return the proven optimum; None if there is none."""
    result = solve(instance, "price-and-swap")
    assert result.status in ("optimal", "infeasible")
    assert result.objective is None or isinstance(result.objective, int)
    return result.objective


@pytest.mark.parametrize("more", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_deleted_constraint_is_missed(rule: str, more: bool) -> None:
    """See `assert_missed`."""
    if more:
        kinds = DELETION_KINDS.get(rule, ("mixed", "batched"))
        drawn = [random_instance(seed, kind) for kind in kinds for seed in range(10)]
    else:
        kind, seed = SPEAKING[rule]
        drawn = [random_instance(seed, kind)]
    assert_missed(rule, (of for of in drawn if optimum(of) is not None), optimum)


def plain(**changes: Any) -> Instance:
    """Return two layers of four experts; tokens 5 4 3 2 and 9 1 1 0, all in one step."""
    steps = [[[[0, 5], [1, 4], [2, 3], [3, 2]], [[0, 9], [1, 1], [2, 1]]]]
    data: dict[str, Any] = {"layers": 2, "experts": 4, "gpu_slots": 3, "steps": steps}
    data |= {"gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 10], "layer_offload_fixed_ns": 3}
    return Instance(name="plain", **(data | changes))


@pytest.mark.parametrize(
    ("name", "slots", "gpu"),
    [
        ("frequency", 3, ((0, 1), (0,))),
        ("frequency", 7, ((0, 1, 2, 3), (0, 1, 2))),
        ("per-layer-frequency", 3, ((0, 1), (0,))),
        ("per-layer-frequency", 5, ((0, 1, 2), (0, 1))),
        ("frequency", 5, ((0, 1, 2, 3), (0,))),
        ("importance", 5, ((0, 1), (0, 1))),
        ("importance[per_layer=remainder]", 5, ((0, 1, 2), (0, 1))),
        # shares of tokens: 5 4 3 2 of 14 and 9 1 1 of 11
        ("importance[per_layer=global]", 5, ((0, 1, 2, 3), (0,))),
        ("uniform-x", 3, ((0,), (0,))),
        ("uniform-x", 4, ((0, 1), (0, 1))),
        ("front-loading", 5, ((0, 1, 2, 3), (0,))),
        ("last-first", 5, ((), (0, 1, 2, 3))),
        ("last-first", 3, ((), ())),
        ("fiddler", 3, ((0,), (0,))),
    ],
)
def test_rules_by_hand(name: str, slots: int, gpu: tuple[tuple[int, ...], ...]) -> None:
    """Each as its source words it, ties to the lower layer and expert."""
    solution = solve(plain(gpu_slots=slots), name).solution
    assert isinstance(solution, Solution)
    assert solution.gpu == gpu


def test_uniform_x_leaves_a_remainder() -> None:
    """Five slots for two layers are two each; per-layer frequency gives the fifth away."""
    uniform = HEURISTICS["uniform-x"](plain(gpu_slots=5))
    assert uniform is not None
    assert [len(row) for row in uniform.gpu] == [2, 2]


def test_fiddler_leaves_a_twentieth_free() -> None:
    """And follows whatever list it is given."""
    instance = plain(gpu_slots=8, layers=1, experts=40, steps=[[[[e, 1] for e in range(40)]]])
    assert fiddler(instance.model_copy(update={"gpu_slots": 40})) is not None
    full = fiddler(instance.model_copy(update={"gpu_slots": 40}))
    assert full is not None
    assert full.gpu == (tuple(range(38)),)
    backwards = listed(instance, np.arange(40)[::-1])
    assert backwards is not None
    assert backwards.gpu == (tuple(range(33, 40)),)


def test_the_habit_of_filling_costs() -> None:
    """A GPU at 9 per token: stopping is never worse, and better somewhere."""
    better = 0
    for kind in ("gpu-bound", "plenty of slots", "mixed"):
        for seed in range(12):
            instance = random_instance(seed, kind)
            for name in ("frequency", "per-layer-frequency", "importance", "offload-time"):
                with_habit = HEURISTICS[name](instance)
                without = HEURISTICS[f"{name}-stop"](instance)
                assert (with_habit is None) == (without is None)
                if with_habit is not None and without is not None:
                    ns = objective(instance, with_habit), objective(instance, without)
                    assert ns[1] <= ns[0]
                    better += ns[1] < ns[0]
    assert better


def test_a_stop_is_at_the_best_of_all_prefixes() -> None:
    """The checker tries all of them; ties go to the fewest experts."""
    for kind in ("mixed", "gpu-bound", "costly charge"):
        for seed in range(6):
            instance = random_instance(seed, kind).model_copy(update={"host_slots": None})
            order = layer_by_layer(instance.tokens)
            costs = []
            for count in range(instance.gpu_slots + 1):
                part = filled(instance.model_copy(update={"gpu_slots": count}), order)
                assert part is not None
                costs.append(objective(instance, part))
            stopped = best_prefix(instance, order)
            assert stopped is not None
            assert objective(instance, stopped) == min(costs)
            assert sum(map(len, stopped.gpu)) == costs.index(min(costs))


def test_offload_time_is_optimal_where_the_gpu_never_binds() -> None:
    """Without a charge and with a GPU that costs nothing; frequency is not."""
    missed = 0
    for seed in range(20):
        drawn = random_instance(seed, "batched")
        changes = {"gpu_expert_ns": (0, 0), "layer_offload_fixed_ns": 0, "host_slots": None}
        instance = Instance.model_validate(drawn.model_dump() | changes)
        by_time = offload_time(instance)
        by_count = HEURISTICS["frequency"](instance)
        assert by_time is not None
        assert by_count is not None
        assert objective(instance, by_time) == optimum(instance) == lower_bound(instance)
        missed += objective(instance, by_count) > objective(instance, by_time)
    assert missed


@pytest.mark.slow
def test_restrictions_only_cost() -> None:
    """Each restricted optimum is at least the free one; a full GPU as well."""
    dearer = dict.fromkeys(("whole-layers", "equal-counts", "fill"), 0)
    for kind in ("mixed", "gpu-bound", "slow offload"):
        for seed in range(8):
            instance = random_instance(seed, kind).model_copy(update={"host_slots": None})
            free = optimum(instance)
            assert free is not None
            for name in dearer:
                change = {"fill": True} if name == "fill" else {"restriction": name}
                bound = optimum(instance.model_copy(update=change))
                if bound is not None:
                    assert bound >= free
                    dearer[name] += bound > free
    assert all(dearer.values())


def test_knapsack_bounds_are_below_every_choice() -> None:
    """The Lagrangian bound against all sets, and equal to the best one where sizes are 1."""
    for kind in ("mixed", "fill", "sizes", "sizes, filled", "host without copy"):
        for seed in range(8):
            instance = random_instance(seed, kind)
            capacity = capacity_of(instance)
            rng = np.random.default_rng(seed)
            cost = rng.integers(-50, 20, size=capacity.sizes.shape) * (1 if seed % 2 else -1)
            bound, _ = knapsack_bound(cost, capacity)
            numbers = range(2**cost.size)
            sets = (np.array([n >> i & 1 for i in range(cost.size)], dtype=bool) for n in numbers)
            allowed = [
                int(cost.ravel()[flags].sum())
                for flags in sets
                if capacity.least <= int(capacity.sizes.ravel()[flags].sum()) <= capacity.most
            ]
            if allowed:
                assert bound <= min(allowed)
                assert bound == min(allowed) or "sizes" in kind


def test_the_view_tells_how_the_optimum_uses_the_gpu() -> None:
    """Shares are counted by layer and step; lanes keep the two sides of a layer side by side."""
    instance = plain(gpu_expert_ns=[0, 9])
    solution = Solution(instance="plain", gpu=((0, 1, 2), ()))
    assert view.facts(instance, solution) == {
        "bottleneck": "offload",
        "gpu_bound_permille": 500,
        "not_offloading_permille": 0,
        "slots_used": 3,
        "slots_free": 0,
        "experts_on_gpu": 3,
    }
    gpu, off, both = view.lanes(instance, solution)
    assert [(bar.start_ns, bar.end_ns) for bar in gpu.bars] == [(0, 108)]
    assert [(bar.start_ns, bar.end_ns) for bar in off.bars] == [(0, 23), (108, 221)]
    assert both.end_ns == objective(instance, solution) == 221


@pytest.mark.parametrize("kind", [*KINDS, *FREE_KINDS])
def test_flags_and_solutions_are_the_same(kind: str) -> None:
    """What the arrays compute is what the checker computes."""
    for seed in range(4):
        instance = random_instance(seed, kind)
        for heuristic in HEURISTICS.values():
            if (solution := heuristic(instance)) is None:
                continue
            held = held_of(solution, instance.layers, instance.experts)
            total = sum(
                layer.cost_ns(row, instance.layer_offload_fixed_ns)
                for layer, row in zip(instance.layer_steps, held, strict=True)
            )
            assert total == objective(instance, solution)
            assert capacity_of(instance).allows(held) == (violations(instance, solution) == [])
