"""Caches against a plain list of what was used, most recent first."""

import numpy as np
import pytest

from tests.rooms.algorithms import LruCache, lru, stack_distances


def random_accesses(seed: int, keys: int) -> list[list[int]]:
    """Return accesses of none to several different keys, some of which come back soon."""
    rng = np.random.default_rng(seed)
    hot = rng.permutation(keys)
    accesses = []
    for _ in range(60):
        hot = np.roll(hot, int(rng.integers(0, 2)))
        among = hot[: max(3, keys // 2)]
        accesses.append(rng.permutation(among)[: rng.integers(0, 4)].tolist())
    return accesses


@pytest.mark.parametrize("seed", range(20))
def test_a_cache_holds_what_was_used_last(seed: int) -> None:
    """Keys of an access are looked up before any of them enters, and enter as listed."""
    keys = 3 + seed % 6
    for ways in range(keys + 2):
        cache, recent = LruCache(ways), list[int]()
        for asked in random_accesses(seed, keys):
            assert cache.access(asked) == [key in recent[:ways] for key in asked]
            recent = [*reversed(asked), *(key for key in recent if key not in asked)]
            assert cache.content() == recent[:ways][::-1]


@pytest.mark.parametrize("seed", range(20))
def test_distances_tell_the_hits_of_every_cache(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the trace is looked at in pieces; what was never used is at no distance."""
    keys = 3 + seed % 6
    accesses = random_accesses(seed, keys)
    ids = np.full((len(accesses), 3), -1, np.int32)
    for row, asked in enumerate(accesses):
        ids[row, : len(asked)] = asked
    whole = stack_distances(ids, keys)
    for ways in range(keys + 1):
        cache = LruCache(ways)
        for asked, distances in zip(accesses, whole.tolist(), strict=True):
            assert cache.access(asked) == [of < ways for of in distances[: len(asked)]]
    for chunk in (1, 50, 400):
        monkeypatch.setattr(lru, "CHUNK", chunk)
        assert np.array_equal(stack_distances(ids, keys)[ids >= 0], whole[ids >= 0])
