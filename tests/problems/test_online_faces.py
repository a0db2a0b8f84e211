"""What a runtime asks of deferral, cache and placement: the answers that the problems' have."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, cache, deferral, placement
from tests.problems.cache.cache_random_instances import random_instance as random_cache
from tests.problems.deferral.random_schedules import KINDS
from tests.problems.deferral.random_schedules import random_instance as random_schedule
from tests.rooms.cache import Solution as Ways
from tests.rooms.cache import check as cache_check
from tests.rooms.deferral import objective


def times_of(instance: Any) -> tuple[Any, ...]:
    """Return the arguments of a call for an instance's step."""
    return (
        instance.attention_ns,
        instance.shared_ns,
        instance.sync_ns,
        instance.expert_cpu_ns,
    )


def scheduler_of(instance: Any, method: str) -> deferral.Scheduler:
    """Return the scheduler of an instance's model."""
    return deferral.Scheduler(
        instance.layers,
        instance.top_k,
        instance.penalty,
        method,
        min_immediate=instance.min_immediate,
        max_total_penalty=instance.max_total_penalty,
    )


@pytest.mark.parametrize("method", ["dp", "saturate"])
@pytest.mark.parametrize("kind", KINDS)
def test_deferral_as_solved(method: str, kind: str) -> None:
    """The counts and the makespan of `moeopt.solve`; a bound that no optimum is below."""
    for seed in range(6):
        instance = random_schedule(seed, kind)
        result = moeopt.solve(instance, method)
        scheduler = scheduler_of(instance, method)
        if result.solution is None:
            with pytest.raises(InputError, match=r"^max_total_penalty: no counts are within"):
                scheduler.schedule(*times_of(instance))
            continue
        counts, makespan, bound = scheduler.schedule(*times_of(instance))
        assert counts.tolist() == list(result.solution.deferred)
        assert makespan == result.objective[0] == objective(instance, result.solution)[0]
        optimum = moeopt.solve(instance, "dp").objective[0]
        assert bound <= optimum <= makespan
        assert method != "dp" or bound == makespan


def test_deferral_in_threads_and_errors() -> None:
    """Threads get what one gets; what is wrong is named."""
    instance = random_schedule(3)
    scheduler = scheduler_of(instance, "dp")
    due = scheduler.schedule(*times_of(instance))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: scheduler.schedule(*times_of(instance)), range(12)))
    assert all(f[0].tolist() == due[0].tolist() and f[1:] == due[1:] for f in found)
    with pytest.raises(InputError, match=r"^method: 'best' is unknown; known: dp, saturate$"):
        scheduler_of(instance, "best")
    with pytest.raises(InputError, match=r"^attention_ns: must be at least 0, not -1$"):
        scheduler.schedule(-1, 1, 1, 1)


@pytest.mark.parametrize("seed", range(15))
def test_caches_as_checked(seed: int) -> None:
    """Over a trace the hits of every layer are those that the checker counts."""
    instance = random_cache(seed)
    rng = np.random.default_rng(seed)
    ways = rng.integers(0, instance.experts + 1, instance.layers)
    solution = Ways(instance=instance.name, ways=tuple(ways.tolist()))
    caches = cache.Lru(ways, instance.experts)
    hits = [0] * instance.layers
    for token in instance.accesses:
        for layer, experts in enumerate(token):
            hits[layer] += int(caches.access(layer, experts).sum())
            assert len(caches.content(layer)) <= ways[layer]
    served = cache_check.serve(instance, solution)
    assert hits == [layer.hits for layer in served]


def test_a_cache_remembers_all_or_nothing() -> None:
    """Of an access that is refused no expert enters; `out` is what comes back."""
    caches = cache.Lru([2, 0], 4)
    out = np.empty(2, np.bool_)
    assert caches.access(0, np.array([3, 1]), out=out) is out
    for experts, message in (
        ([0, 4], r"experts\[1\]: must be at most 3, not 4"),
        ([0, 0], r"experts: must differ, not \[0, 0\]"),
        ([0.5], r"experts\[0\]: must be an integer, not 0.5"),
    ):
        with pytest.raises(InputError, match=f"^{message}$"):
            caches.access(0, experts)
    assert caches.content(0).tolist() == [3, 1]
    assert caches.access(0, [1, 2, 0]).tolist() == [True, False, False]
    assert caches.content(0).tolist() == [2, 0]
    assert caches.access(1, [1]).tolist() == caches.access(1, [1]).tolist() == [False]
    with pytest.raises(InputError, match=r"^layer: must be below 2, not 2$"):
        caches.access(2, [0])
    with pytest.raises(InputError, match=r"^ways\[0\]: must be at most 4, not 5$"):
        cache.Lru([5], 4)


def test_residents() -> None:
    """Flags of layers and of a token's experts; nobody can change them."""
    residents = placement.Residents([[5, 0], [], np.array([2])], 6)
    assert residents.of_layer(0).tolist() == [True, False, False, False, False, True]
    assert residents.on_gpu(2, np.array([[2, 3], [1, 2]])).tolist() == [
        [True, False],
        [False, True],
    ]
    out = np.empty(2, np.bool_)
    assert residents.on_gpu(0, [0, 1], out=out) is out
    assert out.tolist() == [True, False]
    with pytest.raises(ValueError, match="read-only"):
        residents.of_layer(0)[0] = False
    for call, message in (
        (lambda: residents.on_gpu(0, [6]), r"experts\[0\]: must be at most 5, not 6"),
        (lambda: residents.on_gpu(0, [-1]), r"experts\[0\]: must be at least 0, not -1"),
        (lambda: residents.on_gpu(3, [0]), "layer: must be below 3, not 3"),
        (lambda: placement.Residents([[6]], 6), r"gpu\[0\]\[0\]: must be at most 5, not 6"),
    ):
        with pytest.raises(InputError, match=f"^{message}$"):
            call()
