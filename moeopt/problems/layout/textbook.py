"""What the CP-SAT and the MILP model share: which variables there are, and how to read them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .instance import Instance
from .solution import Domain, Solution

HOST_WAYS: dict[str, tuple[Domain, str]] = {
    "hit": ("gpu", "gpu_hit_ns"),
    "gpu_striped": ("gpu", "gpu_miss_striped_ns"),
    "gpu_local": ("gpu", "gpu_miss_localized_ns"),
    "cpu_striped": ("cpu", "cpu_striped_ns"),
    "cpu_local": ("cpu", "cpu_localized_ns"),
}
"""The ways a host may run an expert: its domain, and the field of a scenario with its cost."""


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


def places(instance: Instance) -> dict[int, range]:
    """Return the experts with tokens anywhere, each with the DIMMs it may lie on.

    The DIMMs are identical, so that they may be numbered in the order of their first expert: the
    k-th expert lies on one of the first k DIMMs. That holds whatever constraint is left out, since
    all of them treat the DIMMs alike.
    """
    rows = [
        row for row, of in enumerate(zip(*(s.tokens for s in instance.scenarios), strict=True))
        if any(of)
    ]  # fmt: skip
    return {row: range(min(k + 1, instance.dimms)) for k, row in enumerate(rows)}


def costs_ns(instance: Instance, number: int, row: int) -> dict[str, int]:
    """Return what each way of `HOST_WAYS` costs its host in scenario `number`."""
    scenario = instance.scenarios[number]
    return {way: getattr(scenario, field)[row] for way, (_, field) in HOST_WAYS.items()}


def longest_ns(instance: Instance, number: int) -> int:
    """Return the sum over a scenario's experts of each one's longest time on any device."""
    reads = (instance.dram_striped_ns, instance.dram_localized_ns)
    scenario = instance.scenarios[number]
    return sum(
        max(*reads, scenario.ndp_ns[row], *costs_ns(instance, number, row).values())
        for row, tokens in enumerate(scenario.tokens)
        if tokens
    )


def read_off(
    instance: Instance,
    resident: Mapping[int, Any],
    local: Mapping[int, Mapping[int, Any]],
    runs: Sequence[Mapping[int, Runs]],
    value: Callable[[Any], int],
) -> Solution:
    """Return the solution in which each expert takes the first domain whose variable is 1.

    With a constraint left out there may be several, or none: then the expert runs nowhere.
    """

    def domain(of: Runs) -> Domain | None:
        for way, (host, _) in HOST_WAYS.items():
            if value(of.way[way]):
                return host
        on_ndp = any(value(v) for v in (of.way["ndp_nowhere"], *of.ndp.values()))
        return "ndp" if on_ndp else None

    experts = range(instance.experts)
    return Solution(
        instance=instance.name,
        resident=tuple(row in resident and bool(value(resident[row])) for row in experts),
        dimm=tuple(
            next((d for d, at in local.get(row, {}).items() if value(at)), None) for row in experts
        ),
        assignment=tuple(
            tuple(domain(of[row]) if row in of else None for row in experts) for of in runs
        ),
    )
