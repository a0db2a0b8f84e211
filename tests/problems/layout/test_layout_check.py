"""The checker: each constraint's violation is named; loads of devices are what Eq. 5 and 6 say."""

import random

import pytest

from tests.problems.layout import test_layout_copies, test_layout_schema_2
from tests.problems.layout.layout_random_instances import KINDS, random_instance
from tests.rooms.layout import CONSTRAINTS, Instance, Solution, loads, objective, violations

# Expert 0 and 1 always have tokens, 2 only in scenario 1, 3 never.
COSTS = {
    "gpu_hit_ns": [1, 2, 3, 0],
    "gpu_miss_striped_ns": [10, 20, 30, 0],
    "gpu_miss_localized_ns": [11, 21, 31, 0],
    "cpu_striped_ns": [12, 22, 32, 0],
    "cpu_localized_ns": [13, 23, 33, 0],
    "ndp_ns": [50, 60, 70, 0],
}
INSTANCE = Instance(
    name="hand",
    dimms=2,
    hbm_slots=1,
    dimm_slots=1,
    experts=4,
    dram_striped_ns=4,
    dram_localized_ns=7,
    scenarios=[
        {"weight": 1, "tokens": [1, 1, 0, 0], **COSTS},
        {"weight": 3, "tokens": [1, 1, 1, 0], **COSTS},
    ],
)
GOOD = {
    "resident": (True, False, False, False),
    "dimm": (None, 1, None, None),
    "assignment": (("gpu", "ndp", None, None), ("cpu", "gpu", "cpu", None)),
}


def judged(claim: int | None = None, **changes: object) -> list[tuple[str, str]]:
    """Return the violations of the good solution with changes."""
    return violations(INSTANCE, Solution(instance="hand", **(GOOD | changes)), claim)


# The good solution: scenario 0: GPU 1, DIMM 1 60. Scenario 1: GPU 21, CPU 12 + 32 = 44, DIMM 0
# 4 + 4 = 8, DIMM 1 8 + 7 = 15. Objective 60 + 3 * 44 = 192.
FIRST, SECOND = GOOD["assignment"]


@pytest.mark.parametrize(
    ("claim", "changes", "rule", "words"),
    [
        (None, {"assignment": (FIRST,)}, "LA-C1", "1 rows for 2 scenarios"),
        (None, {"assignment": (FIRST, SECOND, SECOND)}, "LA-C1", "3 rows for 2 scenarios"),
        (None, {"assignment": (FIRST[:3], SECOND)}, "LA-C1", "[0] has 3 entries for 4 experts"),
        (None, {"assignment": (FIRST, (*SECOND, None))}, "LA-C1", "[1] has 5 entries"),
        (None, {"assignment": (("gpu", None, None, None), SECOND)}, "LA-C1", "1 has tokens"),
        (None, {"assignment": (("gpu", "ndp", "cpu", None), SECOND)}, "LA-C1", "2 has no tokens"),
        (None, {"assignment": (("ndp", "ndp", None, None), SECOND)}, "LA-C2", "0 is not localized"),
        (None, {"dimm": (None, 1, 2, None)}, "LA-C2", "dimm[2]: there is no DIMM 2, only 2"),
        (None, {"dimm": (None, 1, None)}, "LA-C2", "dimm has 3 entries"),
        (None, {"dimm": (None, 1, None, None, None)}, "LA-C2", "dimm has 5 entries"),
        (None, {"resident": (True, True, False, False)}, "LA-C3", "2 experts are resident"),
        (None, {"resident": (True, False, False)}, "LA-C3", "resident has 3 entries"),
        (None, {"resident": (True, False, False, False, False)}, "LA-C3", "has 5 entries"),
        (None, {"dimm": (None, 1, 1, None)}, "LA-C4", "DIMM 1 holds 2 experts and has 1 slots"),
        (130, {}, "LA-C6", "the CPU is busy for 44 ns in scenario 1"),
        (140, {}, "LA-C7", "DIMM 1 is busy for 60 ns in scenario 0"),
        (
            131,  # (10 + 2) + 3 * (10 + 30) = 132; without the GPU 4 + 3 * 22 = 70
            {
                "resident": (False, True, False, False),
                "dimm": (None,) * 4,
                "assignment": (("gpu", "gpu", None, None), ("gpu", "cpu", "gpu", None)),
            },
            "LA-C5",
            "the GPU is busy for 40 ns in scenario 1",
        ),
    ],
)
def test_each_violation_is_named(
    claim: int | None, changes: dict[str, object], rule: str, words: str
) -> None:
    """One violation, with its constraint and the culprit."""
    [(found, sentence)] = judged(claim, **changes)
    assert found == rule
    assert words in sentence


