"""A second checker, and the optimum of tiny instances: every way to treat an expert is a vector.

Written from `formulations/relayout/spec.md` alone; it shares nothing with the package but fields
of instances and solutions. A vector has what one expert takes of every device and window; a
solution's loads are the sum of its experts' vectors.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from tests.rooms.relayout import Expert, Instance, Migration, Solution

Ints = NDArray[np.int64]

GPU, CPU, PCIE, SLOT, PREFETCH = range(5)
"""Entries of a vector; then come DIMMs, channels, and links: one, or one for each DIMM."""


def limits(instance: Instance) -> tuple[Ints, int]:
    """Return what there is of every slot and window, and from which entry on links stand."""
    channels = len(set(instance.channels or ()))
    first_link = 5 + instance.dimms + channels
    links = 1 if instance.relayout_share_ns is None else instance.dimms
    most = np.full(first_link + links, np.iinfo(np.int64).max)
    most[SLOT], most[PREFETCH] = instance.hbm_free_slots, instance.pcie_window_ns
    most[first_link:] = instance.dimm_link_window_ns
    return most, first_link


def vector(
    instance: Instance, of: Expert, migration: Migration | None, domain: str | None
) -> Ints | None:
    """Return what an expert takes of everything; None if RE-C1, RE-C2 or RE-C4 forbids it."""
    most, first_link = limits(instance)
    taken = np.zeros_like(most)
    kind = None if migration is None else migration.kind
    target = None if migration is None else migration.dimm
    if not of.tokens:
        return taken if migration is None and domain is None else None
    fits = {
        None: target is None,
        "prefetch": target is None and not of.resident,
        "stripe": target is None and of.dimm is not None,
        "localize": target is not None and of.dimm is None,
        "rebalance": target is not None and of.dimm not in (None, target),
    }
    lies = target if kind in ("localize", "rebalance") else None if kind == "stripe" else of.dimm
    if not fits[kind] or domain is None or (lies is not None and lies >= instance.dimms):
        return None
    if domain == "ndp" and lies is None:
        return None
    _migrate(instance, of, kind, target, taken)
    dimm, channels = taken[5 : 5 + instance.dimms], sorted(set(instance.channels or ()))
    if domain == "ndp":
        dimm[lies] += of.ndp_ns
        return taken
    striped = lies is None
    in_memory = of.resident or kind == "prefetch"
    if domain == "gpu":
        whole = of.gpu_miss_striped_ns if striped else of.gpu_miss_localized_ns
        whole = of.gpu_hit_ns if in_memory else whole
        taken[GPU] = whole if of.gpu_calc_ns is None else of.gpu_calc_ns
        if in_memory:
            return taken
        if of.gpu_calc_ns is not None:
            taken[PCIE] = of.pcie_striped_ns if striped else of.pcie_localized_ns
    else:
        taken[CPU] = of.cpu_striped_ns if striped else of.cpu_localized_ns
    part, full = instance.dimm_share or (1, 1)
    if striped:
        dimm += -(-instance.dram_striped_ns * part // full)
        taken[5 + instance.dimms : first_link] += instance.dram_striped_ns
    else:
        dimm[lies] += instance.dram_localized_ns
        if instance.channels is not None:
            channel = channels.index(instance.channels[lies])
            taken[5 + instance.dimms + channel] += instance.dram_localized_ns
    return taken


def _migrate(
    instance: Instance, of: Expert, kind: str | None, target: int | None, taken: Ints
) -> None:
    """Add what a migration takes of slots and windows."""
    first_link = limits(instance)[1]
    if kind == "prefetch":
        taken[SLOT], taken[PREFETCH] = 1, instance.prefetch_ns
    elif kind is not None and instance.relayout_share_ns is None:
        moved = kind == "rebalance"
        taken[first_link] = instance.rebalance_ns if moved else instance.relayout_ns
    elif kind == "rebalance":
        taken[[first_link + of.dimm, first_link + target]] = instance.rebalance_ns
    elif kind is not None:
        taken[first_link:] = instance.relayout_share_ns
        taken[first_link + (of.dimm if kind == "stripe" else target)] = instance.relayout_ns


def judged(instance: Instance, solution: Solution) -> int | None:
    """Return the makespan of a solution, None if it breaks a rule."""
    numbers = [of.expert for of in instance.experts]
    moved = [of.expert for of in solution.migrations]
    if len(solution.assignment) != len(numbers) or len(set(moved)) < len(moved):
        return None
    if not set(moved) <= set(numbers):
        return None
    migration = dict(zip(moved, solution.migrations, strict=True))
    ways = [
        vector(instance, of, migration.get(of.expert), domain)
        for of, domain in zip(instance.experts, solution.assignment, strict=True)
    ]
    if any(way is None for way in ways):
        return None
    [value] = _makespans(instance, np.sum(ways, axis=0)[None]) or [None]
    return value


def optimum(instance: Instance) -> int:
    """Return the least makespan over all migrations and assignments."""
    sums = np.zeros((1, len(limits(instance)[0])), np.int64)
    for of in instance.experts:
        every = (vector(instance, of, m, d) for m in _migrations(instance, of)
                 for d in (None, "gpu", "cpu", "ndp"))  # fmt: skip
        ways = np.array([way for way in every if way is not None])
        sums = (sums[:, None] + ways[None]).reshape(-1, sums.shape[1])
        sums = np.unique(sums[(sums <= limits(instance)[0]).all(axis=1)], axis=0)
    return min(_makespans(instance, sums))


def _makespans(instance: Instance, sums: Ints) -> list[int]:
    """Return the makespans of those sums of vectors that keep slots and windows."""
    most, first_link = limits(instance)
    devices = [GPU, CPU, PCIE, *range(5, first_link)]
    kept = sums[(sums <= most).all(axis=1)][:, devices]
    kept[:, GPU] += instance.gpu_base_ns or 0
    return [int(of) for of in kept.max(axis=1)]


def _migrations(instance: Instance, of: Expert) -> Iterator[Migration | None]:
    yield None
    for kind in ("prefetch", "stripe"):
        yield Migration(expert=of.expert, kind=kind)
    for dimm in range(instance.dimms):
        for kind in ("localize", "rebalance"):
            yield Migration(expert=of.expert, kind=kind, dimm=dimm)
