"""The checker of deferral: each constraint's violation is named, with the culprit."""

from typing import Any

import pytest

from tests.rooms.deferral import CONSTRAINTS, Instance, Solution, objective, violations

# Layer 0: A 0-10, S 10-14, I 12-18, D 18-21. Layer 1: A 20-30, S 30-34, I 32-41, no D.
# Layer 2: A 43-53, S 53-57, I 55-64. D[0] with its hand-over of 2 ends at 23, long before 43.
INSTANCE = Instance(
    name="three",
    layers=3,
    top_k=3,
    min_immediate=1,
    attention_ns=10,
    shared_ns=4,
    sync_ns=2,
    expert_cpu_ns=3,
    penalty=[0, 2, 5],
    max_total_penalty=4,
)
VALID: dict[str, Any] = {
    "deferred": (1, 0, 0),
    "attention": (0, 20, 43),
    "shared": (10, 30, 53),
    "immediate": (12, 32, 55),
    "deferred_start": (18, 32, 55),
}


def solution(**changes: Any) -> Solution:
    """Return the valid schedule with changed lists."""
    data = VALID | changes
    starts = {kind: data[kind] for kind in ("attention", "shared", "immediate")}
    return Solution(
        instance="three",
        deferred=data["deferred"],
        start_ns=starts | {"deferred": data["deferred_start"]},
    )


CASES: list[tuple[dict[str, Any], tuple[int, int] | None, str, str]] = [
    ({"deferred": (None, 0, 0)}, None, "DE-C1", "deferred[0]: the layer has no count"),
    ({"deferred": (1, 3, 0)}, None, "DE-C1", "deferred[1]: the layer may defer 2 at most, not 3"),
    ({"deferred": (1, 0)}, None, "DE-C1", "deferred has 2 entries for 3 layers"),
    ({"shared": (10, 30, 53, 60)}, None, "DE-C1", "start_ns.shared has 4 entries for 3 layers"),
    ({"attention": (0, 19, 43)}, None, "DE-C2", "attention[1] starts at 19 ns, immediate[0] lets"),
    ({"deferred_start": (42, 32, 55)}, None, "DE-C3", "deferred[0] lets it at 47 ns"),
    ({"shared": (9, 30, 53)}, None, "DE-C4", "shared[0] starts at 9 ns, attention[0] lets it at"),
    ({"shared": (17, 30, 53)}, None, "DE-C4", "attention[1] starts at 20 ns, shared[0] lets it at"),
    ({"immediate": (12, 31, 55)}, None, "DE-C5", "immediate[1] starts at 31 ns, attention[1] lets"),
    ({"deferred_start": (8, 32, 55)}, None, "DE-C5", "deferred[0] starts at 8 ns, attention[0]"),
    ({"deferred_start": (17, 32, 55)}, None, "DE-C6", "deferred[0] starts at 17 ns, immediate[0]"),
    ({"deferred_start": (33, 32, 55)}, None, "DE-C6", "deferred[0] starts at 33 ns, immediate[1]"),
    ({}, (63, 2), "DE-C8", "immediate[2] ends at 64 ns, past the claimed makespan of 63 ns"),
]


def test_a_valid_schedule_has_no_violation() -> None:
    """The schedule of the comment above, its objective, and any claim that is not too short."""
    assert violations(INSTANCE, solution()) == []
    assert objective(INSTANCE, solution()) == (64, 2)
    assert violations(INSTANCE, solution(), (64, 2)) == []
    assert violations(INSTANCE, solution(), (99, 0)) == []


@pytest.mark.parametrize(("changes", "claim", "rule", "words"), CASES)
def test_each_violation_is_named(
    changes: dict[str, Any], claim: tuple[int, int] | None, rule: str, words: str
) -> None:
    """The constraint and the culprit; what follows from a bad count is not judged further."""
    found = violations(INSTANCE, solution(**changes), claim)
    assert {name for name, _ in found} == {rule}
    assert any(words in sentence for _, sentence in found), found


def test_the_penalty_limit_is_named() -> None:
    """Two layers that defer two each cost 10, the limit is 4."""
    late = solution(deferred=(2, 2, 0), deferred_start=(18, 41, 55))
    found = violations(INSTANCE, late)
    assert ("DE-C7", "the penalties sum to 10, max_total_penalty is 4") in found


def test_every_constraint_can_be_violated() -> None:
    """The cases above cover the checker's whole table."""
    assert {rule for _, _, rule, _ in CASES} | {"DE-C7"} == set(CONSTRAINTS)


def test_any_valid_order_is_accepted() -> None:
    """D[0] behind I[1], and idle time everywhere: no dominant order is asked for."""
    other = solution(
        attention=(5, 25, 58),
        shared=(20, 40, 68),
        immediate=(17, 37, 70),
        deferred_start=(46, 37, 70),
    )
    assert violations(INSTANCE, other) == []
    assert objective(INSTANCE, other) == (79, 2)


def test_what_takes_no_time_may_lie_within_other_work() -> None:
    """D[1] has no experts: its start lies within I[1]. It still waits for its attention."""
    assert violations(INSTANCE, solution(deferred_start=(18, 35, 55))) == []
    [(rule, _)] = violations(INSTANCE, solution(deferred_start=(18, 31, 55)))
    assert rule == "DE-C5"
    assert objective(INSTANCE, solution(deferred_start=(18, 32, 99)))[0] == 99


def test_the_makespan_covers_everything() -> None:
    """The last shared experts, the last experts and earlier deferred ones each can end last."""
    shared = INSTANCE.model_copy(update={"shared_ns": (4, 4, 40)})
    assert objective(shared, solution())[0] == 53 + 40
    two = Instance(**{**INSTANCE.model_dump(), "layers": 2} | {
        name: getattr(INSTANCE, name)[:2]
        for name in ("attention_ns", "shared_ns", "sync_ns", "expert_cpu_ns")
    })  # fmt: skip
    late = Solution(
        instance="three",
        deferred=(1, 0),
        start_ns={
            "attention": (0, 20),
            "shared": (10, 30),
            "immediate": (12, 32),
            "deferred": (70, 32),
        },
    )
    assert violations(two, late) == []
    assert objective(two, late) == (73, 2)
