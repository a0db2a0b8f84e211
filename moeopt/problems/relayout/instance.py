"""The next layer's predicted loads on today's layout, and how much may migrate before it runs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.problems.envelope import Count, Flag, Frozen, InstanceEnvelope, Nanoseconds, field_error

MAX_DIMMS = 1024
MAX_EXPERTS = 4096
STRIPED = -1
"""Stands for ``dimm: null`` in `Columns`."""

COSTS = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)
"""The costs of an expert's paths, as its fields are called."""


class Expert(Frozen):
    """One expert: its predicted tokens, where it lies now and what each path would cost.

    Every cost is given whatever the layout is, because a migration can change the layout.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    tokens
        Predicted tokens. An expert without any runs nowhere and must not migrate.
    resident
        Whether its weights are in the GPU's memory already.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs.
    gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns
        GPU time if resident (Eq. 1), or read from all DIMMs or from one (Eq. 2).
    cpu_striped_ns, cpu_localized_ns
        CPU time (Eq. 3).
    ndp_ns
        Time on the NDP unit of the DIMM it lies on (Eq. 4).
    """

    expert: Count
    tokens: Count
    resident: Flag
    dimm: Count | None
    gpu_hit_ns: Nanoseconds
    gpu_miss_striped_ns: Nanoseconds
    gpu_miss_localized_ns: Nanoseconds
    cpu_striped_ns: Nanoseconds
    cpu_localized_ns: Nanoseconds
    ndp_ns: Nanoseconds


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,); `dimm` is `STRIPED` where the expert is."""

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_hit_ns: NDArray[np.int64]
    gpu_miss_striped_ns: NDArray[np.int64]
    gpu_miss_localized_ns: NDArray[np.int64]
    cpu_striped_ns: NDArray[np.int64]
    cpu_localized_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]


class Instance(InstanceEnvelope):
    """One GPU, one CPU, `dimms` identical NDP-DIMMs, and one window per link for migrations.

    Parameters
    ----------
    hbm_free_slots
        How many experts may be prefetched into the GPU's memory.
    dram_striped_ns, dram_localized_ns
        How long a host's read of a striped expert keeps every DIMM busy, of a localized one
        its own.
    prefetch_ns
        PCIe time of one prefetch.
    relayout_ns
        DIMM-Link time of making a striped expert localized, or a localized one striped.
    rebalance_ns
        DIMM-Link time of moving a localized expert to another DIMM.
    pcie_window_ns, dimm_link_window_ns
        How long each link is free for migrations before the layer runs.
    """

    problem: Literal["relayout"] = "relayout"
    dimms: Annotated[Count, Field(ge=1, le=MAX_DIMMS)]
    hbm_free_slots: Count
    dram_striped_ns: Nanoseconds
    dram_localized_ns: Nanoseconds
    prefetch_ns: Nanoseconds
    relayout_ns: Nanoseconds
    rebalance_ns: Nanoseconds
    pcie_window_ns: Nanoseconds
    dimm_link_window_ns: Nanoseconds
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

    @model_validator(mode="after")
    def _some_expert_is_active(self) -> "Instance":
        if not any(expert.tokens for expert in self.experts):
            raise field_error(["experts"], "must have tokens for at least one expert")
        return self

    @cached_property
    def columns(self) -> Columns:
        """The experts as arrays."""

        def column(name: str, null: int = 0) -> NDArray[np.int64]:
            values = (getattr(expert, name) for expert in self.experts)
            return np.array([null if v is None else v for v in values], dtype=np.int64)

        return Columns(
            **{name: column(name) for name in ("expert", "tokens", *COSTS)},
            dimm=column("dimm", STRIPED),
            resident=column("resident").astype(np.bool_),
        )


def costs_ns(expert: Expert) -> tuple[int, ...]:
    """Return the costs of every path that the expert may ever take."""
    misses = (expert.gpu_miss_striped_ns, expert.gpu_miss_localized_ns)
    hosts = (expert.gpu_hit_ns, expert.cpu_striped_ns, expert.cpu_localized_ns)
    return (*hosts, expert.ndp_ns) if expert.resident else (*hosts, *misses, expert.ndp_ns)


def active_experts(instance: Instance) -> list[Expert]:
    """Return the experts with tokens."""
    return [expert for expert in instance.experts if expert.tokens]


def longest_ns(instance: Instance) -> int:
    """Return what no device's load exceeds: every expert's longest path or read, one by one."""
    reads = (instance.dram_striped_ns, instance.dram_localized_ns)
    return sum(max(*costs_ns(expert), *reads) for expert in active_experts(instance))
