"""Brute force: every assignment there is, for the checker to compare. Ground truth of the tests."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import DOMAINS, Solution

MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(len(DOMAINS) ** len(instance.experts))


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every assignment of experts to domains, valid or not: the checker decides."""
    for assignment in product(DOMAINS, repeat=len(instance.experts)):
        # The pieces are valid by construction; skipping validation makes this ten times faster.
        yield Solution.model_construct(
            problem="tri_domain", instance=instance.name, assignment=assignment
        )
