"""The oracle against hand computation, and every exact method against the oracle."""

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.mathprog.solve import solve
from tests.problems.agreement import assert_agreement, assert_anchors
from tests.problems.replication.replication_random_instances import (
    hard_instance,
    random_instance,
)
from tests.rooms.core import MAX_NUMBER
from tests.rooms.replication import (
    CONSTRAINTS,
    HEURISTICS,
    LARGEST,
    Instance,
    Model,
    candidates,
    count,
    has_room,
    joint_bound,
    objective,
    objective_limit,
    violations,
)

SHARES = [range(8), pytest.param(range(8, 300), marks=pytest.mark.slow)]
GOLDEN = Instance.from_arrays(
    loads=[600, 560, 120, 120, 20, 10, 10, 10], devices=8, slots=2, name="golden"
)


def small(loads: Any, **changes: Any) -> Instance:
    """Return two devices of two slots, at most two copies: a unit is half a token."""
    data: dict[str, Any] = {"devices": 2, "slots": 2, "max_copies": 2, "name": "small"}
    return Instance.from_arrays(loads=loads, **(data | changes))


ANCHORS: dict[str, tuple[Instance, int]] = {
    # Two copies of both: 8 tokens on each device.
    "room for all": (small([10, 6]), 16),
    # Three experts and one slot more: 9 / 2 + 2 = 6.5 on either side, 13 halves.
    "one copy more": (small([9, 2, 2]), 13),
    # Without it, 9 | 2 + 2.
    "no copy more": (small([9, 2, 2], max_copies=1), 9),
    "four experts": (small([9, 2, 2, 1]), 20),
    # 9 and 5 on both devices even split: 7 each; nothing better freely.
    "free, all copied": (small([9, 5], split="free"), 14),
    # 9 has two copies and takes 5 1/2 here, 3 1/2 there: 6 1/2 with 1, or 3: all equal.
    "free": (small([9, 3, 1], split="free"), 13),
    # Even: 4.5 + 3 = 7.5.
    "even": (small([9, 3, 1]), 15),
    # Each window has 8 on one expert; copies serve both: 4 each.
    "two windows": (small([[8, 0], [0, 8]]), 16),
    "their weights": (small([[8, 0], [0, 8]], weight=[1, 3]), 32),
    # A node has one device: an expert cannot have two copies.
    "nodes": (small([10, 6], nodes=2), 20),
    "a group in a node": (small([10, 6], nodes=2, groups=1), 32),
    # As they lie 20; with both copied 16, two moves.
    "cheap moves": (small([10, 6], current=[[0], [1]], move_cost=1), 18),
    "dear moves": (small([10, 6], current=[[0], [1]], move_cost=3), 20),
    # Copying 10 alone gives 5 + 6 = 11 tokens.
    "one move": (small([10, 2], current=[[0], [1]], move_cost=3), 17),
    # 10 / 3 in thirds and halves: 20 of 1/6, where 2 devices of 3 have the other as well.
    "thirds": (small([10], devices=3, slots=1, max_copies=3), 20),
    # 7 over 3 devices are 2 1/3 tokens: 5 halves.
    "rounded up": (small([7], devices=3, slots=1, split="free", max_copies=2), 7),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


@pytest.mark.slow  # the export of it, tests/exporters/test_copies.py, finds the optimum as well
def test_the_golden_case() -> None:
    """The published example: EPLB has 232 tokens, the optimum is 590 / 3."""
    found = solve(GOLDEN, "anneal-and-refute", time_limit_s=600)
    assert (found.status, found.objective) == ("optimal", 165_200)
    rule = HEURISTICS["eplb"](GOLDEN)
    assert violations(GOLDEN, rule) == []
    assert objective(GOLDEN, rule) == 232 * 840 == 194_880


@pytest.mark.slow
@pytest.mark.parametrize("method", ["cp-sat", "milp", "mathprog"])
def test_the_golden_case_by_general_solvers(method: str) -> None:
    """They need some seconds."""
    found = solve(GOLDEN, method, time_limit_s=600)
    assert (found.status, found.objective) == ("optimal", 165_200)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("maker", [random_instance, hard_instance])
def test_every_method_agrees_with_brute_force(
    maker: Callable[[int], Instance], seeds: range
) -> None:
    """Some of them infeasible; see `assert_agreement`."""
    seen = set()
    for instance in (of for of in map(maker, seeds) if count(of) <= 20_000):
        seen.add(status := assert_agreement(instance, bounds=[joined], run=True))
        assert has_room(instance) == (status == "optimal")
    assert seen == {"optimal", "infeasible"}


def joined(instance: Instance) -> int:
    """Return what is below every plan over all windows."""
    return joint_bound(instance, 10) or 0


def test_numbers_rounded_to_units_bound_from_below() -> None:
    """Two nodes of two devices, an odd load each, where half units up were twice the optimum."""
    load = MAX_NUMBER - 1
    fields = {"devices": 4, "slots": 1, "nodes": 2, "groups": 2, "max_copies": 1}
    instance = Instance.from_arrays(loads=[[load] * 4], weight=[100], **fields)
    assert objective_limit(instance) > LARGEST  # so that the unit is more than 1
    assert joined(instance) == 100 * load


@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_constraint_that_is_left_out_is_missed(rule: str) -> None:
    """Without it the model finds less than the optimum, or what the checker rejects."""
    assert rule in Model.constraints()
    for seed in (10, 72, 3, *range(80)):  # the first ones are where rules bind
        instance = random_instance(seed) if seed % 2 else hard_instance(seed)
        with_all = solve(instance, "cp-sat", warm_start=False)
        without = solve(instance, "cp-sat", without=[rule], warm_start=False)
        if without.objective != with_all.objective or without.violations:
            return
    pytest.fail(f"{rule} changes nothing")


def test_the_count_of_candidates_is_exact() -> None:
    """Also with few copies allowed, and of shares."""
    for seed in (0, 1, 2):
        instance = random_instance(seed)
        assert count(instance) == sum(1 for _ in candidates(instance))


def test_shares_are_counted_one_by_one() -> None:
    """Two devices, two experts of 2 tokens and 1: with one copy or two each, (2 + 3) (2 + 2)."""
    kernel = {"work": "kernel", "read_ns": 3, "token_ns": 2}
    instance = small([2, 1], split="free", **kernel)
    assert count(instance) == (2 + 3) * (2 + 2)


KERNEL: dict[str, tuple[dict[str, Any], int]] = {
    # Reading takes longer than all tokens: one copy each, one reading on either device.
    "reading": ({"loads": [3, 1], "read_ns": 50, "token_ns": 2}, 50),
    # Computing does: 9 in copies of 5 and 4; 5 + 1 | 4 + 2 or so: 6 tokens of 10 ns.
    "computing": ({"loads": [9, 2, 1], "read_ns": 1, "token_ns": 10}, 60),
    # The first device has one more of each: 5 + 1.
    "odd": ({"loads": [9, 1], "read_ns": 1, "token_ns": 10}, 50),
    # 2 of 9 over two devices at 4 ns each: 5 and 4 tokens and the copy.
    "a slot costs": ({"loads": [9], "read_ns": 1, "token_ns": 4, "slot_cost": 3}, 23),
    "a slot costs more": ({"loads": [9], "read_ns": 1, "token_ns": 4, "slot_cost": 30}, 36),
    # Three experts, two readings on one device; alone they take 3 x 7.
    "two readings": ({"loads": [1, 1, 1], "read_ns": 7, "token_ns": 1}, 14),
    # A token from device 1 to 0 costs 8, one to device 1 nothing: all 4 tokens go there.
    "links": ({"loads": [4], "read_ns": 1, "token_ns": 1, "links": [[0, 0], [8, 0]]}, 4),
    # Each token takes 3 more, whatever is read: 2 tokens on either side, max(5, 4) + 6.
    "besides": ({"loads": [4], "read_ns": 5, "token_ns": 2, "pass_ns": 3}, 11),
    # Freely all tokens of both windows go to one copy each, so that each device reads one expert.
    "free": (
        {"loads": [[4, 4, 0], [0, 4, 4]], "read_ns": 9, "token_ns": 1, "split": "free"},
        18,
    ),
}


@pytest.mark.parametrize("name", KERNEL)
def test_kernel_times_by_hand(name: str) -> None:
    """By brute force and by the own method; the objective has its name and its unit."""
    data, expected = KERNEL[name]
    instance = small(**data, work="kernel")
    for method in ("brute-force", "anneal-and-refute"):
        found = solve(instance, method, warm_start=False)
        assert (found.status, found.objective) == ("optimal", expected), method
    assert "minimises peak_ns" in repr(instance)


def test_files_of_tokens_are_as_they_were() -> None:
    """Nothing of kernels in them, and the shares are left out."""
    instance = small([1, 2])
    assert set(instance.model_dump()) & {"work", "read_ns", "links", "slot_cost"} == set()
    assert "shares" not in HEURISTICS["eplb"](instance).model_dump()
    kernel = small([1, 2], work="kernel", read_ns=1, token_ns=1)
    assert Instance.model_validate(kernel.model_dump()) == kernel


@pytest.mark.slow
def test_the_page_prints_what_it_says(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The program of docs/replication.md."""
    text = (root / "docs" / "replication.md").read_text()
    [(source, expected)] = re.findall(
        r"```python\n(.*?)```\n\nprints\n\n```text\n(.*?)```", text, re.S
    )
    (tmp_path / "program.py").write_text(source)
    runpy.run_path(str(tmp_path / "program.py"))
    assert capsys.readouterr().out == expected
