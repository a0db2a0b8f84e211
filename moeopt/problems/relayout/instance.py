"""The next layer's predicted loads on today's layout, and how much may migrate before it runs."""

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.problems.arrays import NOT_THERE, each, flags, integers, made, optional, rows_of
from moeopt.problems.envelope import Count, Data, Flag, InstanceEnvelope, Nanoseconds, field_error

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


class Expert(Data):
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

    @classmethod
    def from_arrays(
        cls,
        *,
        tokens: ArrayLike,
        dimm: ArrayLike,
        gpu_hit_ns: ArrayLike,
        gpu_miss_striped_ns: ArrayLike,
        gpu_miss_localized_ns: ArrayLike,
        cpu_striped_ns: ArrayLike,
        cpu_localized_ns: ArrayLike,
        ndp_ns: ArrayLike,
        dimms: int,
        hbm_free_slots: int,
        dram_striped_ns: int,
        dram_localized_ns: int,
        prefetch_ns: int,
        relayout_ns: int,
        rebalance_ns: int,
        pcie_window_ns: int,
        dimm_link_window_ns: int,
        resident: ArrayLike | None = None,
        expert: ArrayLike | None = None,
        name: str | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays with one entry per expert.

        Parameters
        ----------
        tokens
            Predicted tokens, shape (experts,); 0 for an expert that runs nowhere.
        dimm
            The DIMM that holds all of the expert, shape (experts,); -1 where it is striped over
            all DIMMs.
        gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns, cpu_striped_ns, cpu_localized_ns
            Time of each path (TriMoE Eq. 1-3), in ns, shape (experts,). All are given whatever the
            layout is now, because migrations change it.
        ndp_ns
            Time on the NDP unit of the DIMM it lies on, or would lie on (Eq. 4), in ns, shape
            (experts,).
        dimms, hbm_free_slots
            Number of DIMMs, and of experts that may be prefetched into the GPU's memory.
        dram_striped_ns, dram_localized_ns, prefetch_ns, relayout_ns, rebalance_ns
            Times of reads and migrations, in ns; see `Instance`.
        pcie_window_ns, dimm_link_window_ns
            How long each link is free for migrations, in ns.
        resident
            Whether the weights are in the GPU's memory, bool, shape (experts,). Default: none.
        expert
            The experts' numbers, shape (experts,). Default: 0, 1, ...
        name, quantum_ns
            What the instance is called, and the unit that all times are multiples of, if any.

        Raises
        ------
        InputError
            If an argument is not an array of integers of this shape and range; one line with the
            argument, the index and the value.

        Examples
        --------
        >>> from moeopt import relayout
        >>> relayout.Instance.from_arrays(
        ...     tokens=[9, 1], dimm=[0, -1], gpu_hit_ns=[5, 4], gpu_miss_striped_ns=[20, 20],
        ...     gpu_miss_localized_ns=[30, 30], cpu_striped_ns=[40, 15], cpu_localized_ns=[60, 45],
        ...     ndp_ns=[50, 35], dimms=2, hbm_free_slots=1, dram_striped_ns=10,
        ...     dram_localized_ns=20, prefetch_ns=30, relayout_ns=15, rebalance_ns=15,
        ...     pcie_window_ns=40, dimm_link_window_ns=40, name="small",
        ... )
        <relayout instance 'small': 2 experts, 2 active, 2 DIMMs, 1 free HBM slots;
        minimises makespan_ns>
        """
        used = integers("tokens", tokens, (None,), axes="(experts,)")
        size = len(used)
        costs = (
            *(gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns),
            *(cpu_striped_ns, cpu_localized_ns, ndp_ns),
        )
        held = np.zeros(size, np.bool_)
        if resident is not None:
            held = flags("resident", resident, (size,), "(experts,)")
        columns = {
            "expert": each("expert", expert, size, np.arange(size)).tolist(),
            "tokens": used.tolist(),
            "resident": held.tolist(),
            "dimm": optional(each("dimm", dimm, size, 0, least=NOT_THERE)),
            **{
                name: each(name, values, size, 0).tolist()
                for name, values in zip(COSTS, costs, strict=True)
            },
        }
        experts = rows_of(columns)
        return made(
            cls,
            name=name,
            quantum_ns=quantum_ns,
            dimms=dimms,
            hbm_free_slots=hbm_free_slots,
            dram_striped_ns=dram_striped_ns,
            dram_localized_ns=dram_localized_ns,
            prefetch_ns=prefetch_ns,
            relayout_ns=relayout_ns,
            rebalance_ns=rebalance_ns,
            pcie_window_ns=pcie_window_ns,
            dimm_link_window_ns=dimm_link_window_ns,
            experts=experts,
        )

    def size(self) -> str:
        """Return how many experts there are, and what they may lie on, in words."""
        active = sum(expert.tokens > 0 for expert in self.experts)
        experts = f"{len(self.experts)} experts, {active} active"
        return f"{experts}, {self.dimms} DIMMs, {self.hbm_free_slots} free HBM slots"

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
