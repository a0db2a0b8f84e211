"""The checker says what is wrong, with the rule; instances refuse what makes no sense."""

import random
from typing import Any

import pytest

from moeopt import InputError
from tests.problems.joint.joint_random_instances import random_instance, random_solution
from tests.rooms.joint import (
    Instance,
    Solution,
    differences,
    execute,
    facts,
    lanes,
    objective,
    violations,
)

INSTANCE = Instance.from_arrays(
    chosen=[[[0, 1], [1, 2]]],
    experts=3,
    bits=[4, 8],
    expert_bytes=[1, 2],
    gpu_ns=[2, 4],
    cpu_ns=[9, 18],
    copy_ns=[50, 100],
    attention_ns=5,
    hand_over_ns=1,
    gpu_bytes=4,
    host_bytes=9,
    max_loss=6,
    max_ways=1,
    max_deferred=1,
    width_loss=[[[3, 0]] * 3] * 2,
    deferral_loss=[[[2, 2], [1, 1]]],
    name="checked",
)
VALID: dict[str, Any] = {
    "instance": "checked",
    "context": 0,
    "resident": [[0], [1]],
    "bits": [[4, 8, 8], [4, 8, 8]],
    "ways": [0, 0],
    "deferred": [0, 0],
}

WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no context": ({"context": None}, "JT-C1"),
    "an unknown context": ({"context": 1}, "JT-C1"),
    "a layer less": ({"resident": [[0]]}, "JT-C1"),
    "twice": ({"resident": [[0, 0], []]}, "JT-C1"),
    "no such expert": ({"resident": [[3], []]}, "JT-C1"),
    "no width": ({"bits": [[None, 8, 8], [8, 8, 8]]}, "JT-C1"),
    "no such width": ({"bits": [[2, 8, 8], [8, 8, 8]]}, "JT-C1"),
    "too many ways": ({"ways": [2, 0]}, "JT-C1"),
    "the last layer defers": ({"deferred": [0, 1]}, "JT-C1"),
    "GPU memory": ({"resident": [[0, 1], [1]]}, "JT-C2"),
    "GPU memory with a cache": ({"ways": [1, 0]}, "JT-C2"),
    "host memory": ({"bits": [[8, 8, 8], [4, 8, 8]]}, "JT-C3"),
    "loss of widths": ({"bits": [[4, 4, 4], [4, 8, 8]]}, "JT-C4"),
    "loss of deferral": ({"deferred": [1, 0]}, "JT-C4"),
    "swapped without tokens": ({"swapped": [(0, 0, 2)]}, "JT-C5"),
    "swapped off the CPU": ({"swapped": [(0, 0, 1)]}, "JT-C5"),
    "swapped twice": ({"swapped": [(0, 0, 0), (0, 0, 0)]}, "JT-C5"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    """One change of a valid plan at a time."""
    plan = Solution.model_validate(VALID | {"bits": [[4, 8, 8], [4, 8, 8]]})
    roomy = INSTANCE.model_copy(update={"host_bytes": 10})
    assert violations(roomy, plan) == []
    instance = INSTANCE if name == "host memory" else roomy
    changes, rule = WRONG[name]
    assert rule in {found for found, _ in violations(instance, plan.model_copy(update=changes))}


def test_a_claim_names_the_rule_that_it_leaves_out() -> None:
    """The clocks by hand, each without one of the rules."""
    roomy = INSTANCE.model_copy(update={"host_bytes": 12, "max_loss": None, "gpu_bytes": 9})
    plan = Solution.model_validate(VALID | {"deferred": [1, 0]})
    # Layer 0: GPU 5 + 2 = 7, the CPU answers at 7 and is done at 6 + 18 = 24. Layer 1: attention
    # until 12, expert 1 until 16, expert 2 from 24 to 42, back at 43.
    assert objective(roomy, plan) == 43
    for claim, rule in ((16, "JT-C7"), (42, "JT-C7")):
        assert [found for found, _ in violations(roomy, plan, claim)] == [rule]
    cached = plan.model_copy(update={"ways": (1, 1), "deferred": (0, 0)})
    # Layer 0 takes 5 + 1 + 18 + 1, layer 1 the same; expert 1 of the one and 2 of the other are
    # copied, 100 ns each.
    assert objective(roomy, cached) == 200
    assert [found for found, _ in violations(roomy, cached, 50)] == ["JT-C9"]


def test_the_engine_takes_as_long_as_the_checker_says() -> None:
    """On random plans of random instances, dispatch included."""
    rng = random.Random(1)
    for seed in range(200):
        instance = random_instance(seed)
        plan = random_solution(rng, instance)
        assert execute(instance, plan).objective == objective(instance, plan)


def test_views_describe_plans() -> None:
    """Facts in numbers, lanes per device, and what two plans decide differently."""
    plan = Solution.model_validate(VALID)
    other = plan.model_copy(update={"resident": ((1,), (1,)), "deferred": (1, 0)})
    assert facts(INSTANCE, plan)["residents"] == 2
    assert [lane.device for lane in lanes(INSTANCE, plan)] == ["GPU", "CPU", "copies"]
    said = [what for _, what, _, _ in differences(INSTANCE, plan, other)]
    assert said == ["layer 0", "layer 0, expert 0", "layer 0, expert 1"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"bits": [8, 8]}, "bits"),
        ({"expert_bytes": [1]}, "expert_bytes"),
        ({"gpu_ns": [[0, 1]]}, "gpu_ns"),
        ({"cpu_ns": [[1, 1], [0, 1]]}, "cpu_ns"),
        ({"shared_ns": [1]}, "shared_ns"),
        ({"contexts": []}, "contexts"),
        ({"contexts": [{"name": "a", "kv_bytes": 0, "attention_ns": [1]}]}, "contexts"),
        ({"max_ways": 4}, "max_ways"),
        ({"width_loss": [[[0, 0]] * 3]}, "width_loss"),
        ({"steps": [[[(0, 1, 0)]]]}, "steps"),
        ({"steps": [[[(3, 1, 0)], []]]}, "steps"),
        ({"steps": [[[(0, 2, 0)], []]]}, "steps"),
        ({"steps": [[[(0, 1, 0), (0, 1, 0)], []]]}, "steps"),
        ({"cpu_ns": [[0, 2**42], [0, 2**42]], "steps": [[[(0, 1, 0)], []]] * 300}, "steps"),
    ],
)
def test_instances_refuse_what_makes_no_sense(changes: dict[str, Any], field: str) -> None:
    """One line that names the field."""
    with pytest.raises(InputError, match=field) as caught:
        Instance.model_validate(INSTANCE.model_dump() | changes)
    assert "\n" not in str(caught.value)
