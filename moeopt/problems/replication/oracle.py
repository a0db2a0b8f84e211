"""Brute force: every placement there is, for the checker to compare."""

from collections.abc import Iterator
from itertools import chain, combinations, product

from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**16


def count(instance: Instance) -> int:
    """Return how many candidates `candidates` yields."""
    return int(sum(1 for _ in _rows(instance)) ** instance.experts)


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of devices for each expert, valid or not: that is for the checker to say.

    Only two copies of one expert on a device, and no copies at all, are left out.
    """
    for copies in product(list(_rows(instance)), repeat=instance.experts):
        yield Solution.model_construct(problem="replication", instance=instance.name, copies=copies)


def _rows(instance: Instance) -> Iterator[tuple[int, ...]]:
    devices, most = range(instance.devices), min(instance.max_copies, instance.devices)
    return chain.from_iterable(combinations(devices, size) for size in range(1, most + 1))
