"""Layers in order, devices with memory, and what each layer's two parts take on each device."""

from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    InstanceEnvelope,
    Name,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    field_error,
)
from moeopt.core.json_files import JsonObject

MAX_DEVICES = 64
MAX_LAYERS = 1024

Ints = NDArray[np.int64]
Times = Annotated[tuple[Nanoseconds | None, ...], Field(min_length=1, max_length=MAX_DEVICES)]
Hops = Annotated[
    tuple[Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_DEVICES)], ...],
    Field(max_length=MAX_DEVICES),
]


class Device(Data):
    """A GPU or a node of the host's memory.

    Parameters
    ----------
    name
        What it is called, e.g. ``gpu0`` or ``numa1``.
    capacity
        Its memory in bytes.
    buffer
        Bytes that a runtime takes there as soon as any part lies there.
    """

    name: Name
    capacity: Count
    buffer: Count = 0


class Layer(Data):
    """A layer: attention, with all that goes with it, and its routed experts.

    Parameters
    ----------
    attention_ns
        Time of attention on each device; None where it cannot run. None in all: there is none, and
        what stands as experts is a further tensor of those before (gate, up, down).
    attention_bytes
        What it needs where it lies, KV cache included.
    experts_ns
        The same of its routed experts; None for a layer without any.
    experts_bytes
        What they need; without meaning for a layer without experts.
    prompt_attention_ns, prompt_experts_ns
        The same for one ubatch of a prompt; None counts as 0.
    """

    attention_ns: Times | None
    attention_bytes: Count
    experts_ns: Times | None = None
    experts_bytes: Count = 0
    prompt_attention_ns: Times | None = None
    prompt_experts_ns: Times | None = None


