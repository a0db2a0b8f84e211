"""EPLB as published, and what the other rules decide by hand."""

import json
from pathlib import Path

import pytest

from moeopt.problems.replication.check import device_loads, objective, violations
from moeopt.problems.replication.eplb import pack, placed, rebalance, replicate
from moeopt.problems.replication.heuristics import (
    HEURISTICS,
    biased,
    eplb,
    eplb_hierarchical,
    flashlb,
    longest_first,
    lplb,
    round_robin,
    swift_balancer,
)
from moeopt.problems.replication.instance import Instance, Solution
from tests.problems.replication.eplb_cases import CASES, TIED, case, digest
from tests.problems.replication.replication_random_instances import random_instance
from tests.problems.replication.test_replication_oracle import GOLDEN

PUBLISHED = json.loads(Path(__file__).with_name("eplb_published.json").read_text())


def test_eplb_decides_as_published() -> None:
    """On 1,000 random matrices, and on 200 with ties; the file says where the answers are from."""
    assert len(PUBLISHED["hashes"]) == CASES + TIED
    for number, answer in enumerate(PUBLISHED["hashes"]):
        loads, (_, devices, slots, groups, nodes) = case(number)
        on_device = rebalance(loads, devices * slots, groups, nodes, devices)
        assert digest([expert for held in on_device for expert in held]) == answer, number


def test_a_second_copy_on_a_device_changes_places_or_goes() -> None:
    """On the golden case device 7 has two of expert 1; exchanged, the peak is as published."""
    loads = list(GOLDEN.windows[0].loads)
    on_device = rebalance(loads, 16, 1, 1, 8)
    assert on_device[7] == [1, 1]
    dropped = Solution(instance="golden", copies=placed(on_device, loads, 8, False))
    assert len(dropped.copies[1]) == 4
    assert violations(GOLDEN, dropped) == []
    assert dropped.copies == eplb(GOLDEN, same_device="drop").copies
    assert objective(GOLDEN, eplb(GOLDEN)) == 194_880
    assert objective(GOLDEN, dropped) == 260 * 840


def test_the_steps_of_eplb_by_hand() -> None:
    """Copies go to who has most per copy; packs have room for so many and no more."""
    as_singles = rebalance([9, 4, 4], 4, 1, 1, 2)
    assert as_singles == [[0, 2], [0, 1]] or as_singles == [[0, 1], [0, 2]]
    import numpy as np

    assert replicate(np.float32([9, 4, 4]), 6, 8) == [3, 2, 1]
    assert replicate(np.float32([9, 4, 4]), 6, 2) == [2, 2, 2]
    assert pack(np.float32([5, 4, 3, 2]), 2, 2) == [[0, 3], [1, 2]]
    assert pack(np.float32([1, 9]), 2, 1) == [[0], [1]]


def test_longest_first_and_round_robin_by_hand() -> None:
    """One copy each, by load; and slot after slot."""
    instance = Instance.from_arrays(loads=[5, 4, 3, 3], devices=2, slots=3, name="hand")
    assert longest_first(instance).copies == ((0,), (1,), (1,), (0,))
    # Slots 0 1 2 | 3 0 1.
    assert round_robin(instance).copies == ((0, 1), (0, 1), (0,), (1,))


def test_flashlb_sees_the_windows_one_by_one() -> None:
    """Equal sums: EPLB sees four equal experts, FlashLB the one that comes and goes."""
    loads = [[8, 4, 4, 4], [0, 4, 4, 4]]
    instance = Instance.from_arrays(loads=loads, devices=5, slots=1, name="drift")
    assert max(device_loads(instance, flashlb(instance))[0]) == 4 * 840
    assert max(device_loads(instance, longest_first(instance))[0]) == 8 * 840
    assert objective(GOLDEN, flashlb(GOLDEN)) == 200 * 840


def test_rules_for_nodes_keep_to_them_and_others_decline() -> None:
    """Groups of two in two nodes."""
    instance = Instance.from_arrays(
        loads=[9, 1, 5, 5, 3, 3, 2, 1], devices=4, slots=3, nodes=2, groups=4, name="nodes"
    )
    for rule in (eplb_hierarchical, longest_first, round_robin):
        assert violations(instance, rule(instance)) == []
    assert eplb(instance) is None
    assert flashlb(instance) is None
    alone = instance.model_copy(update={"nodes": 1, "groups": None})
    assert eplb_hierarchical(alone) == eplb(alone)


