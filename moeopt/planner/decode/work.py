"""What one decode step consists of, once everything about it is decided."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.planner.decode.migrations import Transfer
from moeopt.sim.plan.schema import Plan

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LayerTimes:
    """Times of every layer besides its routed experts, in ns, as `moeopt.sim.plan` has them.

    Lists have one entry per layer.
    """

    attention_ns: list[int]
    other_ns: list[int]
    shared_ns: list[int]
    to_host_ns: list[int]
    to_gpu_ns: list[int]
    step_ns: int


@dataclass(frozen=True)
class StepWork:
    """Who runs where, and what moves, in one step; arrays of shape (layers, experts).

    Attributes
    ----------
    domain
        GPU, CPU or NDP; NOWHERE for experts without tokens.
    cost_ns
        Time on its device.
    dram_ns
        Time a DIMM it lies on is busy if a host reads it; 0 for NDP work.
    dimm
        Its DIMM, or -1 if striped.
    deferred
        Whether its output joins that of the next layer.
    transfers
        Per layer: migrations before its experts.
    fetched, fetch_ns
        Whether its layer's cache fetches it after the lookup, and how long a copy takes.
    order
        Where in its layer it is first mentioned; None if nothing goes by it.
    hits, misses
        Of the caches, in all layers.
    """

    domain: Integers
    cost_ns: Integers
    dram_ns: Integers
    dimm: Integers
    deferred: Flags
    transfers: list[list[Transfer]]
    fetched: Flags
    fetch_ns: Integers
    order: Integers | None
    hits: int
    misses: int


def layer_times(plan: Plan, layers: int, shared_ns: int = 0) -> LayerTimes:
    """Return a plan's times; `shared_ns` is for shared experts where it has none."""
    t = plan.times
    shared = (shared_ns,) if t.shared_ns is None else t.shared_ns
    return LayerTimes(
        attention_ns=per_layer(t.attention_ns, layers),
        other_ns=per_layer(t.other_ns, layers),
        shared_ns=per_layer(shared, layers),
        to_host_ns=per_layer(t.to_host_ns, layers),
        to_gpu_ns=per_layer(t.to_gpu_ns, layers),
        step_ns=t.step_ns,
    )


def per_layer(values: tuple[int, ...], layers: int) -> list[int]:
    """Return one entry per layer of a list that may have a single one for all."""
    return list(values) * layers if len(values) == 1 else list(values)
