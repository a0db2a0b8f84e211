"""One MoE layer of one decode step: active experts, where they lie, what each path costs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.problems.envelope import Count, Flag, Frozen, InstanceEnvelope, Nanoseconds, field_error

MAX_DIMMS = 1024
MAX_EXPERTS = 4096
STRIPED = -1
"""Stands for ``dimm: null`` in `Columns`."""


class Expert(Frozen):
    """One active expert: its tokens, its layout and the complete cost of each path it may take.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    tokens
        Tokens routed to it in this step, at least 1.
    resident
        Whether its weights are in the GPU's memory already.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs.
    gpu_ns, cpu_ns, ndp_ns
        Time it occupies the GPU (Eq. 1 or 2), the CPU (Eq. 3) or its DIMM's NDP unit (Eq. 4).
        `ndp_ns` is given exactly where `dimm` is.
    gpu_dram_ns, cpu_dram_ns
        Time each DIMM it lies on is busy if the GPU or the CPU reads it; for a resident expert
        `gpu_dram_ns` is 0.
    """

    expert: Count
    tokens: Annotated[Count, Field(ge=1)]
    resident: Flag
    dimm: Count | None
    gpu_ns: Nanoseconds
    cpu_ns: Nanoseconds
    ndp_ns: Nanoseconds | None
    gpu_dram_ns: Nanoseconds
    cpu_dram_ns: Nanoseconds

    @field_validator("ndp_ns")
    @classmethod
    def _ndp_exactly_where_localized(cls, value: int | None, info: ValidationInfo) -> int | None:
        if "dimm" in info.data and (value is None) != (info.data["dimm"] is None):
            if value is None:
                raise field_error([], "must be an integer because dimm is not null")
            raise field_error([], f"must be null because dimm is null (striped), not {value}")
        return value

    @field_validator("gpu_dram_ns")
    @classmethod
    def _no_host_read_if_resident(cls, value: int, info: ValidationInfo) -> int:
        if info.data.get("resident") and value != 0:
            raise field_error([], f"must be 0 because resident is true, not {value}")
        return value


def costs_ns(expert: Expert) -> tuple[int, ...]:
    """Return every duration of an expert; 0 for the NDP cost of a striped one."""
    ndp_ns = expert.ndp_ns or 0
    return (expert.gpu_ns, expert.cpu_ns, ndp_ns, expert.gpu_dram_ns, expert.cpu_dram_ns)


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,), for vectorised algorithms.

    `dimm` is `STRIPED` and `ndp_ns` is 0 where the expert is striped.
    """

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_ns: NDArray[np.int64]
    cpu_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]
    gpu_dram_ns: NDArray[np.int64]
    cpu_dram_ns: NDArray[np.int64]


class Instance(InstanceEnvelope):
    """One GPU, one CPU, `dimms` identical NDP-DIMMs, and the active experts of one layer."""

    problem: Literal["tri_domain"] = "tri_domain"
    dimms: Annotated[Count, Field(ge=1, le=MAX_DIMMS)]
    experts: Annotated[
        tuple[Expert, ...], Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True)
    ]

    @field_validator("experts")
    @classmethod
    def _dimms_exist(cls, experts: tuple[Expert, ...], info: ValidationInfo) -> tuple[Expert, ...]:
        dimms = info.data.get("dimms")
        for row, expert in enumerate(experts):
            if dimms is not None and expert.dimm is not None and expert.dimm >= dimms:
                reason = f"must be below dimms = {dimms}, not {expert.dimm}"
                raise field_error([row, "dimm"], reason)
        return experts

    @field_validator("experts")
    @classmethod
    def _experts_differ(cls, experts: tuple[Expert, ...]) -> tuple[Expert, ...]:
        first: dict[int, int] = {}
        for row, expert in enumerate(experts):
            if expert.expert in first:
                reason = f"{expert.expert} stands already in experts[{first[expert.expert]}]"
                raise field_error([row, "expert"], reason)
            first[expert.expert] = row
        return experts

    @cached_property
    def columns(self) -> Columns:
        """The experts as arrays."""

        def column(name: str, null: int = 0) -> NDArray[np.int64]:
            values = (getattr(expert, name) for expert in self.experts)
            return np.array([null if v is None else v for v in values], dtype=np.int64)

        names = ("expert", "tokens", "gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns")
        return Columns(
            **{name: column(name) for name in names},
            dimm=column("dimm", STRIPED),
            resident=column("resident").astype(np.bool_),
        )
