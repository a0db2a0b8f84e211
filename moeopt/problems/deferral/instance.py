"""One decode step through all layers with experts: what GPU, CPU and hand-overs take in each."""

from typing import Annotated, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from moeopt.core.arrays import by_name, integers
from moeopt.core.envelope import (
    MAX_NUMBER,
    Count,
    Data,
    InstanceEnvelope,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    field_error,
)
from moeopt.core.json_files import JsonObject

MAX_LAYERS = 1024
MAX_TOP_K = 256

TIMES = ("attention_ns", "shared_ns", "sync_ns", "expert_cpu_ns")


def _for_each_layer(value: object, info: ValidationInfo) -> object:
    """Let one integer stand for all layers."""
    if isinstance(value, list | tuple):
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise field_error([], "must be an integer or a list with one per layer")
    return (value,) * info.data.get("layers", 1)


_NUMBER = {"type": "integer", "minimum": 0, "maximum": MAX_NUMBER}
_LIST = {"type": "array", "items": _NUMBER, "maxItems": MAX_LAYERS}

EachLayerNs = Annotated[
    tuple[Nanoseconds, ...],
    BeforeValidator(_for_each_layer),
    WithJsonSchema({"anyOf": [_NUMBER, _LIST]}),
]
"""A time of each layer; a file may state one integer for all of them."""


class Instance(InstanceEnvelope):
    """One GPU, one CPU, and `layers` layers of which each defers some of its `top_k` experts.

    Parameters
    ----------
    layers
        Layers with experts, in the order of the step.
    top_k
        Experts that a layer runs on the CPU.
    min_immediate
        How many of them must be immediate, whose output the next layer waits for.
    attention_ns, shared_ns
        Attention, and the shared experts, on the GPU.
    sync_ns
        Handing activations from GPU to CPU, or back: one way.
    expert_cpu_ns
        One routed expert on the CPU.
    penalty
        By deferred count, from 0 to `top_k - min_immediate`: what deferring so many experts in a
        layer costs in quality; it never falls.
    max_total_penalty
        Largest sum of penalties over the layers, or None for no limit.

    Notes
    -----
    `from_arrays` takes the times as arrays of shape (layers,), or one integer for all layers, and
    `penalty` of shape (top_k - min_immediate + 1,). `min_immediate` is 0 by default.

    Examples
    --------
    >>> from moeopt import deferral
    >>> deferral.Instance.from_arrays(
    ...     attention_ns=[30, 32], shared_ns=20, sync_ns=5, expert_cpu_ns=12, penalty=[0, 1, 3],
    ...     layers=2, top_k=2, name="small",
    ... )
    <deferral instance 'small': 2 layers, top 2, up to 2 deferred;
    minimises makespan_ns, then total_penalty>
    """

    SUMS: ClassVar = (
        Sum("expert_cpu_ns", "all tasks of all layers, one after the other,", "horizon_ns"),
    )

    problem: Literal["deferral"] = "deferral"
    layers: Annotated[Count, Field(ge=1, le=MAX_LAYERS)]
    top_k: Annotated[Count, Field(ge=1, le=MAX_TOP_K)]
    min_immediate: Count
    attention_ns: EachLayerNs
    shared_ns: EachLayerNs
    sync_ns: EachLayerNs
    expert_cpu_ns: EachLayerNs
    penalty: Annotated[tuple[Count, ...], Field(max_length=MAX_TOP_K + 1)]
    max_total_penalty: Count | None = None

    @field_validator("min_immediate")
    @classmethod
    def _experts_suffice(cls, least: int, info: ValidationInfo) -> int:
        top_k = info.data.get("top_k")
        if top_k is not None and least > top_k:
            raise field_error([], f"must be at most top_k = {top_k}, not {least}")
        return least

    @field_validator(*TIMES)
    @classmethod
    def _one_per_layer(cls, times: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        layers = info.data.get("layers")
        if layers is not None and len(times) != layers:
            reason = f"must have one entry per layer, {layers}, not {len(times)}"
            raise field_error([], reason)
        return times

    @field_validator("penalty")
    @classmethod
    def _one_per_count_and_never_falling(
        cls, penalty: tuple[int, ...], info: ValidationInfo
    ) -> tuple[int, ...]:
        top_k, least = info.data.get("top_k"), info.data.get("min_immediate")
        if top_k is not None and least is not None and len(penalty) != top_k - least + 1:
            due = f"top_k - min_immediate + 1 = {top_k - least + 1}"
            raise field_error([], f"must have {due} entries, not {len(penalty)}")
        for count in range(1, len(penalty)):
            if penalty[count] < penalty[count - 1]:
                reason = f"must not fall: {penalty[count]} comes after {penalty[count - 1]}"
                raise field_error([count], reason)
        return penalty

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        layers = given.get("layers")
        for name in TIMES:
            if (times := given.get(name)) is not None and isinstance(layers, int):
                shape = () if np.ndim(cast(ArrayLike, times)) == 0 else (layers,)
                given[name] = integers(name, times, shape, axes="(layers,)").tolist()
        return given

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        layers: int,
        top_k: int,
        attention_ns: ArrayLike,
        shared_ns: ArrayLike,
        sync_ns: ArrayLike,
        expert_cpu_ns: ArrayLike,
        penalty: ArrayLike,
        min_immediate: int = 0,
        max_total_penalty: int | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers there are and how many experts may be deferred, in words."""
        return f"{self.layers} layers, top {self.top_k}, up to {self.max_deferred} deferred"

    @property
    def max_deferred(self) -> int:
        """Most experts that a layer may defer."""
        return self.top_k - self.min_immediate

    def deferrable(self, layer: int) -> range:
        """Return the counts that a layer may defer: none in the last one."""
        return range(1 if layer == self.layers - 1 else self.max_deferred + 1)

    @property
    def horizon_ns(self) -> int:
        """How long the step takes if nothing overlaps: more than any optimum."""
        gpu = sum(self.attention_ns) + sum(self.shared_ns)
        return gpu + 2 * sum(self.sync_ns) + self.top_k * sum(self.expert_cpu_ns)


Start = Annotated[int, Field(strict=True, ge=0, le=2**62)]
"""An instant in ns since the step began; sums of many durations fit."""


class StartTimes(Data):
    """When each task of each layer starts; what takes no time has a start as well."""

    attention: tuple[Start, ...]
    shared: tuple[Start, ...]
    immediate: tuple[Start, ...]
    deferred: tuple[Start, ...]


class Solution(SolutionEnvelope):
    """One count and four starts per layer.

    None stands for a layer without a count: such a file can be read, and the checker reports it.
    """

    problem: Literal["deferral"] = "deferral"
    deferred: tuple[Count | None, ...]
    start_ns: StartTimes
