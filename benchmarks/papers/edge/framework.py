"""The paper's framework and its parts, each a decision on a balance instance (III-B to III-D)."""

from collections.abc import Callable
from functools import cache
from typing import Literal

from benchmarks.papers.edge.cases import DEFAULT, Setting, decode_instance
from benchmarks.papers.edge.hits import shares
from benchmarks.rooms.balance import Instance, Solution, all_ndp, balance_equation, e_max, objective
from benchmarks.rooms.balance import framework as whole_framework
from moeopt import solve

System = Literal["TP", "TP+LB", "TP+PRE", "TP+LB+PRE", "optimum"]


def tp_pre(instance: Instance) -> Solution:
    """Prefetching alone: residents by Eq. 3, and without any all on the NDP units."""
    return e_max(instance) if any(e.resident for e in instance.experts) else all_ndp(instance)


def optimum(instance: Instance) -> Solution:
    """Return the best slices, proven."""
    result = solve(instance, "dp")
    if result.status != "optimal" or not isinstance(result.solution, Solution):
        raise RuntimeError(f"{instance.name}: dp ended {result.status}")
    return result.solution


RULES: dict[System, Callable[[Instance], Solution]] = {
    "TP": all_ndp,
    "TP+LB": balance_equation,
    "TP+PRE": tp_pre,
    "TP+LB+PRE": whole_framework,
    "optimum": optimum,
}
"""Tensor parallelism; with load balancing, Eq. 1 and 2; with prefetching, Eq. 3; with both.

"optimum" has prefetched experts where the framework has them, and the exact slices.
"""

PREFETCHING: tuple[System, ...] = ("TP+PRE", "TP+LB+PRE", "optimum")


@cache
def layer_ns(
    system: System, model: str, units: int, hits: int = 0, setting: Setting = DEFAULT
) -> int:
    """Return the time of a layer of one decoded token with so many prefetched experts in use."""
    instance = decode_instance(model, units, hits, setting)
    return objective(instance, RULES[system](instance))


def decode_ns(
    system: System,
    model: str,
    units: int,
    setting: Setting = DEFAULT,
    *,
    prefetching: bool | None = None,
) -> float:
    """Return the expected time of a layer of one decoded token.

    Parameters
    ----------
    prefetching
        Whether prompts decide on experts to keep; by default as in the system.
    """
    if prefetching is None:
        prefetching = system in PREFETCHING
    if not prefetching:
        return float(layer_ns(system, model, units, 0, setting))
    return sum(
        share * layer_ns(system, model, units, hits, setting)
        for hits, share in enumerate(shares(model, setting.at_random))
    )
