"""The oracle against hand computation, and every exact method against the oracle."""

from typing import Any

import pytest

from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.balance.balance_random_instances import KINDS, random_instance
from tests.rooms.balance import Instance, candidates, count, objective, violations
from tests.rooms.core import Search

PER_KIND = 32
SHARES = [range(2), pytest.param(range(2, PER_KIND), marks=pytest.mark.slow)]


def instance_of(experts: list[tuple[int, int, bool]], **changes: Any) -> Instance:
    """Return an instance from (GPU time, NDP time, resident) per expert; one unit, one slice."""
    rows = [
        {"expert": e, "tokens": 1, "resident": at, "slice_gpu_ns": gpu, "slice_ndp_ns": ndp}
        for e, (gpu, ndp, at) in enumerate(experts)
    ]
    data: dict[str, Any] = {"stage": "decode", "ndp_units": 1, "slices_per_unit": 1, "seq_len": 1}
    return Instance(name="small", experts=rows, **(data | changes))


def times(transfer: int, activation: int = 0, **changes: Any) -> dict[str, Any]:
    """Return the two times that belong to no expert, and other changes."""
    return {"slice_transfer_ns": transfer, "activation_ns": activation} | changes


PROMPT: dict[str, Any] = {"stage": "prefill", "seq_len": 3}
AWAY, RESIDENT = False, True

ANCHORS: dict[str, tuple[Instance, int]] = {
    # On the unit: 2 hand-overs of 1 and 10. On the GPU: 5 + 3, and no activations at all.
    "one slice": (instance_of([(3, 10, AWAY)], **times(5, 1)), 8),
    # None: 3 + 10. One slice: the other unit still ends at 13. Both: 4 + 4 + 3.
    "two units": (instance_of([(3, 10, AWAY)], **times(4, 1, ndp_units=2)), 11),
    # The resident computes from 0 to 3 while the other one arrives at 5: done at 8.
    "a resident fills the wait": (
        instance_of([(3, 10, RESIDENT), (3, 10, AWAY)], **times(5, 1)),
        8,
    ),
    # None: 2 x 4 + 6 = 14. One: 3 and 2 x 4 of activations, and 2 x 4 + 3: 11. Both: 2 + 2 + 1.
    "activations fall away": (instance_of([(1, 3, AWAY)] * 2, **times(2, 4), **PROMPT), 5),
    # As before with transfers of 20: one would end at 21 + 8, both at 41.
    "a slow link": (instance_of([(1, 3, AWAY)] * 2, **times(20, 4), **PROMPT), 14),
    # Each unit has 2 slices of 6. One of each: 3 + 3 + 1 and 6. A third one would be in vain.
    "as many from each unit": (
        instance_of([(1, 6, AWAY)], **times(3, ndp_units=2, slices_per_unit=2)),
        7,
    ),
    # The longest NDP work is the first: 6 + 5 and 9. The other: 6 + 1 and 10. Both: 6 + 6 + 1.
    "a short computation wins": (instance_of([(5, 10, AWAY), (1, 9, AWAY)], **times(6)), 10),
    # A knapsack. First and last: 1 + 4 + 2 and 6. First two: 1 + 9. Only the first: 5 and 8.
    "a fast link": (instance_of([(4, 6, AWAY), (5, 6, AWAY), (2, 2, AWAY)], **times(1)), 7),
    # Each unit must give up more than 53. The first from one, the others from the other unit: three
    # transfers are 135, behind the first of them 102. The short ones from both: 4 x 45 + 1.
    "a long computation": (
        instance_of([(100, 100, AWAY), (1, 50, AWAY), (1, 50, AWAY)], **times(45, ndp_units=2)),
        147,
    ),
    # The second: 6 and 6. The first: 7 and 5. Both sides of the optimum end at once.
    "filled to the brim": (instance_of([(7, 6, RESIDENT), (6, 5, RESIDENT)], **times(1)), 6),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


def test_the_oracle_leaves_nothing_out() -> None:
    """Two experts on two units of two slices: every count of slices, once each."""
    instance = random_instance(3).model_copy(update={"ndp_units": 2, "slices_per_unit": 2})
    instance = instance.model_copy(update={"experts": random_instance(3).experts[:1]})
    found = [candidate.gpu_slices for candidate in candidates(instance)]
    assert len(found) == len(set(found)) == count(instance) == 9
    assert all(0 <= entry <= 2 for rows in found for row in rows for entry in row)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind))


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help(random_instance(seed, kind) for kind in KINDS for seed in seeds)


@pytest.mark.parametrize(
    "seeds", [range(1000, 1010), pytest.param(range(1010, 1100), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_the_dynamic_program_claims_nothing_false(kind: str, seeds: range) -> None:
    """By itself, without what goes on: its bracket holds the optimum and is valid, on 100 more."""
    from tests.rooms.balance import solve as dp

    closed = 0
    for seed in seeds:
        instance = random_instance(seed, kind)
        optimum = min(objective(instance, candidate) for candidate in candidates(instance))
        search = Search()
        dp(instance, search)
        assert search.objective is not None
        assert search.bound is None or search.bound <= optimum <= search.objective, instance
        assert objective(instance, search.solution) == search.objective
        assert violations(instance, search.solution) == []
        closed += search.closed
    assert closed >= 0.7 * len(seeds)
