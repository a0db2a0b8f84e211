"""The Belady bound against all retentions there are, and against min-cost flows."""

import random
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks.studies.belady_bound import (
    SCALE,
    belady_bound,
    dual_function,
    reuse_of,
    supporting_line,
)
from moeopt import solve
from tests.benchmarks.retention_flow import least_weighted
from tests.problems.cache.cache_random_instances import KINDS, random_accesses, random_instance
from tests.rooms.cache import Costs, Instance

Ints = NDArray[np.int64]

WEIGHTS = (0, 200, 512, 800, SCALE)


class Kept(NamedTuple):
    """A stretch between two accesses of an expert that come one after the other."""

    layer: int
    expert: int
    begin: int
    end: int


def retentions(instance: Instance) -> tuple[Ints, Ints]:
    """Return computing and copying in ns of every set of stretches that fits into the slots.

    Worked out from the accesses as they stand, with the real times of lookups.
    """
    tokens = range(len(instance.accesses))
    stretches = [
        Kept(layer, expert, begin, end)
        for layer in range(instance.layers)
        for expert in range(instance.experts)
        for begin, end in pairwise([t for t in tokens if expert in instance.accesses[t][layer]])
    ]
    sets = np.arange(2 ** len(stretches))[:, None]
    kept = sets >> np.arange(len(stretches)) & 1
    during = np.array([[k.begin <= t < k.end for k in stretches] for t in tokens], dtype=int)
    kept = kept[(kept @ during.T).max(axis=1) <= instance.slots]
    computed_ns = np.zeros(len(kept), dtype=np.int64)
    for t, layer in product(tokens, range(instance.layers)):
        used = len(instance.accesses[t][layer])
        lookup_ns = [instance.costs.lookup_ns(hits, used - hits) for hits in range(used + 1)]
        ends = np.array([(k.layer, k.end) == (layer, t) for k in stretches], dtype=int)
        computed_ns += np.array(lookup_ns)[kept @ ends]
    fetches = np.zeros(len(kept), dtype=np.int64)
    for number, k in enumerate(stretches):
        # An expert that is held right up to the access that begins the stretch is there already.
        before = [(o.layer, o.expert, o.end) == (k.layer, k.expert, k.begin) for o in stretches]
        fetches += kept[:, number] * (1 - kept @ np.array(before, dtype=int))
    return computed_ns, fetches * instance.fetch_ns


def tiny(seed: int) -> Instance:
    """Return an instance with at most a dozen stretches."""
    rng = random.Random(f"belady {seed}")
    layers, experts = rng.choice([(1, 3), (2, 2), (1, 4)])
    accesses = random_accesses(rng, rng.choice(KINDS), layers, experts, rng.randint(1, 6))
    costs = {"gpu_ns": rng.choice([0, 1, 9]), "cpu_ns": rng.randint(1, 9), "other_ns": 1}
    costs |= {"activation_ns": rng.choice([0, 1, 8]), "fetch_ns": rng.randint(0, 20)}
    slots = rng.randint(0, 3)
    return Instance(
        name=str(seed), layers=layers, experts=experts, slots=slots, accesses=accesses, **costs
    )


@pytest.mark.parametrize(
    "part", [3, *(pytest.param(part, marks=pytest.mark.slow) for part in range(3))]
)
def test_the_bound_is_below_every_retention(part: int) -> None:
    """Also at each weight: the flow is not above any, and no multipliers are above the flow."""
    met = 0
    for seed in range(part, 60, 4):
        instance = tiny(seed)
        computed_ns, copied_ns = retentions(instance)
        best = int(np.maximum(computed_ns, copied_ns).min())
        assert belady_bound(instance, 40) <= best
        reuse = reuse_of(instance, 0.7)
        for p in WEIGHTS:
            least = int((p * computed_ns + (SCALE - p) * copied_ns).min())
            flow = least_weighted(reuse, p, SCALE)
            assert flow <= least, (seed, p)
            met += flow == least
            multipliers = np.full(reuse.tokens - 1, random.Random(seed).randint(0, 5 * SCALE))
            assert dual_function(reuse, p, multipliers).bound_ns <= -(-flow // SCALE)
    assert met > 20


@pytest.mark.parametrize("kind", KINDS)
def test_the_bound_is_below_every_plan(kind: str) -> None:
    """LRU with any ways is a retention."""
    for seed in range(100, 106):
        instance = random_instance(seed, kind)
        optimum = solve(instance, "dp").objective
        assert isinstance(optimum, int)
        assert belady_bound(instance, 30) <= optimum


def medium(seed: int, tokens: int = 60) -> Instance:
    """Return an instance of a few hundred accesses, balanced between the two sides."""
    rng = random.Random(f"medium {seed}")
    accesses = random_accesses(rng, "reuse", 4, 8, tokens)
    costs = {"gpu_ns": 125, "cpu_ns": 3670, "activation_ns": 110, "fetch_ns": 14010, "other_ns": 0}
    return Instance(name="medium", layers=4, experts=8, slots=8, accesses=accesses, **costs)


@pytest.mark.parametrize("seed", range(4))
def test_multipliers_come_close_to_the_flow(seed: int) -> None:
    """Within 1 % of the best flow over the weights, and above what one multiplier for all gives."""
    instance = medium(seed)
    share = 0.6
    flow = max(least_weighted(reuse_of(instance, share), p, SCALE) for p in range(0, SCALE, 32))
    found = belady_bound(instance)
    assert found >= belady_bound(instance, 0)
    assert found >= 0.99 * flow / SCALE


def test_lines_support_the_time_of_a_lookup() -> None:
    """Nowhere above it, and on it somewhere near the asked number of misses."""
    for seed in range(200):
        rng = random.Random(seed)
        costs = Costs(*(rng.randint(0, 20) for _ in range(4)))
        used = rng.randint(0, 6)
        at_none, slope = supporting_line(costs, used, used * rng.random())
        slack = [costs.lookup_ns(used - m, m) - at_none - slope * m for m in range(used + 1)]
        assert min(slack) == 0
    assert supporting_line(Costs(125, 3670, 110, 0), 2, 2.0) == (110, 3670)
    assert supporting_line(Costs(125, 3670, 110, 0), 2, 0.5) == (250, 3530)


def test_accesses_stand_expert_by_expert() -> None:
    """In order of time, each first one marked; every miss costs the line's slope."""
    accesses: Any = [[[0, 1], [2]], [[1], []], [[1, 0], [2]]]
    costs = {"gpu_ns": 0, "cpu_ns": 10, "activation_ns": 0, "fetch_ns": 3, "other_ns": 1}
    instance = Instance(name="x", layers=2, experts=3, slots=2, accesses=accesses, **costs)
    reuse = reuse_of(instance, 0.5)
    assert reuse.token.tolist() == [0, 2, 0, 1, 2, 0, 2]
    assert reuse.first.tolist() == [True, False, True, False, False, True, False]
    assert reuse.miss_ns.tolist() == [10] * 7
    assert reuse.fixed_ns == 6