class Instance(InstanceEnvelope):
    """Where each layer's attention and routed experts lie, on a machine with several devices.

    Parameters
    ----------
    source
        The device that a token comes from and goes back to.
    order
        If given, attention runs on these devices only, and never goes back in this list.
    devices
        GPUs and nodes.
    hop_ns
        Time of handing activations from one device to another, shape (devices, devices).
    prompt_hop_ns
        The same for one ubatch of a prompt; None counts as 0.
    decode_weight, prompt_weight
        How often a decoded token and an ubatch of a prompt count.
    layers
        In the order in which they run.

    Notes
    -----
    `from_arrays` takes the fields of `Device` as arrays of shape (devices,), the times of `Layer`
    of shape (layers, devices), -1 where a part cannot run, and its bytes of shape (layers,). A
    layer whose experts can run nowhere has none.

    Examples
    --------
    >>> from moeopt import split
    >>> split.Instance.from_arrays(
    ...     attention_ns=[[10, 60], [10, 60]], attention_bytes=[2, 2],
    ...     experts_ns=[[12, 80], [12, 80]], experts_bytes=[9, 9], hop_ns=[[0, 5], [5, 0]],
    ...     capacity=[14, 64], buffer=[1, 0], source=1, name="small",
    ... )
    <split instance 'small': 2 layers, 2 devices; minimises weighted_ns>
    """

    TABLES: ClassVar = (
        Table("devices", "capacity", "(devices,)", None, {"name": None, "buffer": 0}),
        Table("layers", "attention_ns", "(layers, devices)"),
    )
    SUMS: ClassVar = (
        Sum("layers", "the longest times of all parts and hops, with both weights,", "largest"),
    )

    problem: Literal["split"] = "split"
    devices: Annotated[tuple[Device, ...], Field(min_length=1, max_length=MAX_DEVICES)]
    source: Count
    order: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_DEVICES)] | None = None
    hop_ns: Hops
    prompt_hop_ns: Hops | None = None
    decode_weight: Count = 1
    prompt_weight: Count = 0
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=MAX_LAYERS)]

    @field_validator("devices")
    @classmethod
    def _names_differ(cls, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        names = [device.name for device in devices]
        for row, name in enumerate(names):
            if name in names[:row]:
                raise field_error([row, "name"], "must differ from other devices' names")
        return devices

    @field_validator("source")
    @classmethod
    def _source_exists(cls, source: int, info: ValidationInfo) -> int:
        devices = info.data.get("devices")
        if devices is not None and source >= len(devices):
            raise field_error([], f"there is no device {source}, only {len(devices)}")
        return source

    @field_validator("order")
    @classmethod
    def _order_exists(
        cls, order: tuple[int, ...] | None, info: ValidationInfo
    ) -> tuple[int, ...] | None:
        devices = info.data.get("devices")
        if order is None or devices is None:
            return order
        for row, device in enumerate(order):
            if device >= len(devices):
                raise field_error([row], f"there is no device {device}, only {len(devices)}")
            if device in order[:row]:
                raise field_error([row], f"names device {device} twice")
        return order

    @field_validator("hop_ns", "prompt_hop_ns")
    @classmethod
    def _hops_are_square(cls, hops: Hops | None, info: ValidationInfo) -> Hops | None:
        devices = info.data.get("devices")
        if hops is None or devices is None:
            return hops
        if len(hops) != len(devices):
            raise field_error([], f"must have one row per device, {len(devices)}, not {len(hops)}")
        for row, times in enumerate(hops):
            if len(times) != len(devices):
                due = f"must have one entry per device, {len(devices)}, not {len(times)}"
                raise field_error([row], due)
        return hops

    @field_validator("layers")
    @classmethod
    def _one_time_per_device(
        cls, layers: tuple[Layer, ...], info: ValidationInfo
    ) -> tuple[Layer, ...]:
        devices = info.data.get("devices")
        if devices is None:
            return layers
        for row, layer in enumerate(layers):
            for name in ("attention", "experts"):
                for field in (f"{name}_ns", f"prompt_{name}_ns"):
                    times = getattr(layer, field)
                    if times is not None and len(times) != len(devices):
                        due = f"must have one entry per device, {len(devices)}, not {len(times)}"
                        raise field_error([row, field], due)
                times = getattr(layer, f"{name}_ns")
                if times is not None and all(time is None for time in times):
                    reason = "must have a time on one device at least"
                    raise field_error([row, f"{name}_ns"], reason)
            if layer.attention_ns is None and (not row or layer.experts_ns is None):
                reason = "must have times: only further tensors of experts have no attention"
                raise field_error([row, "attention_ns"], reason)
            if layer.attention_ns is None and layer.attention_bytes:
                raise field_error([row, "attention_bytes"], "must be 0 where there is no attention")
        return layers

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        fields = super()._arranged(given)
        for number, device in enumerate(cast(list[dict[str, object]], fields["devices"])):
            device["name"] = f"device{number}"
        return fields

    def without_rule(self, rule: str) -> Self | None:
        """Return it without buffers (SP-C3), or without an order (SP-C4)."""
        if rule == "SP-C3":
            free = tuple(device.model_copy(update={"buffer": 0}) for device in self.devices)
            return self.model_copy(update={"devices": free})
        return self.model_copy(update={"order": None}) if rule == "SP-C4" else None

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        capacity: ArrayLike,
        attention_ns: ArrayLike,
        attention_bytes: ArrayLike,
        source: int,
        hop_ns: ArrayLike,
        buffer: ArrayLike | None = None,
        experts_ns: ArrayLike | None = None,
        experts_bytes: ArrayLike | None = None,
        prompt_attention_ns: ArrayLike | None = None,
        prompt_experts_ns: ArrayLike | None = None,
        order: ArrayLike | None = None,
        prompt_hop_ns: ArrayLike | None = None,
        decode_weight: int = 1,
        prompt_weight: int = 0,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers and devices there are, in words."""
        return f"{len(self.layers)} layers, {len(self.devices)} devices"

    @cached_property
    def by_tensor(self) -> bool:
        """Whether experts are given by tensor: layers without attention belong to those before."""
        return any(layer.attention_ns is None for layer in self.layers)

    @property
    def kinds(self) -> tuple[tuple[int, str, Hops | None], ...]:
        """Weight, beginning of the fields' names, and hops, of decoding and of a prompt."""
        prompt = self.prompt_weight, "prompt_", self.prompt_hop_ns
        return (self.decode_weight, "", self.hop_ns), prompt

    @cached_property
    def largest(self) -> int:
        """No solution's objective is above this."""
        total = 0
        for weight, prompt, hops in self.kinds:
            hop = max(map(max, hops)) if hops else 0
            parts = (
                max((time or 0 for time in getattr(layer, f"{prompt}{part}_ns") or ()), default=0)
                for layer in self.layers
                for part in ("attention", "experts")
            )
            total += weight * (sum(parts) + (2 * len(self.layers) + 1) * hop)
        return total


Home = Annotated[int, Field(strict=True, ge=-1, le=2**31)]
"""A device; -1 for the part that a layer has not, and what has no home at all."""


class Solution(SolutionEnvelope):
    """One device, or -1, per layer for attention and for routed experts."""

    problem: Literal["split"] = "split"
    attention: tuple[Home, ...]
    experts: tuple[Home, ...]
