"""Brute force: every number of ways for every layer, for the checker to compare."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**14
"""The checker simulates the whole trace for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int((instance.experts + 1) ** instance.layers)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all ways, whether they fit into the slots or not: checking is the checker's work."""
    for ways in product(range(instance.experts + 1), repeat=instance.layers):
        yield Solution.model_construct(problem="cache", instance=instance.name, ways=ways)
