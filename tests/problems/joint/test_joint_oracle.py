"""The oracle against hand computation, and every exact method against the oracle."""

from typing import Any

import pytest

from moeopt import solve
from tests.problems.agreement import assert_agreement, assert_anchors
from tests.problems.joint.joint_random_instances import KINDS, random_instance
from tests.rooms.joint import CONSTRAINTS, Instance, Model, candidates, count

SEEDS = 30 * len(KINDS)
SHARES = [range(len(KINDS)), pytest.param(range(len(KINDS), SEEDS), marks=pytest.mark.slow)]


def small(chosen: Any, gpu_bytes: int, **changes: Any) -> Instance:
    """Return experts of 1 byte: 2 ns on the GPU, 9 on the CPU, attention 5, a hand-over 1."""
    data: dict[str, Any] = {"experts": 3, "expert_bytes": [1], "gpu_ns": [2], "cpu_ns": [9]}
    data |= {"attention_ns": 5, "hand_over_ns": 1, "name": "small"}
    return Instance.from_arrays(chosen=chosen, gpu_bytes=gpu_bytes, **(data | changes))


TWO = [[[0, 1]]]
IN_TURN = [[[0]], [[0]], [[1]], [[1]], [[2]], [[2]]]
WIDTHS: dict[str, Any] = {
    "bits": [4, 8],
    "expert_bytes": [1, 2],
    "gpu_ns": [2, 4],
    "cpu_ns": [9, 18],
    "width_loss": [[[5, 0]]],
    "experts": 1,
}

ANCHORS: dict[str, tuple[Instance, int]] = {
    # 5 + 1 + 9 + 9 + 1.
    "no room": (small(TWO, 0), 25),
    # The CPU's 5 + 1 + 9 + 1, the GPU's 5 + 2 meanwhile.
    "room for one": (small(TWO, 1), 16),
    "room for both": (small(TWO, 2), 9),
    # The GPU is slow: both on the CPU, 5 + 1 + 2 + 2 + 1, although both are resident.
    "free dispatch": (small(TWO, 2, gpu_ns=[9], cpu_ns=[2]), 11),
    # Slower still on the CPU: one each, 5 + 1 + 5 + 1 beside 5 + 7.
    "one on either side": (small(TWO, 2, gpu_ns=[7], cpu_ns=[5]), 12),
    # Two layers on the CPU: 16 each.
    "nothing deferred": (small([[[0], [0]]], 0), 32),
    # The first answers at 7 and is done at 15; the second runs from 15 to 24 and is back at 25.
    "one deferred": (small([[[0], [0]]], 0, max_deferred=1), 25),
    # Deferring the first loses 4.
    "too dear to defer": (
        small([[[0], [0]]], 0, max_deferred=1, max_loss=3, deferral_loss=[[[4], [0]]]),
        32,
    ),
    # A resident serves two of six steps: 2 x 7 + 4 x 16.
    "no cache": (small(IN_TURN, 1), 78),
    # A way serves every second step: 3 x 7 + 3 x 16, and three copies of 10 beside.
    "a cache": (small(IN_TURN, 1, max_ways=1, copy_ns=[10]), 69),
    # Three copies of 30 take longer than a resident's 78.
    "slow copies": (small(IN_TURN, 1, max_ways=1, copy_ns=[30]), 78),
    # The narrow width fits but loses 5: the wide one on the CPU takes 5 + 1 + 18 + 1.
    "no loss": (small([[[0]]], 1, max_loss=4, **WIDTHS), 25),
    "some loss": (small([[[0]]], 1, max_loss=5, **WIDTHS), 7),
    # The host has room for the narrow width alone.
    "a small host": (small([[[0]]], 0, host_bytes=1, **WIDTHS), 16),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


def test_the_context_is_a_decision() -> None:
    """A narrow KV cache leaves room for the expert, if the loss is allowed."""
    wide = {"name": "wide", "kv_bytes": 2, "attention_ns": [5]}
    narrow = {"name": "narrow", "kv_bytes": 1, "attention_ns": [5], "kv_loss": 3}
    base = small([[[0]]], 2, experts=1)
    for limit, expected in ((2, (0, 16)), (3, (1, 7)), (None, (1, 7))):
        changed = base.model_dump() | {"contexts": [wide, narrow], "max_loss": limit}
        found = solve(Instance.model_validate(changed), "brute-force")
        assert (found.solution.context, found.objective) == expected


@pytest.mark.parametrize("seeds", SHARES)
def test_every_method_agrees_with_brute_force(seeds: range) -> None:
    """Of every kind, some infeasible; see `assert_agreement`."""
    assert "optimal" in {assert_agreement(random_instance(seed)) for seed in seeds}


@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_constraint_that_is_left_out_is_missed(rule: str) -> None:
    """Without it the model finds less than the optimum, or what the checker rejects."""
    assert rule in Model.constraints()
    for seed in (134, 47, 1, 5, *range(60)):  # the first ones are where rules bind
        instance = random_instance(seed)
        with_all = solve(instance, "cp-sat", warm_start=False)
        without = solve(instance, "cp-sat", without=[rule], warm_start=False)
        if without.objective != with_all.objective or without.violations:
            return
    pytest.fail(f"{rule} changes nothing")


MORE = ("gpu_bytes", "host_bytes", "max_loss", "max_deferred", "max_ways")
CASES = [range(6), pytest.param(range(6, 200), marks=pytest.mark.slow)]


def worse(instance: Instance, what: str) -> Instance | None:
    """Return an instance with less of something, or slower parts; None where it is the same."""
    if what in MORE:
        value = getattr(instance, what)
        return instance.model_copy(update={what: value - 1}) if value else None
    if what == "bandwidth":
        slower = [[2 * ns for ns in table] for table in instance.cpu_ns]
        return instance.model_copy(update={"cpu_ns": slower})
    longer = [
        context.model_copy(
            update={
                "kv_bytes": context.kv_bytes + 1,
                "attention_ns": tuple(ns + 1000 for ns in context.attention_ns),
            }
        )
        for context in instance.contexts
    ]
    return instance.model_copy(update={"contexts": tuple(longer)})


@pytest.mark.parametrize("what", [*MORE, "bandwidth", "context"])
@pytest.mark.parametrize("seeds", CASES)
def test_more_never_costs(seeds: range, what: str) -> None:
    """More memory, quality to lose, choice or bandwidth, or a shorter context: none is slower."""
    changed = 0
    for seed in seeds:
        instance = random_instance(seed, "caches" if what == "max_ways" else None)
        less = worse(instance, what)
        if less is None:
            continue
        before, after = (solve(of, "cp-sat") for of in (less, instance))
        if before.objective is not None:
            assert after.objective is not None
            assert after.objective <= before.objective, instance
        changed += after.objective != before.objective
    assert changed


def test_the_count_of_candidates_is_exact() -> None:
    """Also where dispatch multiplies decisions."""
    for seed in (0, 5, 7):
        instance = random_instance(seed)
        assert count(instance) == sum(1 for _ in candidates(instance))
