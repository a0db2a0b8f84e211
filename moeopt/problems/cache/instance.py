"""A routing trace through all layers, and what hits, misses and fetches cost.

One pass over the trace gives what every layer costs at every number of ways.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.algorithms.lru import stack_distances
from moeopt.core.arrays import NOT_THERE, by_name, integers
from moeopt.core.envelope import (
    Count,
    InstanceEnvelope,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    field_error,
)
from moeopt.core.json_files import JsonObject

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """Times in ns, as in the instance."""

    gpu_ns: int
    cpu_ns: int
    activation_ns: int
    other_ns: int

    def lookup_ns(self, hits: int, misses: int) -> int:
        """Return the time of one layer for one token: GPU and CPU work at the same time."""
        on_cpu = self.activation_ns + misses * self.cpu_ns if misses else 0
        return self.other_ns + max(hits * self.gpu_ns, on_cpu)


@dataclass(frozen=True)
class Curves:
    """Totals over the trace, each of shape (layers, experts + 1): by layer and number of ways.

    Attributes
    ----------
    hits, fetches
        Experts found on the GPU, and copied to it: without ways nothing is fetched.
    layer_ns
        Time of the layer.
    """

    hits: Ints
    fetches: Ints
    layer_ns: Ints


def curves_of(ids: NDArray[np.int32], experts: int, costs: Costs) -> Curves:
    """Return the curves of a trace.

    Parameters
    ----------
    ids
        Shape (layers, tokens, k): the experts of each token, -1 for none.
    experts
        Experts of a layer.
    costs
        Costs of a lookup; sums over the trace must fit into 64 bits.

    Notes
    -----
    A layer's time is not linear in its hits, so the lookups are counted by the number of experts
    used and the number found: with the distances of a lookup in ascending order, it has more than
    j hits at w ways iff its j-th distance is below w.
    """
    rows = [_layer(part, experts, costs) for part in ids]
    hits, fetches, layer_ns = (np.array(columns) for columns in zip(*rows, strict=True))
    return Curves(hits, fetches, layer_ns)


def _layer(ids: NDArray[np.int32], experts: int, costs: Costs) -> tuple[Ints, Ints, Ints]:
    there = ids >= 0
    used = there.sum(axis=1)
    nowhere = experts + 1
    distances = np.sort(np.where(there, stack_distances(ids, experts), nowhere), axis=1)
    hits = np.zeros(experts + 1, dtype=np.int64)
    layer_ns = np.zeros(experts + 1, dtype=np.int64)
    for group in np.unique(used).tolist():
        of = distances[used == group, :group]
        more_than = [len(of) + np.zeros(experts + 1, dtype=np.int64)]
        more_than += [_below(column, experts) for column in of.T]
        more_than.append(np.zeros(experts + 1, dtype=np.int64))
        for found in range(group + 1):
            lookups = more_than[found] - more_than[found + 1]
            hits += lookups * found
            layer_ns += lookups * costs.lookup_ns(found, group - found)
    fetches = int(used.sum()) - hits
    fetches[0] = 0
    return hits, fetches, layer_ns


def _below(distances: NDArray[np.int32], experts: int) -> Ints:
    """Return how many distances are below 0, 1, ..., experts."""
    seen = np.bincount(distances, minlength=experts + 2)[:experts]
    return np.concatenate([[0], seen.cumsum()])


MAX_LAYERS = 1024
MAX_EXPERTS = 4096
MAX_TOKENS = 2**20
MAX_CELLS = 2**18
"""Most layers x experts."""

MAX_ENTRIES = 2**25
"""Most tokens x layers x experts of the widest lookup: arrays of the trace have that many."""

MAX_TRACE_NS = 2**50
"""Longest time that a trace can take, 13 days: its multiples by weights stay in 64 bits."""

COSTS = ("gpu_ns", "cpu_ns", "activation_ns", "fetch_ns", "other_ns")

Lookup = Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
"""The experts of one token at one layer, which are looked up together."""

Token = Annotated[tuple[Lookup, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]


class Instance(InstanceEnvelope):
    """One GPU with room for `slots` experts, one CPU, and a trace of one token per step.

    Parameters
    ----------
    layers, experts
        Layers with experts, and experts in each.
    slots
        Experts that fit into the GPU's memory, over all layers.
    gpu_ns, cpu_ns
        One expert on the GPU that has it, and on the CPU.
    activation_ns
        Handing over the activations of a layer of which the CPU computes something.
    fetch_ns
        Copying one expert to the GPU, in the background.
    other_ns
        What a layer takes besides its routed experts.
    accesses
        By token and layer: the experts used, each once, in the order in which they become most
        recent.

    Notes
    -----
    `from_arrays` takes `accesses` as an array of shape (tokens, layers, top_k), the experts in the
    order in which they become most recent; -1 where a token uses fewer.

    Examples
    --------
    >>> from moeopt import cache
    >>> cache.Instance.from_arrays(
    ...     accesses=[[[0, 1], [2, 0]], [[1, -1], [2, 1]]], experts=3, slots=2, gpu_ns=2,
    ...     cpu_ns=9, activation_ns=1, fetch_ns=7, name="small",
    ... )
    <cache instance 'small': 2 layers of 3 experts, 2 tokens, 2 slots;
    minimises trace_ns>
    """

    SUMS: ClassVar = (
        Sum("accesses", "every way to serve all tokens, in ns,", "largest_ns", MAX_TRACE_NS),
    )

    problem: Literal["cache"] = "cache"
    layers: Annotated[Count, Field(ge=1, le=MAX_LAYERS)]
    experts: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    slots: Count
    gpu_ns: Nanoseconds
    cpu_ns: Nanoseconds
    activation_ns: Nanoseconds
    fetch_ns: Nanoseconds
    other_ns: Nanoseconds
    accesses: Annotated[
        tuple[Token, ...], Field(min_length=1, max_length=MAX_TOKENS, fail_fast=True)
    ]

    @field_validator("experts")
    @classmethod
    def _cells_are_bounded(cls, experts: int, info: ValidationInfo) -> int:
        layers = info.data.get("layers", 1)
        if layers * experts > MAX_CELLS:
            raise field_error([], f"layers x experts must be at most {MAX_CELLS}")
        return experts

    @field_validator("accesses")
    @classmethod
    def _are_lookups(cls, accesses: tuple[Token, ...], info: ValidationInfo) -> tuple[Token, ...]:
        layers, experts = info.data.get("layers"), info.data.get("experts")
        if layers is None or experts is None:
            return accesses
        for row, token in enumerate(accesses):
            if len(token) != layers:
                reason = f"must have one list per layer, {layers}, not {len(token)}"
                raise field_error([row], reason)
            for layer, used in enumerate(token):
                if used and max(used) >= experts:
                    reason = f"must be below experts = {experts}, not {max(used)}"
                    raise field_error([row, layer], reason)
                if len(set(used)) < len(used):
                    raise field_error([row, layer], "must name an expert once")
        widest = max(map(len, chain.from_iterable(accesses)))
        if len(accesses) * layers * widest > MAX_ENTRIES:
            raise field_error([], f"tokens x layers x {widest} experts is above {MAX_ENTRIES}")
        return accesses

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        axes = "(tokens, layers, top_k)"
        used = integers("accesses", given.get("accesses"), (None,) * 3, axes=axes, least=NOT_THERE)
        rows = [[[e for e in at if e != NOT_THERE] for at in token] for token in used.tolist()]
        return given | {"layers": used.shape[1], "accesses": rows}

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        accesses: ArrayLike,
        experts: int,
        slots: int,
        gpu_ns: int,
        cpu_ns: int,
        activation_ns: int,
        fetch_ns: int,
        other_ns: int = 0,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers, experts, tokens and slots there are, in words."""
        layers = f"{self.layers} layers of {self.experts} experts"
        return f"{layers}, {len(self.accesses)} tokens, {self.slots} slots"

    @property
    def largest_ns(self) -> int:
        """No solution takes longer, and no copies do: both sides serve every token."""
        lookups = len(self.accesses) * self.layers
        used = sum(map(len, chain(*self.accesses)))
        longest = lookups * (self.other_ns + self.activation_ns)
        return longest + used * max(self.gpu_ns + self.cpu_ns, self.fetch_ns)

    @property
    def costs(self) -> Costs:
        """What a layer's time is made of."""
        return Costs(self.gpu_ns, self.cpu_ns, self.activation_ns, self.other_ns)

    @cached_property
    def by_layer(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """The experts used, by layer and token."""
        return tuple(zip(*self.accesses, strict=True))

    @cached_property
    def served(self) -> dict[tuple[int, int], Any]:
        """What the checker saw a layer do with some ways: who tries single changes has the rest."""
        return {}

    @cached_property
    def ids(self) -> NDArray[np.int32]:
        """The accesses as an array, (layers, tokens, most experts of a lookup); -1 for none."""
        lengths = np.array([[len(used) for used in token] for token in self.accesses])
        there = np.arange(max(1, lengths.max())) < lengths[:, :, None]
        ids = np.full(there.shape, -1, dtype=np.int32)
        ids[there] = np.fromiter(chain.from_iterable(chain(*self.accesses)), dtype=np.int32)
        return np.ascontiguousarray(ids.transpose(1, 0, 2))

    @cached_property
    def curves(self) -> Curves:
        """What every layer costs at every number of ways."""
        return curves_of(self.ids, self.experts, self.costs)


class Solution(SolutionEnvelope):
    """Ways of each layer.

    None stands for a layer without a number: such a file can be read, and the checker reports it.
    """

    problem: Literal["cache"] = "cache"
    ways: tuple[Count | None, ...]