def test_a_valid_solution_within_its_claim_has_no_violation() -> None:
    """The claim may be exact or generous."""
    assert judged() == judged(192) == judged(999) == []


def test_every_constraint_can_be_violated() -> None:
    """The cases above, and those of schema 2 and of copies, cover the checker's whole table."""
    cases = test_each_violation_is_named.pytestmark[0].args[1]
    of_schema_2 = test_layout_schema_2.test_each_violation_is_named.pytestmark[0].args[1]
    of_copies = test_layout_copies.test_each_violation_is_named.pytestmark[0].args[1]
    assert {case[-2] for case in (*cases, *of_schema_2, *of_copies)} == set(CONSTRAINTS)


def test_the_fewest_rules_that_explain_a_claim_are_named() -> None:
    """192 is 1 + 132 = 133 without the DIMMs, 60 + 63 = 123 without the CPU, 192 without the GPU.

    Without GPU and CPU 60 + 45 = 105, without CPU and DIMMs 1 + 63 = 64, without all 0.
    """
    assert {rule for rule, _ in judged(133)} == {rule for rule, _ in judged(191)} == {"LA-C7"}
    assert {rule for rule, _ in judged(132)} == {rule for rule, _ in judged(123)} == {"LA-C6"}
    assert {rule for rule, _ in judged(122)} == {"LA-C5", "LA-C6"}
    assert {rule for rule, _ in judged(104)} == {"LA-C6", "LA-C7"}
    assert {rule for rule, _ in judged(63)} == {"LA-C5", "LA-C6", "LA-C7"}
    assert {rule for rule, _ in judged(-1)} == {"LA-C5", "LA-C6", "LA-C7"}


def test_loads_by_hand() -> None:
    """A hit reads nothing, a resident on the CPU its host copy, a localized one its own DIMM."""
    first, second = loads(INSTANCE, Solution(instance="hand", **GOOD))
    assert (first.gpu_ns, first.cpu_ns, first.dimm_ns) == (1, 0, (0, 60))
    assert (second.gpu_ns, second.cpu_ns, second.dimm_ns) == (21, 44, (8, 15))
    assert objective(INSTANCE, Solution(instance="hand", **GOOD)) == 192


@pytest.mark.parametrize(
    ("resident", "dimm", "domain", "gpu", "cpu", "dimms"),
    [
        (True, None, "gpu", 3, 0, (0, 0)),
        (True, 0, "gpu", 3, 0, (0, 0)),
        (False, None, "gpu", 30, 0, (4, 4)),
        (False, 0, "gpu", 31, 0, (7, 0)),
        (True, None, "cpu", 0, 32, (4, 4)),
        (False, 1, "cpu", 0, 33, (0, 7)),
        (True, 1, "ndp", 0, 0, (0, 70)),
    ],
)
def test_each_path_costs_what_it_should(
    resident: bool, dimm: int | None, domain: str, gpu: int, cpu: int, dimms: tuple[int, int]
) -> None:
    """Expert 2 alone, in each way it can be run."""
    solution = Solution(
        instance="hand",
        resident=(False, False, resident, False),
        dimm=(None, None, dimm, None),
        assignment=((None,) * 4, (None, None, domain, None)),
    )
    load = loads(INSTANCE, solution)[1]
    assert (load.gpu_ns, load.cpu_ns, load.dimm_ns) == (gpu, cpu, dimms)


def test_wrong_shapes_are_violations_not_errors() -> None:
    """Any solution that can be written down is judged."""
    for kind in KINDS:
        for seed in range(20):
            instance, rng = random_instance(seed, kind), random.Random(seed)

            def length(usual: int, rng: random.Random = rng) -> range:
                return range(rng.choice([0, usual, usual, usual + 2]))

            solution = Solution(
                instance=instance.name,
                resident=[rng.random() < 0.5 for _ in length(instance.experts)],
                dimm=[rng.choice([None, 0, 1, 9]) for _ in length(instance.experts)],
                assignment=[
                    [rng.choice(["gpu", "cpu", "ndp", None]) for _ in length(instance.experts)]
                    for _ in length(len(instance.scenarios))
                ],
            )
            found = violations(instance, solution, rng.choice([None, 0, 10]))
            assert objective(instance, solution) >= 0
            assert {rule for rule, _ in found} <= set(CONSTRAINTS)
