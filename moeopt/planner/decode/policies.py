"""Online policies: which domain runs each expert, chosen from the loads that come."""

from collections.abc import Callable
from functools import partial

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.settlements import check_settled, split_name
from moeopt.core.wording import unknown
from moeopt.planner.decode import batched
from moeopt.planner.decode.work import CPU, GPU, Integers, Offer, Policy
from moeopt.problems.tri_domain.settlements import SETTLEMENTS


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
        return partial(HEURISTICS[plain], **settled)
    raise InputError(f"policy: {unknown(name, policy_names(), 'known policies')}")


def policy_names() -> list[str]:
    """Return the names of all policies."""
    return [*BUILT_IN, *HEURISTICS]


def _gpu_only(offer: Offer) -> Integers:
    return np.full(offer.tokens.shape, GPU)


def _cpu_for_misses(offer: Offer) -> Integers:
    return np.where(offer.resident, GPU, CPU)


def _threshold(offer: Offer) -> Integers:
    """Schedule every layer optimally, each on its own (`moeopt.problems.tri_domain.threshold`)."""
    from moeopt.problems.tri_domain.online import METHODS

    choice = np.full(offer.tokens.shape, GPU)
    for layer, table in enumerate(offer.tables()):
        rows = np.flatnonzero(offer.tokens[layer])
        if len(rows):
            choice[layer, rows] = METHODS["threshold"](table.take(rows, axis=1), offer.dimms)[0]
    return choice


BUILT_IN: dict[str, Policy] = {
    "gpu-only": _gpu_only,
    "cpu-for-misses": _cpu_for_misses,
    "threshold": _threshold,
}
"""Policies that are no heuristics of tri_domain."""

HEURISTICS: dict[str, Callable[..., Integers]] = {
    "greedy": batched.greedy,
    "trimoe": batched.trimoe,
    "klotski": batched.klotski,
    "ktransformers": batched.ktransformers,
    "monde": batched.monde,
    "fiddler": batched.fiddler,
    "fiddler-as-coded": batched.fiddler_as_coded,
    "hybrimoe": batched.hybrimoe,
}
"""The heuristics of tri_domain by name, with their settlements as keyword arguments."""
