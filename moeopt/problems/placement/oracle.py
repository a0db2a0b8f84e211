"""Brute force: every set of experts, for the checker to compare."""

from collections.abc import Iterator
from itertools import chain, combinations, product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**14
"""The checker walks through all steps for each."""


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(2 ** (instance.layers * instance.experts))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield all sets, whether they fit into the slots or not: checking is the checker's work."""
    sizes = range(instance.experts + 1)
    rows = list(chain(*(combinations(range(instance.experts), size) for size in sizes)))
    for gpu in product(rows, repeat=instance.layers):
        yield Solution.model_construct(problem="placement", instance=instance.name, gpu=gpu)
