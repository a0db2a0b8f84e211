"""Brute force: every assignment there is, for the checker to compare. Ground truth of the tests."""

from collections.abc import Iterator
from itertools import product
from math import prod

from .instance import Instance
from .solution import Solution, runs_of, solution_of

MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return prod(len(runs) for runs in runs_of(instance))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of domains and copies, valid or not: the checker decides."""
    for runs in product(*runs_of(instance)):
        yield solution_of(instance, runs)
