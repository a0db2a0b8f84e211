"""Online policies: which domain runs each expert, chosen from the loads that come."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InputError
from moeopt.problems.envelope import MAX_NUMBER
from moeopt.problems.settlements import check_settled, split_name
from moeopt.problems.tri_domain.heuristics import HEURISTICS, cheapest_path
from moeopt.problems.tri_domain.instance import Expert, Instance
from moeopt.problems.tri_domain.settlements import SETTLEMENTS
from moeopt.problems.tri_domain.solution import DOMAINS
from moeopt.sim.layout_rule import STRIPED

GPU, CPU, NDP = range(3)
NOWHERE = -1

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Offer:
    """What a policy may choose from, in one step; arrays of shape (layers, experts).

    `tokens` is 0 for an expert that is not active, `dimm` is -1 for a striped one, whose `ndp_ns`
    means nothing. The ``*_dram_ns`` are as in `moeopt.problems.tri_domain.instance.Expert`.
    """

    dimms: int
    tokens: Integers
    resident: Flags
    dimm: Integers
    gpu_ns: Integers
    cpu_ns: Integers
    ndp_ns: Integers
    gpu_dram_ns: Integers
    cpu_dram_ns: Integers


Policy = Callable[[Offer], Integers]
"""Returns GPU, CPU or NDP for every expert, shape (layers, experts); inactive ones are ignored."""


def get_policy(name: str) -> Policy:
    """Return a policy by name; a heuristic's may carry settlements: ``trimoe[tie_order=gpu]``.

    Raises
    ------
    InputError
        If there is none of that name; the message lists those that exist. If it takes no such
        settlement.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    plain, settled = split_name(name)
    if plain in HEURISTICS:
        check_settled(plain, settled, SETTLEMENTS)
        return heuristic_policy(plain, settled)
    known = ", ".join(policy_names())
    raise InputError(f"policy: {name!r} is unknown; known policies: {known}")


def policy_names() -> list[str]:
    """Return the names of all policies."""
    return [*BUILT_IN, *(name for name in HEURISTICS if name not in BUILT_IN)]


def _gpu_only(offer: Offer) -> Integers:
    return np.full(offer.tokens.shape, GPU)


def _cpu_for_misses(offer: Offer) -> Integers:
    return np.where(offer.resident, GPU, CPU)


COLUMNS = (
    "tokens",
    "resident",
    "dimm",
    "gpu_ns",
    "cpu_ns",
    "ndp_ns",
    "gpu_dram_ns",
    "cpu_dram_ns",
)
"""Columns that an offer and an instance's experts share."""


def _greedy(offer: Offer) -> Integers:
    """Give each expert its cheapest path, for all layers at once; ties as in tri_domain."""
    ndp_ns = np.where(offer.dimm == STRIPED, MAX_NUMBER + 1, offer.ndp_ns)
    return cheapest_path(np.stack([offer.gpu_ns, offer.cpu_ns, ndp_ns]))


BUILT_IN: dict[str, Policy] = {
    "gpu-only": _gpu_only,
    "cpu-for-misses": _cpu_for_misses,
    "greedy": _greedy,
}
"""Policies that decide all layers at once. `greedy` is tri_domain's, only faster."""


def heuristic_policy(name: str, settled: Mapping[str, str] | None = None) -> Policy:
    """Return a tri_domain heuristic, with its settlements, as a policy: one instance per layer."""
    heuristic = partial(HEURISTICS[name], **(settled or {}))

    def policy(offer: Offer) -> Integers:
        choice = np.full(offer.tokens.shape, GPU)
        for layer in range(len(choice)):
            active = np.flatnonzero(offer.tokens[layer])
            if len(active):
                assignment = heuristic(_instance(offer, layer, active)).assignment
                choice[layer, active] = [DOMAINS.index(d) for d in assignment if d is not None]
        return choice

    return policy


def _instance(offer: Offer, layer: int, active: Integers) -> Instance:
    """Return one layer as a tri_domain instance; valid by construction, so nothing is validated."""
    columns = [getattr(offer, name)[layer, active].tolist() for name in COLUMNS]
    experts = []
    for expert, *values in zip(active.tolist(), *columns, strict=True):
        row = dict(zip(COLUMNS, values, strict=True))
        if row["dimm"] == STRIPED:
            row |= {"dimm": None, "ndp_ns": None}
        experts.append(Expert.model_construct(expert=expert, **row))
    return Instance.model_construct(
        name=f"layer {layer}", dimms=offer.dimms, experts=tuple(experts)
    )
