"""The checker against sums by hand, and each rule it keeps."""

from typing import Any

import pytest

from tests.rooms.placement import Instance, LayerStep, Solution, layer_steps, objective, violations

STEPS = [[[[0, 2], [1, 1]], [[2, 1]]], [[[1, 3]], []]]


def made(**changes: Any) -> Instance:
    """Return two layers of three experts: GPU 4 6 7 by tokens, elsewhere 10 30 60, charge 100."""
    data: dict[str, Any] = {"layers": 2, "experts": 3, "gpu_slots": 3, "steps": STEPS}
    data |= {"gpu_expert_ns": [0, 4, 6, 7], "offload_expert_ns": [0, 10, 30, 60]}
    return Instance(name="hand", **(data | {"layer_offload_fixed_ns": 100} | changes))


def on(*gpu: tuple[int, ...]) -> Solution:
    """Return the solution with these experts on the GPU."""
    return Solution(instance="hand", gpu=gpu)


def test_layers_and_steps_by_hand() -> None:
    """Step 0: expert 0 there, 1 away; expert 2 away. Step 1: expert 1 away; nothing to do."""
    found = list(layer_steps(made(), on((0,), ())))
    away = [LayerStep(6, 10, 100), LayerStep(0, 10, 100), LayerStep(0, 60, 100), LayerStep(0, 0, 0)]
    assert found == away
    assert objective(made(), on((0,), ())) == 110 + 110 + 160
    assert objective(made(), on((0, 1), (2,))) == 10 + 4 + 7
    assert objective(made(), on((), ())) == 140 + 110 + 160


def test_the_later_side_counts() -> None:
    """Without a charge: 60 on the GPU against 10 elsewhere, and 30 against nothing."""
    slow = made(gpu_expert_ns=[0, 30, 60, 90], layer_offload_fixed_ns=0)
    assert objective(slow, on((0,), (2,))) == 60 + 30 + 60


def test_no_charge_where_nothing_with_tokens_is_away() -> None:
    """Expert 2 of layer 0 and experts 0, 1 of layer 1 are away, and never have tokens."""
    assert all(step.fixed_ns == 0 for step in layer_steps(made(), on((0, 1), (2,))))


@pytest.mark.parametrize(
    ("changes", "solution", "claim", "rules"),
    [
        ({}, on((0, 1), (2,)), None, []),
        ({}, on((0, 1), (2,)), 21, []),
        ({}, on((0, 1)), None, ["PL-C1"]),
        ({}, on((0,), (2,), ()), None, ["PL-C1"]),
        ({}, on((0, 0), ()), None, ["PL-C1"]),
        ({}, on((3,), ()), None, ["PL-C1"]),
        ({}, on((0, 1), (0, 1)), None, ["PL-C1"]),
        ({"expert_slots": [[2, 2, 1], [1, 1, 1]]}, on((0, 1), ()), None, ["PL-C1"]),
        ({"expert_slots": [[2, 1, 1], [1, 1, 1]]}, on((0, 1), ()), None, []),
        ({"fill": True}, on((0, 1), ()), None, ["PL-C2"]),
        ({"fill": True}, on((0, 1), (0,)), None, []),
        ({"host_slots": 5}, on((0, 1), (0,)), None, ["PL-C3"]),
        ({"host_slots": 6}, on((0, 1), (0,)), None, []),
        ({"host_slots": 3, "host_copy": False}, on((0, 1), ()), None, ["PL-C3"]),
        ({"host_slots": 3, "host_copy": False}, on((0, 1), (0,)), None, []),
        ({"restriction": "whole-layers"}, on((0, 1), ()), None, ["PL-C4"]),
        ({"restriction": "whole-layers"}, on((0, 1, 2), ()), None, []),
        ({"restriction": "equal-counts"}, on((0, 1), (2,)), None, ["PL-C5"]),
        ({"restriction": "equal-counts"}, on((0,), (2,)), None, []),
        ({"gpu_slots": 2, "fill": True, "restriction": "whole-layers"}, on((0,), ()), None,
         ["PL-C2", "PL-C4"]),
        ({}, on((0, 1), (2,)), 20, ["PL-C6"]),
        ({}, on((), ()), 409, ["PL-C8"]),
        ({}, on((), ()), 110, ["PL-C8"]),
        ({}, on((), ()), 109, ["PL-C7"]),
    ],
)  # fmt: skip
def test_violations_name_the_rule(
    changes: dict[str, Any], solution: Solution, claim: int | None, rules: list[str]
) -> None:
    """Each rule is named, and no other."""
    assert [rule for rule, _ in violations(made(**changes), solution, claim)] == rules


def test_what_is_no_expert_is_away() -> None:
    """The objective of a wrong solution is still a number."""
    assert objective(made(), on((7,))) == objective(made(), on((), ()))
