"""What the CP-SAT and the MILP model share: which variables there are, and how to read them."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

import numpy as np

from .copies import fields_of
from .idle import with_idle_localized
from .instance import Domain, Instance, Solution
from .paths import Path

HOST_WAYS: dict[str, tuple[Domain, Path]] = {
    "hit": ("gpu", Path.HIT),
    "gpu_striped": ("gpu", Path.GPU_STRIPED),
    "gpu_local": ("gpu", Path.GPU_LOCAL),
    "cpu_striped": ("cpu", Path.CPU_STRIPED),
    "cpu_local": ("cpu", Path.CPU_LOCAL),
}
"""The ways a host may run an expert: its domain, and its path."""

STRIPED_WAYS = ("gpu_striped", "cpu_striped")
"""Those in which a host reads the expert from all DIMMs."""


@dataclass(frozen=True)
class Runs:
    """The variables of one expert in one scenario.

    Attributes
    ----------
    way
        One per way of `HOST_WAYS`, and ``ndp_nowhere``: on NDP without lying on any DIMM.
    read, ndp
        Per DIMM: a host reads the expert there, or NDP runs it there.
    """

    way: dict[str, Any]
    read: dict[int, Any]
    ndp: dict[int, Any]


def places(instance: Instance) -> dict[int, tuple[int, ...]]:
    """Return the experts whose place is decided, each with the DIMMs it may lie on.

    Those with tokens anywhere. Where several copies are permitted all of them, as a place takes
    bytes from others (LA-C11) whether it is used or not; else one without tokens is striped, which
    takes no slot.

    DIMMs of one channel are identical, and so are channels of as many DIMMs. So they may be
    numbered in the order of their first expert, the channels first: before an expert lies on a
    DIMM, each lower one of that channel and each lower channel like it has one. That holds whatever
    constraint is left out, since all of them treat such DIMMs and channels alike. Without channels
    the k-th expert lies on one of the first k DIMMs. Where several copies are permitted, each may
    lie on any DIMM: an expert may be the first of several DIMMs at once.
    """
    if instance.copies is not None:
        return dict.fromkeys(range(instance.experts), tuple(range(instance.dimms)))
    rows = np.flatnonzero(instance.path_times.active.any(axis=0)).tolist()
    before = experts_before(instance.channels or (0,) * instance.dimms)
    return {
        row: tuple(dimm for dimm, least in enumerate(before) if least <= k)
        for k, row in enumerate(rows)
    }


def experts_before(channels: Sequence[int]) -> list[int]:
    """Return how many experts at least lie on other DIMMs before one lies on each DIMM."""
    dimms_of = Counter(channels)
    alike = Counter[int]()  # number of DIMMs -> channels seen with so many
    lower_channels: dict[int, int] = {}
    lower_dimms = Counter[int]()
    found = []
    for channel in channels:
        if channel not in lower_channels:
            lower_channels[channel] = alike[dimms_of[channel]]
            alike[dimms_of[channel]] += 1
        found.append(lower_dimms[channel] + lower_channels[channel])
        lower_dimms[channel] += 1
    return found


def costs_ns(instance: Instance, number: int, row: int) -> dict[str, int]:
    """Return how long each way of `HOST_WAYS` keeps its host busy in scenario `number`."""
    cost = instance.path_times.cost
    return {way: int(cost[path, number, row]) for way, (_, path) in HOST_WAYS.items()}


def pcie_ns(instance: Instance, number: int, row: int) -> dict[str, int]:
    """Return how long each way of `HOST_WAYS` keeps PCIe busy in scenario `number`."""
    pcie = instance.path_times.pcie
    return {way: int(pcie[path, number, row]) for way, (_, path) in HOST_WAYS.items()}


def longest_ns(instance: Instance, number: int) -> int:
    """Return a sum over a scenario that no device's load exceeds: each expert's longest time."""
    times = instance.path_times
    of_experts = np.maximum(times.cost[:, number].max(axis=0), times.pcie[:, number].max(axis=0))
    reads = max(instance.dram_striped_ns, instance.dram_localized_ns)
    return times.base + int(np.maximum(of_experts, reads)[times.active[number]].sum())


def bytes_on_dimm(
    instance: Instance,
    striped: Mapping[int, Any],
    local: Mapping[int, Mapping[int, Any]],
    dimm: int,
) -> tuple[list[tuple[Any, int]], int]:
    """Return a DIMM's weights as variables with their bytes, and the bytes that there are for them.

    What all numbers are a multiple of is taken out of them.
    """
    of = instance.copies
    if of is None:
        return [], 0
    share = of.share_bytes(instance.dimms)
    terms = [(at, share) for at in striped.values()]
    terms += [(at[dimm], of.expert_bytes) for at in local.values()]
    unit = gcd(share, of.expert_bytes)
    return [(at, size // unit) for at, size in terms], of.room_bytes // unit


def read_off(
    instance: Instance,
    resident: Mapping[int, Any],
    local: Mapping[int, Mapping[int, Any]],
    runs: Sequence[Mapping[int, Runs]],
    value: Callable[[Any], int],
    striped: Mapping[int, Any],
) -> Solution:
    """Return the solution in which each expert takes the first domain whose variable is 1.

    With a constraint left out there may be several, or none: then the expert runs nowhere.
    `striped` is empty where the instance permits one copy.
    """

    def domain(of: Runs) -> Domain | None:
        for way, (host, _) in HOST_WAYS.items():
            if value(of.way[way]):
                return host
        on_ndp = any(value(v) for v in (of.way["ndp_nowhere"], *of.ndp.values()))
        return "ndp" if on_ndp else None

    experts = range(instance.experts)
    lies = np.zeros((instance.experts, 1 + instance.dimms), dtype=np.bool_)
    for row, of in local.items():
        lies[row, 0] = row in striped and bool(value(striped[row]))
        lies[row, 1:] = [d in of and bool(value(of[d])) for d in range(instance.dimms)]
    first, copies = fields_of(lies)

    def source(row: int, of: Runs) -> int | None:
        used = [*of.read.items(), *of.ndp.items()]
        dimm = next((d for d, at in used if value(at)), None)
        return None if dimm == first[row] else dimm

    several = instance.copies is not None
    read = Solution(
        instance=instance.name,
        resident=tuple(row in resident and bool(value(resident[row])) for row in experts),
        dimm=first,
        copies=copies if several else None,
        source=tuple(
            tuple(source(row, of[row]) if row in of else None for row in experts) for of in runs
        )
        if several
        else None,
        assignment=tuple(
            tuple(domain(of[row]) if row in of else None for row in experts) for of in runs
        ),
    )
    return with_idle_localized(instance, read)
