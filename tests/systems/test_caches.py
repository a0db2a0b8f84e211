"""Expert caches: a copy is usable when it ends, and otherwise they are the problem's."""

import random

import pytest

from moeopt import cache
from tests.rooms.systems import Caches

EXPERTS = 9


@pytest.mark.parametrize("seed", range(20))
def test_copies_that_take_no_time_give_the_problems_hits(seed: int) -> None:
    rng = random.Random(seed)
    ways = [rng.randrange(EXPERTS) for _ in range(3)]
    caches, lru = Caches(ways), cache.Lru(ways, EXPERTS)
    for now in range(40):
        layer = rng.randrange(3)
        experts = rng.sample(range(EXPERTS), rng.randrange(1, 6))
        asked = caches.ask(layer, experts, now)
        there = lru.access(layer, experts)
        assert asked.hits == [e for e, hit in zip(experts, there, strict=True) if hit]
        for expert in asked.let_in:
            caches.arrives(layer, expert, now)
        assert caches.usable(layer, now) == lru.content(layer).tolist()


def test_a_copy_on_its_way_is_no_hit_and_is_not_copied_again() -> None:
    caches = Caches([2])
    assert caches.ask(0, [3], 0).let_in == [3]
    caches.arrives(0, 3, 100)
    asked = caches.ask(0, [3], 99)
    assert (asked.hits, asked.let_in) == ([], [])
    assert caches.ask(0, [3], 100).hits == [3]


def test_a_copy_on_its_way_keeps_its_place() -> None:
    """So that no more of a layer wait than it has places: the others are not copied."""
    caches = Caches([2])
    assert caches.ask(0, [1, 2], 0).let_in == [1, 2]
    for expert in (1, 2):
        caches.arrives(0, expert, 50 * expert)
    assert caches.ask(0, [3], 10).let_in == []
    assert caches.ask(0, [4], 60).let_in == [4]  # 1 is there, and leaves
    assert caches.usable(0, 60) == []
    assert caches.usable(0, 100) == [2]


@pytest.mark.parametrize("seed", range(10))
def test_what_waits_is_bounded(seed: int) -> None:
    rng = random.Random(seed)
    ways, free = 3, 0
    caches, ends = Caches([ways]), dict[int, int]()
    for now in range(0, 400, 7):
        asked = caches.ask(0, rng.sample(range(EXPERTS), 3), now)
        assert all(ends[expert] <= now for expert in asked.hits)
        for expert in asked.let_in:
            free = max(free, now) + 20
            ends[expert] = free
            caches.arrives(0, expert, free)
        assert sum(end > now for end in ends.values()) <= ways
