"""One pass for all capacities against the checker's simulation of each."""

import random

import pytest

from tests.problems.cache.cache_random_instances import KINDS, random_accesses
from tests.rooms.cache import Instance, Solution, serve
from tests.shares import first

TRACES = 200


def random_trace(seed: int) -> Instance:
    """Return an instance with a longer trace, of any kind."""
    rng = random.Random(f"curves {seed}")
    layers, experts = rng.randint(1, 4), rng.randint(1, 12)
    accesses = random_accesses(rng, rng.choice(KINDS), layers, experts, rng.randint(1, 60))
    costs = {name: rng.randint(0, 50) for name in ("gpu_ns", "cpu_ns", "activation_ns")}
    costs |= {name: rng.randint(0, 50) for name in ("fetch_ns", "other_ns")}
    return Instance(
        name=str(seed), layers=layers, experts=experts, slots=1, accesses=accesses, **costs
    )


@pytest.mark.parametrize("part", first(1, [*range(4)]))
def test_curves_are_the_plain_simulation_at_every_capacity(part: int) -> None:
    """200 random traces, every layer and every number of ways: hits, fetches and time."""
    for seed in range(part, TRACES, 4):
        instance = random_trace(seed)
        curves = instance.curves
        for ways in range(instance.experts + 1):
            solution = Solution(instance=instance.name, ways=(ways,) * instance.layers)
            for layer, served in enumerate(serve(instance, solution)):
                found = (curves.hits, curves.fetches, curves.layer_ns)
                at = tuple(int(curve[layer, ways]) for curve in found)
                assert at == (served.hits, served.fetches, served.layer_ns), (seed, layer, ways)
