"""What a policy may choose from in one decode step, and what the step consists of once decided."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.problems.device_loads import OWN, STRIPED_READS
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.plan import EachLayerNs, Plan, Times
from moeopt.systems.migrations import Transfer

GPU, CPU, NDP = range(3)
NOWHERE = -1

NEVER_NS = MAX_NUMBER + 1
"""More than any path costs."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Offer:
    """What a policy may choose from, in one step; arrays of shape (layers, experts).

    `tokens` is 0 for an expert that is not active, `dimm` is -1 for a striped one, whose `ndp_ns`
    means nothing. The ``*_dram_ns`` are as in `moeopt.problems.tri_domain.expert.Expert`.
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

    def tables(self) -> Integers:
        """Return the tables of `moeopt.problems.device_loads`, shape (layers, 7, experts)."""
        striped = self.dimm == STRIPED
        ndp_ns = np.where(striped, 0, self.ndp_ns)
        rows = [self.gpu_ns, self.cpu_ns, np.zeros_like(ndp_ns)]
        rows += [self.gpu_dram_ns, self.cpu_dram_ns, ndp_ns]
        rows += [np.where(striped, STRIPED_READS, OWN + self.dimm)]
        return np.stack(rows, axis=1)


Policy = Callable[[Offer], Integers]
"""Returns GPU, CPU or NDP for every expert, shape (layers, experts); inactive ones are ignored."""


class LayerTimes(Times):
    """What a step costs besides its routed experts, one number per layer."""

    shared_ns: EachLayerNs = (0,)


@dataclass(frozen=True)
class StepWork:
    """Who runs where, and what moves, in layers of one step; arrays of shape (layers, experts).

    Attributes
    ----------
    domain
        GPU, CPU or NDP; NOWHERE for experts without tokens.
    tokens
        How many each expert has.
    cost_ns
        Time on its device.
    upload_ns
        How long PCIe is busy before an expert whose weights are not there can run on the GPU; 0
        where a run on the GPU is one path.
    dram_ns
        Time a DIMM it lies on is busy if a host reads it; 0 for NDP work.
    dimm
        Its DIMM, or -1 if striped.
    deferred
        Whether its output joins that of the next layer.
    transfers
        Per layer: migrations before its experts.
    copies
        Per layer: expert and length of each copy into its cache, in order, after the lookup.
    hits, misses
        Of the caches, in all layers.
    """

    domain: Integers
    tokens: Integers
    cost_ns: Integers
    upload_ns: Integers
    dram_ns: Integers
    dimm: Integers
    deferred: Flags
    transfers: list[list[Transfer]]
    copies: list[Sequence[tuple[int, int]]]
    hits: int
    misses: int

    def gpu_order(self, layer: int) -> Integers:
        """Return a layer's experts on the GPU in order: those that are there, then uploads.

        Uploads go by falling tokens.
        """
        rows = np.flatnonzero(self.domain[layer] == GPU)
        uploads, tokens = self.upload_ns[layer, rows] > 0, self.tokens[layer, rows]
        return rows[np.lexsort((-tokens, uploads))]


def joined(parts: Sequence[StepWork]) -> StepWork:
    """Return what happens in several layers, one after the other."""
    if len(parts) == 1:
        return parts[0]
    arrays = ("domain", "tokens", "cost_ns", "upload_ns", "dram_ns", "dimm", "deferred")
    return StepWork(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in arrays},
        transfers=[of for part in parts for of in part.transfers],
        copies=[of for part in parts for of in part.copies],
        hits=sum(part.hits for part in parts),
        misses=sum(part.misses for part in parts),
    )


def layer_times(plan: Plan, layers: int, shared_ns: int = 0) -> LayerTimes:
    """Return a plan's times; `shared_ns` is for shared experts where it has none."""
    given = {"shared_ns": (shared_ns,)} | plan.times.model_dump(exclude_none=True)
    step = {"step_ns": given.pop("step_ns")}
    return LayerTimes.model_validate(
        {name: per_layer(of, layers) for name, of in given.items()} | step
    )


def per_layer(values: tuple[int, ...], layers: int) -> list[int]:
    """Return one entry per layer of a list that may have a single one for all."""
    return list(values) * layers if len(values) == 1 else list(values)
