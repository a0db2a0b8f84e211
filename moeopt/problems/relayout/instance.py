"""The next layer's predicted loads on today's layout, and how much may migrate before it runs."""

from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import NOT_THERE, each, flags, integers, made, optional, rows_of
from moeopt.core.envelope import Count, Data, Nanoseconds, SolutionEnvelope, field_error
from moeopt.core.host_memory import HostMemory, absent

from .expert import COSTS as COSTS
from .expert import STRIPED as STRIPED
from .expert import TWO_PARTS, Columns, costs_ns
from .expert import Expert as Expert

MAX_DIMMS = 1024
MAX_EXPERTS = 4096
MAX_STEPS = 1024

Observed = Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
"""Every expert's tokens in one step."""


class Instance(HostMemory):
    """One GPU, one CPU, `dimms` identical NDP-DIMMs, and one window per link for migrations.

    Schema 2 has the fields of `HostMemory`, those of `Expert` that split a run on the GPU,
    `relayout_share_ns` and `observed_tokens`.

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
    relayout_share_ns
        Given: every DIMM has a link of its own, which migrations that touch other DIMMs leave free
        (RE-C13 instead of RE-C7). A layout change keeps the link of the DIMM that holds, or will
        hold, the whole expert busy for `relayout_ns` and every other for this long; a move keeps
        both its DIMMs' links busy for `rebalance_ns`. Absent: all DIMMs share one link.
    observed_tokens
        Given: each expert's tokens in the steps before the one that runs, the oldest step first, of
        shape (steps, experts) in the order of `experts`. What forecasts start from; no constraint.
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
    relayout_share_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    experts: Annotated[
        tuple[Expert, ...], Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True)
    ]
    observed_tokens: Annotated[
        tuple[Observed, ...] | None,
        Field(min_length=1, max_length=MAX_STEPS, fail_fast=True, exclude_if=absent),
    ] = None

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

    @field_validator("observed_tokens")
    @classmethod
    def _observed_of_each_expert(
        cls, observed: tuple[Observed, ...] | None, info: ValidationInfo
    ) -> tuple[Observed, ...] | None:
        experts = info.data.get("experts")
        for step, tokens in enumerate(observed or ()):
            if experts is not None and len(tokens) != len(experts):
                reason = f"must have {len(experts)} entries, one per expert, not {len(tokens)}"
                raise field_error([step], reason)
        return observed

    @model_validator(mode="after")
    def _own_fields_of_schema_2(self) -> Self:
        share = self.relayout_share_ns
        if share is not None and share > self.relayout_ns:
            reason = f"must be at most relayout_ns = {self.relayout_ns}, not {share}"
            raise field_error(["relayout_share_ns"], reason)
        if self.schema_version == 1:
            reason = "is a field of schema 2: schema_version must be 2"
            for name in ("relayout_share_ns", "observed_tokens"):
                if getattr(self, name) is not None:
                    raise field_error([name], reason)
            for row, expert in enumerate(self.experts):
                if expert.gpu_calc_ns is not None:
                    raise field_error(["experts", row, "gpu_calc_ns"], reason)
        if len({expert.gpu_calc_ns is None for expert in self.experts}) > 1:
            row = [expert.gpu_calc_ns is None for expert in self.experts].index(True)
            reason = "is missing: other experts have it"
            raise field_error(["experts", row, "gpu_calc_ns"], reason)
        return self

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
        gpu_calc_ns: ArrayLike | None = None,
        pcie_striped_ns: ArrayLike | None = None,
        pcie_localized_ns: ArrayLike | None = None,
        relayout_share_ns: int | None = None,
        observed_tokens: ArrayLike | None = None,
        channels: ArrayLike | None = None,
        dimm_share: tuple[int, int] | None = None,
        gpu_base_ns: int | None = None,
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
        gpu_calc_ns, pcie_striped_ns, pcie_localized_ns
            A run on the GPU in two parts that may overlap (schema 2; see `Expert`), in ns, shape
            (experts,); all three or none.
        relayout_share_ns
            Given: each DIMM has a link of its own (schema 2; see `Instance`), in ns.
        observed_tokens
            Tokens in the steps before (schema 2; see `Instance`), shape (steps, experts).
        channels, dimm_share, gpu_base_ns
            Fields of schema 2 (see `HostMemory`): channel of each DIMM, shape (dimms,); numerator
            and denominator; in ns.
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
        parts = dict(zip(TWO_PARTS, (gpu_calc_ns, pcie_striped_ns, pcie_localized_ns), strict=True))
        columns |= {
            name: each(name, values, size, 0).tolist()
            for name, values in parts.items()
            if values is not None
        }
        newer = {
            "channels": None
            if channels is None
            else integers("channels", channels, (None,), axes="(dimms,)").tolist(),
            "dimm_share": dimm_share,
            "gpu_base_ns": gpu_base_ns,
            "relayout_share_ns": relayout_share_ns,
            "observed_tokens": None
            if observed_tokens is None
            else integers(
                "observed_tokens", observed_tokens, (None, size), axes="(steps, experts)"
            ).tolist(),
        }
        newer = {name: value for name, value in newer.items() if value is not None}
        two = newer or any(values is not None for values in parts.values())
        experts = rows_of(columns)
        return made(
            cls,
            name=name,
            **newer,
            schema_version=2 if two else 1,
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

    @property
    def two_parts(self) -> bool:
        """Whether runs on the GPU have two parts that may overlap."""
        return self.experts[0].gpu_calc_ns is not None

    def size(self) -> str:
        """Return how many experts there are, and what they may lie on, in words."""
        active = sum(expert.tokens > 0 for expert in self.experts)
        experts = f"{len(self.experts)} experts, {active} active"
        return f"{experts}, {self.dimms} DIMMs, {self.hbm_free_slots} free HBM slots"

    @cached_property
    def columns(self) -> Columns:
        """The experts as arrays."""

        def array(values: Iterable[int]) -> NDArray[np.int64]:
            return np.array(list(values), dtype=np.int64)

        def column(name: str) -> NDArray[np.int64]:
            return array(getattr(expert, name) for expert in self.experts)

        def work(in_memory: bool, striped: bool) -> NDArray[np.int64]:
            of = (e.gpu_work_ns(in_memory=in_memory, striped=striped) for e in self.experts)
            return array(of)

        simple = ("expert", "tokens", "cpu_striped_ns", "cpu_localized_ns", "ndp_ns")
        return Columns(
            **{name: column(name) for name in simple},
            gpu_hit_ns=work(True, True),
            gpu_miss_striped_ns=work(False, True),
            gpu_miss_localized_ns=work(False, False),
            pcie_striped_ns=array(e.pcie_ns(striped=True) for e in self.experts),
            pcie_localized_ns=array(e.pcie_ns(striped=False) for e in self.experts),
            dimm=array(STRIPED if e.dimm is None else e.dimm for e in self.experts),
            resident=column("resident").astype(np.bool_),
        )


def reads_ns(instance: Instance) -> tuple[int, ...]:
    """Return how long a host's read may keep a DIMM or a channel busy."""
    striped, localized = instance.dram_striped_ns, instance.dram_localized_ns
    on_dimm = (instance.striped_charge_ns(striped), localized)
    return on_dimm if instance.channels is None else (*on_dimm, striped)


