"""Layers in order, devices with memory, and what each layer's two parts take on each device."""

from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import NOT_THERE, integers, made, optional
from moeopt.core.envelope import (
    Count,
    Data,
    InstanceEnvelope,
    Name,
    Nanoseconds,
    SolutionEnvelope,
    field_error,
)
from moeopt.core.errors import InputError

MAX_DEVICES = 64
MAX_LAYERS = 1024

LARGEST_SUM = 2**60
"""Bound on the objective of any solution, so that sums and differences stay in int64."""

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
        Time of attention on each device; None where it cannot run.
    attention_bytes
        What it needs where it lies, KV cache included.
    experts_ns
        The same of its routed experts; None for a layer without any.
    experts_bytes
        What they need; without meaning for a layer without experts.
    prompt_attention_ns, prompt_experts_ns
        The same for one ubatch of a prompt; None counts as 0.
    """

    attention_ns: Times
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
    """

    problem: Literal["split"] = "split"
    devices: Annotated[tuple[Device, ...], Field(min_length=1, max_length=MAX_DEVICES)]
    source: Count
    order: Annotated[tuple[Count, ...], Field(min_length=1, max_length=MAX_DEVICES)] | None = None
    hop_ns: Hops
    prompt_hop_ns: Hops | None = None
    decode_weight: Count = 1
    prompt_weight: Count = 0
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=MAX_LAYERS)]

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
        return layers

    @model_validator(mode="after")
    def _sums_fit(self) -> Self:
        if self.largest > LARGEST_SUM:
            raise InputError(
                "layers: the longest times of all parts and hops, with decode_weight and"
                f" prompt_weight, must sum to at most 2**60, not {self.largest}"
            )
        return self

    @classmethod
    def from_arrays(
        cls,
        *,
        attention_ns: ArrayLike,
        attention_bytes: ArrayLike,
        experts_ns: ArrayLike,
        experts_bytes: ArrayLike,
        hop_ns: ArrayLike,
        capacity: ArrayLike,
        source: int,
        **more: object,
    ) -> Self:
        """Return the instance of arrays.

        Parameters
        ----------
        attention_ns, experts_ns
            Times in ns, shape (layers, devices); -1 where a part cannot run. A layer whose experts
            can run nowhere has none.
        attention_bytes, experts_bytes
            Bytes of the parts, shape (layers,).
        hop_ns
            Times between devices in ns, shape (devices, devices).
        capacity
            Memory of the devices in bytes, shape (devices,).
        source
            The device that a token comes from.
        more
            `buffer` in bytes, shape (devices,); the fields `order`, `decode_weight`,
            `prompt_weight`, `name`, `quantum_ns`; and the prompt's times, `prompt_attention_ns`,
            `prompt_experts_ns` and `prompt_hop_ns`, of the shapes above.

        Raises
        ------
        InputError
            If an argument is not an array of integers of this shape and range; one line with the
            argument, the index and the value.

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
        sizes = integers("capacity", capacity, (None,), axes="(devices,)")
        count = len(sizes)
        buffers: object = more.pop("buffer", [0] * count)
        times: dict[str, Ints] = {}
        given = {"attention_ns": attention_ns, "experts_ns": experts_ns}
        for name in ("prompt_attention_ns", "prompt_experts_ns"):
            if (value := more.pop(name, None)) is not None:
                given[name] = value  # type: ignore[assignment]
        for name, values in given.items():
            shape = (len(times["attention_ns"]) if times else None, count)
            axes = "(layers, devices)"
            times[name] = integers(name, values, shape, axes=axes, least=NOT_THERE)
        rows = len(times["attention_ns"])
        bytes_of = {
            name: integers(name, values, (rows,), axes="(layers,)").tolist()
            for name, values in (
                ("attention_bytes", attention_bytes),
                ("experts_bytes", experts_bytes),
            )
        }
        layers = [
            {name: optional(values[row]) for name, values in times.items()}
            | {name: values[row] for name, values in bytes_of.items()}
            for row in range(rows)
        ]
        for layer, experts in zip(layers, times["experts_ns"], strict=True):
            if (experts == NOT_THERE).all():
                layer["experts_ns"] = None
        hops = {"hop_ns": hop_ns}
        if (value := more.pop("prompt_hop_ns", None)) is not None:
            hops["prompt_hop_ns"] = value  # type: ignore[assignment]
        held = integers("buffer", buffers, (count,), axes="(devices,)")  # type: ignore[arg-type]
        devices = [
            {"name": f"device{number}", "capacity": size, "buffer": buffer}
            for number, (size, buffer) in enumerate(zip(sizes.tolist(), held.tolist(), strict=True))
        ]
        square = {
            name: integers(name, values, (count, count), axes="(devices, devices)").tolist()
            for name, values in hops.items()
        }
        return made(cls, devices=devices, source=source, layers=layers, **square, **more)

    def size(self) -> str:
        """Return how many layers and devices there are, in words."""
        return f"{len(self.layers)} layers, {len(self.devices)} devices"

    @cached_property
    def largest(self) -> int:
        """No solution's objective is above this."""
        total = 0
        for weight, prompt, hops in (
            (self.decode_weight, "", self.hop_ns),
            (self.prompt_weight, "prompt_", self.prompt_hop_ns),
        ):
            hop = max(map(max, hops)) if hops else 0
            parts = (
                max((time or 0 for time in getattr(layer, f"{prompt}{part}_ns") or ()), default=0)
                for layer in self.layers
                for part in ("attention", "experts")
            )
            total += weight * (sum(parts) + (2 * len(self.layers) + 1) * hop)
        return total


Home = Annotated[int, Field(strict=True, ge=-1, le=2**31)]
"""A device; -1 for the experts of a layer that has none, and what has no home at all."""


class Solution(SolutionEnvelope):
    """One device per layer for attention, and one, or -1, for routed experts."""

    problem: Literal["split"] = "split"
    attention: tuple[Home, ...]
    experts: tuple[Home, ...]