def test_lplb_is_for_free_splits() -> None:
    """The copies of EPLB, and never a higher peak than with an even split."""
    for seed in range(8):
        even = random_instance(seed, nodes=1, groups=None, split="even", slots=4, current=None)
        assert lplb(even) is None
        free = even.model_copy(update={"split": "free"})
        assert lplb(free) == eplb(free)
        assert objective(free, lplb(free)) <= objective(even, eplb(even))


KERNEL = {"work": "kernel", "read_ns": 40, "token_ns": 1}
NOT_WITH_NODES = {"eplb", "flashlb", "eplb-without-copies", "biased"}
NOT_WITH_NODES |= {"lplb", "static-split", "metro", "swift-balancer", "topology-swaps"}


@pytest.mark.parametrize("rule", HEURISTICS)
def test_rules_are_valid_at_scale(rule: str) -> None:
    """On 64 experts with few slots more, and with nodes; each answers where it has an answer."""
    loads = [[(7 * e * e + 3 * w * e) % 101 for e in range(64)] for w in range(3)]
    links = [[0 if a == b else 1 + (a // 4 != b // 4) + b // 6 for b in range(8)] for a in range(8)]
    answers = 0
    for nodes, groups, split, more in (
        (1, None, "free", {}),
        (4, 8, "even", {}),
        (4, None, "free", {}),
        (1, None, "free", KERNEL | {"links": links}),
        (1, None, "even", KERNEL | {"current": [[e % 8] for e in range(64)], "links": links}),
    ):
        instance = Instance.from_arrays(
            loads=loads,
            devices=8,
            slots=9,
            nodes=nodes,
            groups=groups,
            split=split,
            name="scale",
            **more,
        )
        solution = HEURISTICS[rule](instance)
        if nodes > 1:
            assert (solution is None) == (rule in NOT_WITH_NODES)
        if solution is not None:
            answers += 1
            assert violations(instance, solution) == []
    assert answers


def test_metro_reads_fewer_and_a_static_split_follows_the_sum() -> None:
    """Two experts on two devices: METRO reads one on each, EPLB both on both."""
    instance = Instance.from_arrays(
        loads=[[4, 4], [4, 0]], devices=2, slots=2, split="free", name="hand", **KERNEL
    )
    assert eplb(instance).copies == ((0, 1), (0, 1))
    assert device_loads(instance, eplb(instance))[0] == [80, 80]
    assert device_loads(instance, HEURISTICS["metro"](instance))[0] == [40, 40]
    shares = HEURISTICS["static-split"](instance).shares
    assert [sum(row) for row in shares[0]] == [4, 4]
    assert {max(row) for row in shares[1][:1]} <= {2, 3, 4}


def test_biased_and_swaps_by_hand() -> None:
    """The hot expert everywhere; cheap ways for many tokens; few moves."""
    few = Instance.from_arrays(loads=[9, 1, 1], devices=3, slots=2, name="biased")
    assert biased(few).copies[0] == (0, 1, 2)
    links = [[0, 5], [0, 5]]
    ways = Instance.from_arrays(
        loads=[50, 50, 51, 51], devices=2, slots=2, links=links, name="ways", **KERNEL
    )
    # Tokens to device 1 cost 5, so that the larger ones are exchanged within a fiftieth.
    before, after = (HEURISTICS[r](ways) for r in ("eplb-without-copies", "topology-swaps"))
    on = [sum(load for load, row in zip([50, 50, 51, 51], p.copies, strict=True) if 1 in row)
          for p in (before, after)]  # fmt: skip
    assert on[1] < on[0]
    now = [[0, 1], [0], [1], [1]]
    swift = Instance.from_arrays(loads=[9, 9, 1, 1], devices=2, slots=3, current=now, name="swift")
    moved = swift_balancer(swift)
    assert all(first[0] in row for first, row in zip(now, moved.copies, strict=True))
    assert max(device_loads(swift, moved)[0]) <= max(device_loads(swift, swift_of(swift, now))[0])


def swift_of(instance: Instance, rows: list[list[int]]) -> Solution:
    """Return the solution in which copies stay."""
    return Solution(instance=instance.name, copies=tuple(map(tuple, rows)))
