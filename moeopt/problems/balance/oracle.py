"""Brute force: every way to take slices, for the checker to compare. Ground truth of the tests."""

from collections.abc import Iterator
from itertools import product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 3**11


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    cells = len(instance.experts) * instance.ndp_units
    return int((instance.slices_per_unit + 1) ** cells)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every count of slices for every expert and unit."""
    rows = list(product(range(instance.slices_per_unit + 1), repeat=instance.ndp_units))
    for gpu_slices in product(rows, repeat=len(instance.experts)):
        # The pieces are valid by construction; skipping validation makes this ten times faster.
        yield Solution.model_construct(
            problem="balance", instance=instance.name, gpu_slices=gpu_slices
        )
