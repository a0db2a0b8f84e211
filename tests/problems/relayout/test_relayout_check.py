"""The checker: each constraint's violation is named, and loads are those of the new layout."""

from typing import Any

import pytest

from tests.refusals import refused
from tests.rooms.relayout import (
    CONSTRAINTS,
    Instance,
    Solution,
    layout_after,
    link_busy_ns,
    loads,
    objective,
    violations,
)

COSTS = {
    "gpu_hit_ns": 3,
    "gpu_miss_striped_ns": 10,
    "gpu_miss_localized_ns": 30,
    "cpu_striped_ns": 20,
    "cpu_localized_ns": 40,
    "ndp_ns": 50,
}
EXPERTS = [
    {"expert": 4, "tokens": 1, "resident": False, "dimm": None} | COSTS,
    {"expert": 7, "tokens": 1, "resident": False, "dimm": 1} | COSTS,
    {"expert": 8, "tokens": 1, "resident": True, "dimm": 0} | COSTS,
    {"expert": 9, "tokens": 0, "resident": False, "dimm": 0} | COSTS,
]
INSTANCE = Instance(
    name="four",
    dimms=2,
    hbm_free_slots=1,
    dram_striped_ns=5,
    dram_localized_ns=11,
    prefetch_ns=100,
    relayout_ns=60,
    rebalance_ns=70,
    pcie_window_ns=200,
    dimm_link_window_ns=130,
    experts=EXPERTS,
)
ALL_ON_GPU = ("gpu", "gpu", "gpu", None)
NEWER = {
    "schema_version": 2,
    "channels": [3, 1],
    "dimm_share": [1, 2],
    "gpu_base_ns": 1000,
    "relayout_share_ns": 20,
    "experts": [
        e | {"gpu_calc_ns": 2, "pcie_striped_ns": 9, "pcie_localized_ns": 25} for e in EXPERTS
    ],
}
"""What makes the four experts an instance of schema 2."""

Move = tuple[int, str] | tuple[int, str, int]


def solution(moves: list[Move], assignment: tuple[str | None, ...] = ALL_ON_GPU) -> Solution:
    """Return a solution from short forms of migrations."""
    migrations = [dict(zip(("expert", "kind", "dimm"), move, strict=False)) for move in moves]
    return Solution(instance="four", migrations=migrations, assignment=assignment)


def judged(
    moves: list[Move],
    assignment: tuple[str | None, ...] = ALL_ON_GPU,
    claim: int | None = None,
    **changed: Any,
) -> list[tuple[str, str]]:
    """Return the violations on the four experts, the instance changed where asked."""
    instance = Instance.model_validate(INSTANCE.model_dump() | changed)
    return violations(instance, solution(moves, assignment), claim)


CHANNELS_ALONE = {
    "schema_version": 2,
    "channels": [3, 1],
    "experts": [e | {"cpu_striped_ns": 1, "cpu_localized_ns": 1} for e in EXPERTS],
    "dimm_share": [1, 5],
}
PARTS_ALONE = {"schema_version": 2, "experts": NEWER["experts"], "dram_localized_ns": 0}

CASES: list[tuple[dict[str, Any], str, str]] = [
    ({"moves": [], "assignment": ("gpu", None, "gpu", None)}, "RE-C1", "expert 7 runs nowhere"),
    ({"moves": [], "assignment": ("gpu", "gpu", "gpu", "ndp")}, "RE-C1", "9 has no tokens"),
    ({"moves": [], "assignment": ("gpu", "gpu", "gpu")}, "RE-C1", "3 entries for 4 experts"),
    ({"moves": [], "assignment": ("ndp", "gpu", "gpu", None)}, "RE-C2", "4 is striped after"),
    (
        {"moves": [(7, "stripe")], "assignment": ("gpu", "ndp", "gpu", None)},
        "RE-C2",
        "expert 7 is striped after",
    ),
    ({"moves": [(4, "prefetch"), (4, "localize", 0)]}, "RE-C3", "expert 4 migrates 2 times"),
    ({"moves": [(7, "stripe"), (7, "localize", 0)]}, "RE-C3", "expert 7 migrates 2 times"),
    ({"moves": [(5, "prefetch")]}, "RE-C4", "expert 5 is not in the instance"),
    ({"moves": [(9, "rebalance", 1)]}, "RE-C4", "expert 9 has no tokens"),
    ({"moves": [(8, "prefetch")]}, "RE-C4", "expert 8 is in the GPU's memory already"),
    ({"moves": [(7, "localize", 0)]}, "RE-C4", "expert 7 lies on DIMM 1 already"),
    ({"moves": [(4, "stripe")]}, "RE-C4", "expert 4 is striped: kind 'stripe'"),
    ({"moves": [(4, "rebalance", 0)]}, "RE-C4", "expert 4 is striped: kind 'rebalance'"),
    ({"moves": [(4, "localize")]}, "RE-C4", "expert 4 is given dimm None"),
    ({"moves": [(7, "stripe", 1)]}, "RE-C4", "expert 7 is given dimm 1 with kind 'stripe'"),
    ({"moves": [(4, "prefetch", 1)]}, "RE-C4", "expert 4 is given dimm 1 with kind 'prefetch'"),
    ({"moves": [(4, "localize", 2)]}, "RE-C4", "expert 4 is sent to DIMM 2, and dimms is 2"),
    ({"moves": [(7, "rebalance", 1)]}, "RE-C4", "expert 7 lies on DIMM 1 already"),
    ({"moves": [(4, "prefetch"), (7, "prefetch")]}, "RE-C5", "2 experts are prefetched"),
    ({"moves": [(4, "prefetch")], "pcie_window_ns": 99}, "RE-C6", "prefetches take 100 ns"),
    (
        {"moves": [(4, "localize", 1), (8, "rebalance", 1)], "dimm_link_window_ns": 129},
        "RE-C7",
        "migrations between DIMMs take 130 ns",
    ),
    (
        {"moves": [(7, "stripe"), (4, "localize", 1)], "dimm_link_window_ns": 119},
        "RE-C7",
        "migrations between DIMMs take 120 ns",
    ),
    ({"moves": [], "claim": 42}, "RE-C8", "the GPU is busy for 43 ns"),
    (
        {"moves": [], "assignment": ("cpu", "cpu", "cpu", None), "claim": 99},
        "RE-C9",
        "the CPU is busy for 100 ns",
    ),
    (
        {"moves": [], "assignment": ("cpu", "ndp", "gpu", None), "claim": 54},
        "RE-C10",
        "DIMM 1 is busy for 55 ns",
    ),
    # One striped read of 5 on both channels, a localized one of 11 on channel 1, that of DIMM 1.
    (
        {"moves": [], "assignment": ("cpu", "cpu", "gpu", None), "claim": 15, **CHANNELS_ALONE},
        "RE-C11",
        "channel 1 is busy for 16 ns",
    ),
    ({"moves": [], "claim": 33, **PARTS_ALONE}, "RE-C12", "PCIe is busy for 34 ns"),
    # Link 1: a change from it (60) and a move from it (70). Link 0: a share of 20 and the move, 90.
    (
        {
            "moves": [(7, "stripe"), (8, "rebalance", 1)],
            "schema_version": 2,
            "relayout_share_ns": 20,
            "dimm_link_window_ns": 129,
        },
        "RE-C13",
        "the link of DIMM 1 busy for 130 ns",
    ),
]


