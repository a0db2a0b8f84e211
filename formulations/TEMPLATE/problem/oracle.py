"""Brute force: every candidate there is, for the checker to compare."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**16


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return 1 << len(instance.experts)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every set of kept experts, valid or not: that is for the checker to say."""
    for kept in product((False, True), repeat=len(instance.experts)):
        yield Solution.model_construct(problem="TEMPLATE", instance=instance.name, kept=kept)
