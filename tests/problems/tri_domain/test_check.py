"""The checker: each constraint's violation is named, and loads are what Eq. 5 and 6 say."""

import random

import pytest

from tests.problems.tri_domain.random_instances import (
    SCHEMA_2_KINDS,
    random_instance,
    random_schema_2,
)
from tests.rooms.tri_domain import (
    CONSTRAINTS,
    DOMAINS,
    Instance,
    Solution,
    check,
    loads,
    objective,
    violations,
)

STRIPED = {"expert": 4, "tokens": 1, "resident": False, "dimm": None, "ndp_ns": None}
LOCAL = {"expert": 7, "tokens": 1, "resident": False, "dimm": 1, "ndp_ns": 50}
COSTS = {"gpu_ns": 10, "cpu_ns": 20, "gpu_dram_ns": 3, "cpu_dram_ns": 4}
INSTANCE = Instance(name="pair", dimms=2, experts=[STRIPED | COSTS, LOCAL | COSTS])

PARTS = {"gpu_calc_ns": 1, "pcie_ns": 9}
LONG_READS = {"gpu_dram_ns": 30, "cpu_dram_ns": 30}
MEMORY = {"schema_version": 2, "channels": [7, 7], "dimm_share": [1, 2], "dimms": 2}
ON_ONE_CHANNEL = Instance(
    name="pair", experts=[STRIPED | COSTS | LONG_READS, LOCAL | COSTS | LONG_READS], **MEMORY
)
TWO_PARTS = Instance(
    name="pair", experts=[STRIPED | COSTS | PARTS, LOCAL | COSTS | PARTS], **MEMORY
)
OF_RULE = {"TD-C6": ON_ONE_CHANNEL, "TD-C7": TWO_PARTS}


def judged(
    *assignment: str | None, claim: int | None = None, instance: Instance = INSTANCE
) -> list[tuple[str, str]]:
    """Return the violations of an assignment on the pair of experts."""
    return violations(instance, Solution(instance="pair", assignment=assignment), claim)


@pytest.mark.parametrize(
    ("assignment", "claim", "rule", "words"),
    [
        (("gpu", None), None, "TD-C1", "expert 7 runs nowhere"),
        (("gpu",), None, "TD-C1", "1 entries for 2 experts"),
        (("gpu", "gpu", "gpu"), None, "TD-C1", "3 entries for 2 experts"),
        (("ndp", "ndp"), None, "TD-C2", "expert 4 is striped"),
        (("gpu", "gpu"), 19, "TD-C3", "the GPU is busy for 20 ns"),
        (("cpu", "cpu"), 39, "TD-C4", "the CPU is busy for 40 ns"),
        (("gpu", "ndp"), 52, "TD-C5", "DIMM 1 is busy for 53 ns"),
        # The DIMMs are busy for 15 and 45 only.
        (("cpu", "gpu"), 59, "TD-C6", "channel 7 is busy for 60 ns"),
        # The GPU computes for 2 only.
        (("gpu", "gpu"), 17, "TD-C7", "the PCIe link is busy for 18 ns"),
    ],
)
def test_each_violation_is_named(
    assignment: tuple[str | None, ...], claim: int | None, rule: str, words: str
) -> None:
    """One violation, with its constraint and the culprit."""
    [(found, sentence)] = judged(*assignment, claim=claim, instance=OF_RULE.get(rule, INSTANCE))
    assert found == rule
    assert words in sentence


def test_a_valid_schedule_within_its_claim_has_no_violation() -> None:
    """The claim may be exact or generous."""
    assert judged("gpu", "ndp") == judged("gpu", "ndp", claim=53) == judged("gpu", "ndp", claim=99)
    assert judged("gpu", "ndp") == []


def test_every_constraint_can_be_violated() -> None:
    """The cases above cover the checker's whole table."""
    cases = test_each_violation_is_named.pytestmark[0].args[1]
    assert {rule for _, _, rule, _ in cases} == set(CONSTRAINTS)


@pytest.mark.parametrize(
    ("assignment", "gpu", "cpu", "dimms"),
    [
        (("gpu", "gpu"), 20, 0, (3, 6)),
        (("gpu", "cpu"), 10, 20, (3, 7)),
        (("cpu", "ndp"), 0, 20, (4, 54)),
        (("cpu", "gpu"), 10, 20, (4, 7)),
    ],
)
def test_loads_by_hand(
    assignment: tuple[str, str], gpu: int, cpu: int, dimms: tuple[int, int]
) -> None:
    """A striped read loads both DIMMs, a localized one and NDP work only DIMM 1."""
    load = loads(INSTANCE, Solution(instance="pair", assignment=assignment))
    assert (load.gpu_ns, load.cpu_ns, load.dimm_ns) == (gpu, cpu, dimms)
    assert load.makespan_ns == max(gpu, cpu, *dimms)


@pytest.mark.parametrize("kind", ["plain", *SCHEMA_2_KINDS])
def test_many_experts_are_added_up_as_few_are(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With arrays or one by one: the same loads and the same sentences, for wrong schedules too."""
    rng = random.Random(kind)
    for seed in range(25):
        instance = random_instance(seed) if kind == "plain" else random_schema_2(seed, kind)
        size = len(instance.experts) + rng.choice([0, 0, 0, 1, -1])
        domains = rng.choice([DOMAINS, DOMAINS[:2], (*DOMAINS, None)])
        assignment = tuple(rng.choice(domains) for _ in range(size))
        solution = Solution(instance=instance.name, assignment=assignment)
        claim = rng.choice([None, 0, objective(instance, solution)])
        due = loads(instance, solution), violations(instance, solution, claim)
        monkeypatch.setattr(check, "FEW", 0)
        assert (loads(instance, solution), violations(instance, solution, claim)) == due
        monkeypatch.undo()