def active_experts(instance: Instance) -> list[Expert]:
    """Return the experts with tokens."""
    return [expert for expert in instance.experts if expert.tokens]


def longest_ns(instance: Instance) -> int:
    """Return what no device's load exceeds: every expert's longest path or read, one by one."""
    reads = reads_ns(instance)
    longest = (max(*costs_ns(expert), *reads) for expert in active_experts(instance))
    return instance.base_ns + sum(longest)


Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""

Kind = Literal["prefetch", "localize", "stripe", "rebalance"]

KINDS: tuple[Kind, ...] = ("prefetch", "localize", "stripe", "rebalance")

MAX_MIGRATIONS = 4096


class Migration(Data):
    """One expert's migration.

    Parameters
    ----------
    expert
        The expert's number, as in the instance.
    kind
        "prefetch": into the GPU's memory, its host copy stays. "localize": from all DIMMs to one.
        "stripe": from one DIMM to all. "rebalance": from one DIMM to another.
    dimm
        The new DIMM of "localize" and "rebalance"; None for the others.
    """

    expert: Count
    kind: Kind
    dimm: Count | None = None


class Solution(SolutionEnvelope):
    """The migrations, in any order, and one domain per expert in the order of the instance.

    None stands for an expert that runs nowhere: one without tokens. The checker reports any other.
    """

    problem: Literal["relayout"] = "relayout"
    migrations: Annotated[tuple[Migration, ...], Field(max_length=MAX_MIGRATIONS)]
    assignment: tuple[Domain | None, ...]