@pytest.mark.parametrize(("case", "rule", "words"), CASES)
def test_each_violation_is_named(case: dict[str, Any], rule: str, words: str) -> None:
    """One violation, with its constraint and the culprit."""
    [(found, sentence)] = judged(**case)
    assert found == rule
    assert words in sentence


def test_every_constraint_can_be_violated() -> None:
    """The cases above cover the checker's whole table."""
    assert {rule for _, rule, _ in CASES} == set(CONSTRAINTS)


def test_full_windows_are_no_violation() -> None:
    """Both windows used up to the last ns, and a claim that is exact or generous."""
    moves: list[Move] = [(7, "rebalance", 0), (8, "stripe"), (4, "prefetch")]
    for claim in (None, 36, 99):
        assert judged(moves, claim=claim, pcie_window_ns=100) == []
    assert objective(INSTANCE, solution(moves)) == 3 + 30 + 3


@pytest.mark.parametrize(
    ("moves", "links"),
    [
        ([(7, "stripe")], [20, 60]),
        ([(4, "localize", 0)], [60, 20]),
        ([(7, "rebalance", 0)], [70, 70]),
        ([(7, "rebalance", 0), (8, "stripe"), (4, "prefetch")], [130, 90]),
    ],
)
def test_time_on_each_link_by_hand(moves: list[Move], links: list[int]) -> None:
    """A change is 60 where the whole expert is and 20 elsewhere, a move 70 on both DIMMs."""
    instance = Instance.model_validate(INSTANCE.model_dump() | NEWER)
    assert link_busy_ns(instance, solution(moves)) == links
    tight = {"dimm_link_window_ns": max(links)}
    assert judged(moves, **NEWER | tight) == []
    tight = {"dimm_link_window_ns": max(links) - 1}
    assert {rule for rule, _ in judged(moves, **NEWER | tight)} == {"RE-C13"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"relayout_share_ns": 61}, "relayout_share_ns: must be at most relayout_ns = 60, not 61"),
        ({"observed_tokens": [[1] * len(EXPERTS)]}, "observed_tokens: is no longer supported"),
        ({"experts": [*NEWER["experts"][:3], EXPERTS[3]]}, "experts[3].gpu_calc_ns: is missing"),
        ({"experts": [EXPERTS[0] | {"gpu_calc_ns": 1}]}, "pcie_striped_ns: is missing"),
        (
            {"experts": [NEWER["experts"][0] | {"gpu_calc_ns": 4}]},
            "gpu_calc_ns: must be at most gpu_hit_ns = 3, not 4",
        ),
        (
            {"experts": [NEWER["experts"][0] | {"pcie_localized_ns": 31}]},
            "pcie_localized_ns: must be at most gpu_miss_localized_ns = 30, not 31",
        ),
    ],
)
def test_fields_of_schema_2_are_held_to_their_meaning(change: dict[str, Any], says: str) -> None:
    """One line with the field and the reason."""
    assert says in refused(Instance.model_validate, INSTANCE.model_dump() | NEWER | change)


def test_what_is_absent_is_not_written() -> None:
    """A file of schema 1 has no field of schema 2."""
    newer = {"relayout_share_ns", "channels", "gpu_calc_ns"}
    assert not newer & set(INSTANCE.model_dump())
    assert "gpu_calc_ns" not in INSTANCE.model_dump()["experts"][0]


def test_what_is_not_allowed_counts_for_nothing() -> None:
    """A striped expert on NDP and one without tokens load no device; they are violations."""
    load = loads(INSTANCE, solution([], ("ndp", None, None, "gpu")))
    assert (load.gpu_ns, load.cpu_ns, load.dimm_ns) == (0, 0, (0, 0))


def test_the_layout_after_migrations() -> None:
    """Two migrations of one expert act in their order; what cannot be applied does nothing."""
    moves: list[Move] = [(7, "stripe"), (7, "localize", 0), (4, "prefetch"), (5, "stripe")]
    resident, place = layout_after(INSTANCE, solution([*moves, (8, "rebalance", 9)]))
    assert resident == [True, False, True, False]
    assert place == [None, 0, 0, 0]
