"""Columns of layers: each is what the checker says of it, and their knapsack finds the optimum."""

import random

import numpy as np
import pytest

from moeopt import solve
from tests.problems.joint.joint_random_instances import KINDS, random_instance
from tests.rooms.core import Search
from tests.rooms.joint import (
    Arrays,
    Instance,
    Solution,
    check,
    cost,
    layer_columns,
    plan_of,
    solution_of,
    solve_by_columns,
    suits,
)

SHARES = [range(2 * len(KINDS)), pytest.param(range(2 * len(KINDS), 300), marks=pytest.mark.slow)]


def undeferred(seed: int, **changes: object) -> Instance:
    """Return a random instance in which nothing may be deferred, with caches of up to two ways."""
    instance = random_instance(seed)
    ways = min(instance.experts, seed % 3)
    return instance.model_copy(update={"max_deferred": 0, "max_ways": ways} | changes)


@pytest.mark.parametrize("seeds", SHARES)
def test_columns_find_the_optimum(seeds: range) -> None:
    """As brute force does, or CP-SAT where there are too many candidates; some are infeasible."""
    found = []
    for seed in seeds:
        instance = undeferred(seed)
        assert suits(instance)
        few = check.count(instance) <= 2**11
        best = solve(instance, "brute-force" if few else "cp-sat", warm_start=False)
        search = Search(limit_s=20.0)
        solve_by_columns(instance, search)
        assert search.objective == best.objective, seed
        if best.objective is not None:
            assert search.bound == best.objective, seed
            assert not check.violations(instance, search.solution, search.objective)
            found.append(few)
    assert {True, False} == set(found)


@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 200), marks=pytest.mark.slow)])
def test_columns_use_what_the_checker_says(seeds: range) -> None:
    """Time, copies, memory and loss of random columns of all layers together."""
    rng = random.Random(seeds.start)
    cached = 0
    for seed in seeds:
        roomy = {"gpu_bytes": 2**40, "max_loss": 2**40, "host_bytes": 2**40}
        instance = undeferred(seed, **roomy)
        arrays, context = Arrays.of(instance), instance.contexts[0]
        layers = [layer_columns(arrays, layer) for layer in range(instance.layers)]
        digits = [rng.randrange(len(of.number)) for of in layers]
        uses = sum(of.uses[n] for of, n in zip(layers, digits, strict=True)).tolist()
        numbers = [int(of.number[n]) for of, n in zip(layers, digits, strict=True)]
        plain = _plan(instance, numbers)
        plan = solution_of(arrays, plan_of(instance, plain), cost(arrays, plan_of(instance, plain)))
        steps, copies = check.step_times_ns(instance, plan)
        begin = len(steps) * (context.step_ns + sum(context.attention_ns))
        gpu, host = check.memory_bytes(instance, plan)
        lost = check.loss(instance, plan)
        shown = [sum(steps) - begin, copies, gpu - context.kv_bytes, lost - context.kv_loss, host]
        assert uses == shown, seed
        cached += copies > 0
    assert cached


def _plan(instance: Instance, numbers: list[int]) -> Solution:
    """Return the plan of a column of each layer."""
    experts, widths = range(instance.experts), len(instance.bits)
    resident, bits, ways = [], [], []
    for number in numbers:
        rest, width = divmod(number, widths**instance.experts)
        given, held = divmod(rest, 1 << instance.experts)
        ways.append(given)
        resident.append([e for e in experts if held >> e & 1])
        places = [width // widths**e % widths for e in reversed(experts)]
        bits.append([instance.bits[place] for place in places])
    nothing = [0] * instance.layers
    return Solution(
        instance=instance.name,
        context=0,
        resident=resident,
        bits=bits,
        ways=ways,
        deferred=nothing,
    )


def test_a_layer_has_all_its_choices() -> None:
    """With room for all; with little room only those that fit."""
    roomy = {"gpu_bytes": 2**40, "max_loss": None, "host_bytes": None}
    instance = undeferred(4, **roomy)
    widths = len(instance.bits)
    every = (instance.max_ways + 1) * (2 * widths) ** instance.experts
    assert len(layer_columns(Arrays.of(instance), 0).number) == every
    tight = Arrays.of(instance.model_copy(update={"gpu_bytes": 0}))
    alone = layer_columns(tight, 0)
    assert (alone.uses[:, 2] == 0).all()
    residents = alone.number // widths**instance.experts % (1 << instance.experts)
    assert np.unique(residents).tolist() == [0]


def test_what_may_be_deferred_or_has_many_columns_does_not_suit() -> None:
    """The last layer defers nothing, so that a single one suits."""
    instance = random_instance(0)
    assert not suits(instance.model_copy(update={"max_deferred": 1}))
    many = {"max_deferred": 0, "experts": 9, "width_loss": None}
    assert not suits(instance.model_copy(update=many))
    alone = random_instance(4)
    assert alone.layers == 1
    assert suits(alone.model_copy(update={"max_deferred": 1}))


def test_no_time_proves_nothing() -> None:
    """Columns that would take longer than there is time for are not begun."""
    search = Search(limit_s=0.0)
    solve_by_columns(undeferred(1), search)
    assert search.objective is None
    assert search.bound is None


def test_plans_with_caches_are_proven() -> None:
    """Six layers of eight experts at two widths: without columns 1.6 % stay open."""
    rng = np.random.default_rng(3)
    chosen = np.array([[rng.permutation(8)[:2] for _ in range(6)] for _ in range(10)])
    instance = Instance.from_arrays(
        chosen=chosen,
        experts=8,
        bits=[4, 8],
        expert_bytes=[1, 2],
        gpu_ns=[9, 17],
        cpu_ns=[92, 184],
        copy_ns=[150, 300],
        attention_ns=63,
        hand_over_ns=11,
        width_loss=np.stack([rng.integers(50, 99, size=(6, 8)), np.zeros((6, 8), int)], axis=2),
        max_loss=2000,
        gpu_bytes=24,
        max_ways=2,
        name="cached",
    )
    found = solve(instance, "column-lagrangian", work_limit=4)
    assert found.status == "optimal"
    assert not check.violations(instance, found.solution, found.objective)
