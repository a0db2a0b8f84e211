"""Brute force: every placement there is, and every share, for the checker to compare.

Written from the spec's text; it calls nothing but the checker.
"""

from collections.abc import Iterator
from itertools import combinations, product
from math import comb, prod

from .check import device_times
from .instance import Instance
from .solution import Solution

MAX_CANDIDATES = 2**16


def count(instance: Instance) -> int:
    """Return how many placements there are; with shares to decide, how many shares all have."""
    sizes = range(1, min(instance.max_copies, instance.devices) + 1)
    if not _has_shares(instance):
        return int(sum(comb(instance.devices, k) for k in sizes) ** instance.experts)
    return sum(
        prod(
            sum(comb(instance.devices, k) * comb(load + k - 1, k - 1) for k in sizes)
            for load in window.loads
        )
        for window in instance.windows
    )


def candidates(instance: Instance) -> Iterator[Solution]:
    """Yield every choice of devices for each expert, valid or not: that is for the checker to say.

    Only two copies of one expert on a device, and no copies at all, are left out. With kernel times
    and a free split each comes with the best of all shares: windows do not share tokens, so that
    each window's are tried by themselves.
    """
    devices, most = range(instance.devices), min(instance.max_copies, instance.devices)
    rows = [row for size in range(1, most + 1) for row in combinations(devices, size)]
    for copies in product(rows, repeat=instance.experts):
        shares = None
        if _has_shares(instance):
            shares = tuple(_best(instance, window.loads, copies) for window in instance.windows)
        yield Solution.model_construct(
            problem="replication", instance=instance.name, copies=copies, shares=shares
        )


def _has_shares(instance: Instance) -> bool:
    return instance.work == "kernel" and instance.split == "free"


def _best(
    instance: Instance, loads: tuple[int, ...], copies: tuple[tuple[int, ...], ...]
) -> tuple[tuple[int, ...], ...]:
    """Return the shares of one window whose slowest device is the fastest."""
    each = [list(_parts(load, len(row))) for load, row in zip(loads, copies, strict=True)]
    return min(product(*each), key=lambda shares: max(device_times(instance, copies, shares)))


def _parts(load: int, copies: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share out tokens over copies."""
    if copies == 1:
        yield (load,)
        return
    for first in range(load + 1):
        for rest in _parts(load - first, copies - 1):
            yield (first, *rest)
