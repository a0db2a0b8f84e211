"""The oracle against hand computation, and every exact method against the oracle."""

from typing import Any

import pytest

from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.cache.cache_random_instances import KINDS, random_instance
from tests.rooms.cache import Instance, candidates, count

PER_KIND = 26
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]


def small(accesses: list[list[list[int]]], slots: int, **changes: Any) -> Instance:
    """Return an instance of three experts per layer: hit 0, miss 10, fetch 15."""
    data: dict[str, Any] = {"experts": 3, "gpu_ns": 0, "cpu_ns": 10, "activation_ns": 0}
    data |= {"fetch_ns": 15, "other_ns": 0, "slots": slots, "layers": len(accesses[0])}
    return Instance(name="small", accesses=accesses, **(data | changes))


ANCHORS: dict[str, tuple[Instance, int]] = {
    # Six misses of 10 without a cache; with one way one miss, one fetch.
    "one expert again and again": (small([[[0]]] * 6, 1), 15),
    "no slot": (small([[[0]]] * 6, 0), 60),
    # 0 1 0 1 0 1: one way never hits and fetches six times (90); two hit four times and fetch two.
    "two in turns, one slot": (small([[[0]], [[1]]] * 3, 1), 60),
    "two in turns, two slots": (small([[[0]], [[1]]] * 3, 2), 30),
    # Layer 0 repeats 0, layer 1 takes turns between 0 and 1. Two slots: two ways for layer 1 alone
    # leave 60 + 20 to compute, one for layer 0 alone 10 + 60.
    "one slot too few": (small([[[0], [0]], [[0], [1]]] * 3, 2), 70),
    # Three: 10 + 20 to compute, but three fetches take 45.
    "fetches are later": (small([[[0], [0]], [[0], [1]]] * 3, 3), 45),
    # As before; with fetches of 40 the caches of both would take 120, that of layer 0 alone 70.
    "fetches too dear": (small([[[0], [0]], [[0], [1]]] * 3, 3, fetch_ns=40), 70),
    # Two used at once, and again: with one way only the last one listed, half the time is the
    # other's. Misses: 2 + 3 x 1, and as many fetches, 75; two ways: 2 misses, 2 fetches.
    "a lookup wider than the cache": (small([[[0, 1]]] * 4, 1), 75),
    "as wide as the cache": (small([[[0, 1]]] * 4, 2), 30),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


def test_the_oracle_leaves_nothing_out() -> None:
    """All ways of all layers, each once."""
    instance = small([[[0], [1]]], 2)
    found = [candidate.ways for candidate in candidates(instance)]
    assert len(found) == len(set(found)) == count(instance) == 16


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind))


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help((random_instance(seed, kind) for kind in KINDS for seed in seeds), "dp")
