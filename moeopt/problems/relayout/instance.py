"""The next layer's predicted loads on today's layout, and how much may migrate before it runs."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    Flag,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    absent,
    distinct,
    field_error,
)
from moeopt.core.json_files import JsonObject
from moeopt.problems.host_memory import HostMemory
from moeopt.problems.tri_domain.expert import STRIPED as STRIPED

COSTS = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)
"""The costs of an expert's paths, as its fields are called."""

TWO_PARTS = {
    "gpu_calc_ns": ("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns"),
    "pcie_striped_ns": ("gpu_miss_striped_ns",),
    "pcie_localized_ns": ("gpu_miss_localized_ns",),
}
"""The fields of an expert whose run on the GPU has two parts that may overlap (schema 2).

Each with the paths that it is at most as long as.
"""


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
    gpu_calc_ns, pcie_striped_ns, pcie_localized_ns
        Schema 2: how long a run on the GPU keeps the GPU itself busy, and, unless the expert is in
        the GPU's memory, how long its transfer from all DIMMs or from one keeps PCIe busy. One
        expert's transfer may then overlap another's computation. All three or none; none is longer
        than the paths it is a part of. Absent: the path is one piece of the GPU's time.
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
    gpu_calc_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_striped_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None
    pcie_localized_ns: Annotated[Nanoseconds | None, Field(exclude_if=absent)] = None

    @model_validator(mode="after")
    def _parts_of_paths(self) -> Self:
        given = [name for name in TWO_PARTS if getattr(self, name) is not None]
        for name in TWO_PARTS:
            if given and name not in given:
                raise field_error([name], f"is missing: {given[0]} is given")
        for part, paths in TWO_PARTS.items():
            for path in paths if given else ():
                if getattr(self, part) > getattr(self, path):
                    reason = f"must be at most {path} = {getattr(self, path)}"
                    raise field_error([part], f"{reason}, not {getattr(self, part)}")
        return self

    def gpu_work_ns(self, *, in_memory: bool, striped: bool) -> int:
        """Return how long a run on the GPU keeps the GPU busy.

        Parameters
        ----------
        in_memory, striped
            Whether the GPU's memory holds the expert then, and if not, whether its host copy is
            striped.
        """
        if self.gpu_calc_ns is not None:
            return self.gpu_calc_ns
        if in_memory:
            return self.gpu_hit_ns
        return self.gpu_miss_striped_ns if striped else self.gpu_miss_localized_ns

    def pcie_ns(self, *, striped: bool) -> int:
        """Return how long a run on the GPU keeps PCIe busy where its memory lacks the expert."""
        return (self.pcie_striped_ns if striped else self.pcie_localized_ns) or 0


@dataclass(frozen=True)
class Columns:
    """The experts as arrays of shape (experts,); `dimm` is `STRIPED` where the expert is.

    What a run on the GPU keeps busy, GPU or PCIe, is as `Expert.gpu_work_ns` and `Expert.pcie_ns`
    have it. `paths_ns`, of shape (3, experts), has the complete paths to the GPU: of an expert in
    its memory, of a striped one, of a localized one.
    """

    expert: NDArray[np.int64]
    tokens: NDArray[np.int64]
    resident: NDArray[np.bool_]
    dimm: NDArray[np.int64]
    gpu_hit_ns: NDArray[np.int64]
    gpu_miss_striped_ns: NDArray[np.int64]
    gpu_miss_localized_ns: NDArray[np.int64]
    paths_ns: NDArray[np.int64]
    pcie_striped_ns: NDArray[np.int64]
    pcie_localized_ns: NDArray[np.int64]
    cpu_striped_ns: NDArray[np.int64]
    cpu_localized_ns: NDArray[np.int64]
    ndp_ns: NDArray[np.int64]


def costs_ns(expert: Expert) -> tuple[int, ...]:
    """Return how long every path that the expert may ever take keeps a host or NDP unit busy."""
    costs = [expert.gpu_work_ns(in_memory=True, striped=True)]
    costs += [expert.cpu_striped_ns, expert.cpu_localized_ns, expert.ndp_ns]
    for striped in () if expert.resident else (True, False):
        costs += [expert.gpu_work_ns(in_memory=False, striped=striped)]
        costs += [expert.pcie_ns(striped=striped)]
    return tuple(costs)


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

    Notes
    -----
    `from_arrays` takes the fields of `Expert` as arrays of shape (experts,). By default the experts
    are numbered 0, 1, ... and none is resident; `dimm` is -1 where an expert is striped.

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

    TABLES: ClassVar = (Table("experts", "tokens", "(experts,)", "expert", {"resident": False}),)

    SUMS: ClassVar = (Sum("observed_tokens", "the tokens of all steps", "observed"),)

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
        tuple[Expert, ...],
        Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True),
        AfterValidator(distinct),
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
    def _parts_of_all_or_none(self) -> Self:
        share = self.relayout_share_ns
        if share is not None and share > self.relayout_ns:
            reason = f"must be at most relayout_ns = {self.relayout_ns}, not {share}"
            raise field_error(["relayout_share_ns"], reason)
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

    @property
    def observed(self) -> int:
        """The tokens of all observed steps together."""
        return sum(map(sum, self.observed_tokens or ()))

    @property
    def two_parts(self) -> bool:
        """Whether runs on the GPU have two parts that may overlap."""
        return self.experts[0].gpu_calc_ns is not None

    @classmethod
    @by_name
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
        expert: ArrayLike | None = None,
        resident: ArrayLike | None = None,
        gpu_calc_ns: ArrayLike | None = None,
        pcie_striped_ns: ArrayLike | None = None,
        pcie_localized_ns: ArrayLike | None = None,
        channels: ArrayLike | None = None,
        dimm_share: ArrayLike | None = None,
        gpu_base_ns: int | None = None,
        relayout_share_ns: int | None = None,
        observed_tokens: ArrayLike | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

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
            paths_ns=np.array(
                [
                    [e.gpu_hit_ns, e.gpu_miss_striped_ns, e.gpu_miss_localized_ns]
                    for e in self.experts
                ],
                dtype=np.int64,
            ).T,
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
