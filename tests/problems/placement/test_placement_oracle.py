"""The oracle against hand computation, and every exact method against the oracle."""

from typing import Any

import pytest

from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.placement.placement_random_instances import KINDS, random_instance
from tests.rooms.placement import Instance, candidates, count

PER_KIND = 18
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]


def small(steps: list[list[list[list[int]]]], slots: int, **changes: Any) -> Instance:
    """Return an instance of three experts per layer: 1 per token on the GPU, 10 elsewhere."""
    data: dict[str, Any] = {"experts": 3, "gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 10]}
    data |= {"layer_offload_fixed_ns": 5, "gpu_slots": slots, "layers": len(steps[0])}
    return Instance(name="small", steps=steps, **(data | changes))


ONE_LAYER = [[[[0, 1], [1, 1]]], [[[0, 1], [2, 3]]]]
"""Experts 0 and 1, then 0 and 2 with three tokens."""

ANCHORS: dict[str, tuple[Instance, int]] = {
    # 10 + 10 + 5, then 10 + 30 + 5.
    "no slot": (small(ONE_LAYER, 0), 70),
    # Expert 2 saves 30 of offload, expert 0 twice 10: the first step 25, the second 10 + 5.
    "one slot": (small(ONE_LAYER, 1), 40),
    # 0 and 2: 10 + 5, then 3 + 1 and no charge.
    "two slots": (small(ONE_LAYER, 2), 19),
    "all": (small(ONE_LAYER, 3), 2 + 4),
    # GPU at 9 per token: 0 and 2 cost 15 and 36; 2 alone 25 and 27; 0 and 1 cost 18 and 35;
    # 0 alone 15 and 35; 1 and 2 cost 15 and 27.
    "the GPU is later": (small(ONE_LAYER, 3, gpu_expert_ns=[0, 9]), 42),
    # Exactly three: 18 + 36.
    "every slot": (small(ONE_LAYER, 3, gpu_expert_ns=[0, 9], fill=True), 54),
    # 2 is too large for three slots: 0 and 1 give 2 + 35.
    "sizes": (small(ONE_LAYER, 3, expert_slots=[[1, 1, 4]]), 37),
    # The host has room for one of three: two or three on the GPU, 0 and 2 at best; all at 6.
    "host": (small(ONE_LAYER, 2, host_slots=1, host_copy=False), 19),
    # Two layers, three slots: layer 0 as a whole (2), the other offloads 15 in one step.
    "whole layers": (small([[[[0, 1], [1, 1]], [[2, 1]]]], 4, restriction="whole-layers"), 17),
    # One expert each: 15 + 1.
    "equal counts": (small([[[[0, 1], [1, 1]], [[2, 1]]]], 3, restriction="equal-counts"), 16),
    # Two of the first layer and one of the second: 2 + 1.
    "any counts": (small([[[[0, 1], [1, 1]], [[2, 1]]]], 3), 3),
    # 5 tokens beyond a table that ends at 2: 12 + 3 x 2.
    "beyond the table": (small([[[[0, 5]]]], 0, offload_expert_ns=[0, 10, 12]), 23),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


def test_the_oracle_leaves_nothing_out() -> None:
    """All sets of all layers, each once."""
    instance = small([[[[0, 1]], [[1, 1]]]], 2)
    found = [candidate.gpu for candidate in candidates(instance)]
    assert len(found) == len(set(found)) == count(instance) == 64


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind))


def test_starting_solutions_change_nothing_but_time() -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help(
        (random_instance(seed, kind) for kind in KINDS for seed in range(1)), "price-and-swap"
    )
