"""EPLB as published, and what the other rules decide by hand."""

import json
import random
from collections.abc import Iterator
from itertools import combinations, product
from pathlib import Path

import pytest

from tests.problems.replication.eplb_cases import CASES, TIED, case, digest
from tests.problems.replication.replication_random_instances import random_instance
from tests.problems.replication.test_replication_oracle import GOLDEN
from tests.rooms.replication import (
    HEURISTICS,
    Instance,
    Solution,
    biased,
    device_loads,
    eplb,
    eplb_hierarchical,
    flashlb,
    longest_first,
    lplb,
    objective,
    placed,
    rebalance,
    round_robin,
    swift_balancer,
    violations,
)

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


def some_instance(seed: int, **fixed: object) -> Instance:
    """Return two to seven experts on two to four devices, some of them idle; kernels, links."""
    rng = random.Random(seed)
    experts, devices = rng.randint(2, 7), rng.randint(2, 4)
    slots = -(-experts // devices) + rng.randint(0, 2)
    rows = [
        [rng.choice([0, rng.randint(1, 9), rng.randint(1, 60)]) for _ in range(experts)]
        for _ in range(rng.randint(1, 3))
    ]
    links = [[rng.randint(0, 9) * (a != b) for b in range(devices)] for a in range(devices)]
    data: dict[str, object] = {"split": "free", "max_copies": rng.randint(1, 4), "links": links}
    data |= KERNEL | {"devices": devices, "slots": slots, "name": f"{seed}"} | fixed
    return Instance.from_arrays(loads=rows, **data)


def lightest(items: list[tuple[int, int]], devices: int, room: int) -> list[list[int]]:
    """Return the devices of each expert: (load, copies) by falling load on the lightest devices."""
    total, held = [0.0] * devices, [0] * devices
    rows: list[list[int]] = [[] for _ in items]
    for expert in sorted(range(len(items)), key=lambda e: (-items[e][0], e)):
        load, copies = items[expert]
        open_ones = [d for d in range(devices) if held[d] < room]
        for device in sorted(open_ones, key=lambda d: (total[d], d))[:copies]:
            rows[expert].append(device)
            total[device] += load / copies
            held[device] += 1
    return [sorted(row) for row in rows]


def summed(instance: Instance) -> list[int]:
    """Return each expert's tokens in all windows with their weights."""
    return [sum(w.weight * w.loads[e] for w in instance.windows) for e in range(instance.experts)]


SEEDS = range(40)


def test_one_copy_each_and_biased_by_the_specs_words() -> None:
    """Written anew from the table of methods."""
    for seed in SEEDS:
        instance = some_instance(seed)
        loads, devices = summed(instance), instance.devices
        each = -(-instance.experts // devices)
        one = lightest([(load, 1) for load in loads], devices, each)
        if each == 1:
            one = [[expert] for expert in range(instance.experts)]
        assert [list(row) for row in HEURISTICS["eplb-without-copies"](instance).copies] == one
        most = min(instance.max_copies, devices)
        spare = devices * instance.slots - instance.experts
        hot = min(instance.experts, spare // (most - 1)) if most > 1 else 0
        hottest = sorted(range(instance.experts), key=lambda e: (-loads[e], e))[:hot]
        items = [(load, most if e in hottest else 1) for e, load in enumerate(loads)]
        found = [list(row) for row in biased(instance).copies]
        assert found == lightest(items, devices, instance.slots), seed


def splits(load: int, copies: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share tokens out over copies."""
    if copies == 1:
        yield (load,)
        return
    for first in range(load + 1):
        yield from ((first, *rest) for rest in splits(load - first, copies - 1))


def fullest(instance: Instance, copies: object, shares: object) -> int:
    """Return the most tokens that a device has."""
    here = [0] * instance.devices
    for row, of_expert in zip(copies, shares, strict=True):  # type: ignore[call-overload]
        for device, tokens in zip(row, of_expert, strict=True):
            here[device] += tokens
    return max(here)


def test_dispatch_by_the_specs_words() -> None:
    """METRO's step by step; the linear programs' against every split; static parts are equal."""
    several = 0
    for seed in SEEDS:
        instance = some_instance(seed)
        plan = HEURISTICS["metro"](instance)
        for window, rows in zip(instance.windows, plan.shares, strict=True):
            reads, here = [0] * instance.devices, [0] * instance.devices
            order = sorted(range(instance.experts),
                           key=lambda e: (len(plan.copies[e]), -window.loads[e], e))  # fmt: skip
            for expert in (e for e in order if window.loads[e]):
                to = min(plan.copies[expert], key=lambda d: (reads[d], here[d], d))
                reads[to] += 1
                here[to] += window.loads[expert]
                given = dict(zip(plan.copies[expert], rows[expert], strict=True))
                assert given[to] == window.loads[expert], seed
        static = HEURISTICS["static-split"](instance)
        for expert, row in enumerate(static.copies):
            several += len(row) > 1
            parts = [
                [share / window.loads[expert] for share in rows[expert]]
                for window, rows in zip(instance.windows, static.shares, strict=True)
                if window.loads[expert]
            ]
            least = min((w.loads[expert] for w in instance.windows if w.loads[expert]), default=1)
            for one in parts:
                assert all(abs(a - b) <= 2 / least for a, b in zip(one, parts[0], strict=True))
    assert several > 10


def test_linear_programs_balance_as_well_as_any_split() -> None:
    """In each window, and static on the only one: against every way to share tokens out."""
    for seed in range(12):
        rng = random.Random(seed)
        loads = [rng.randint(0, 7) for _ in range(4)]
        instance = Instance.from_arrays(
            loads=loads, devices=3, slots=2, split="free", name="few", **KERNEL
        )
        for rule in ("lplb", "static-split"):
            plan = HEURISTICS[rule](instance)
            every = product(*map(splits, loads, map(len, plan.copies)))
            best = min(fullest(instance, plan.copies, shares) for shares in every)
            assert fullest(instance, plan.copies, plan.shares[0]) == best, (seed, rule)


def test_topology_swaps_end_where_no_allowed_exchange_helps() -> None:
    """Ways are no dearer than at the start, and the busiest device has a fiftieth more at most."""
    cheaper = 0
    for seed in SEEDS:
        instance = some_instance(seed)
        loads, ways = (
            summed(instance),
            [sum(column) for column in zip(*instance.links, strict=True)],
        )
        sides = [HEURISTICS[r](instance) for r in ("eplb-without-copies", "topology-swaps")]
        start, end = ([row[0] for row in plan.copies] for plan in sides)

        def held(where: list[int], loads: list[int] = loads) -> list[int]:
            return [sum(n for n, d in zip(loads, where, strict=True) if d == at) for at in range(4)]

        def cost(where: list[int], loads: list[int] = loads, ways: list[int] = ways) -> int:
            return sum(n * ways[d] for n, d in zip(loads, where, strict=True))

        most = max(held(start)) * 51 // 50
        assert cost(end) <= cost(start)
        assert max(held(end)) <= most
        cheaper += cost(end) < cost(start)
        for a, b in combinations(range(instance.experts), 2):
            other = list(end)
            other[a], other[b] = end[b], end[a]
            allowed = max(held(other)[end[a]], held(other)[end[b]]) <= most
            assert cost(other) >= cost(end) or not allowed, (seed, a, b)
    assert cheaper > 5


def test_swift_balancer_keeps_slots_and_receives_once_from_each() -> None:
    """As many copies on each device as before; new ones at most one from each other device."""
    moves = 0
    for seed in SEEDS:
        whole = some_instance(seed, links=None)
        start = eplb(whole)
        loads = [list(reversed(w.loads)) for w in whole.windows]
        instance = some_instance(seed, links=None).model_copy(update={"current": start.copies})
        windows = tuple(
            w.model_copy(update={"loads": tuple(row)})
            for w, row in zip(whole.windows, loads, strict=True)
        )
        instance = instance.model_copy(update={"windows": windows})
        plan = swift_balancer(instance)
        assert violations(instance, plan) == []
        for device in range(instance.devices):
            before, after = (
                {e for e, row in enumerate(rows) if device in row}
                for rows in (start.copies, plan.copies)
            )
            assert len(before) == len(after)
            assert len(after - before) < instance.devices
            moves += len(after - before)
    assert moves
