"""The experts of one MoE layer, and the trace windows that one layout of theirs must serve.

Ties between layouts: where experts lie that have no tokens in any scenario.

Such an expert changes no makespan, so that every layout of it is as good here. An expert that is
idle in one window has few tokens in the next ones: there it is cheap on NDP, while a striped read
would keep all DIMMs busy. So the exact methods localize it.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, ClassVar, Literal, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    Flag,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    absent,
    field_error,
)
from moeopt.core.json_files import JsonObject
from moeopt.problems.host_memory import HostMemory

from .paths import GPU_MISSES, Path, PathTimes

MAX_DIMMS = 1024
MAX_EXPERTS = 4096
MAX_SCENARIOS = 256
MAX_WEIGHT = 2**16
"""Most times that a window counts."""

Costs = Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]

OptionalCosts = Annotated[
    tuple[Nanoseconds, ...] | None,
    Field(max_length=MAX_EXPERTS, fail_fast=True, exclude_if=absent),
]

COSTS = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)
"""The fields of a scenario with the costs of an expert's paths, in the order of `paths.Path`."""

TWO_PARTS = ("gpu_calc_ns", "pcie_striped_ns", "pcie_localized_ns")
"""The fields of schema 2 that divide a miss into the GPU's work and PCIe's."""

WITHIN = (
    ("gpu_calc_ns", "gpu_miss_striped_ns"),
    ("gpu_calc_ns", "gpu_miss_localized_ns"),
    ("pcie_striped_ns", "gpu_miss_striped_ns"),
    ("pcie_localized_ns", "gpu_miss_localized_ns"),
)
"""Neither part of a miss takes longer than the miss: Eq. 2 is the maximum of both, or their sum."""


class Scenario(Data):
    """One trace window: every expert's tokens, and what each path would cost it.

    All lists have one entry per expert; the costs of an expert without tokens mean nothing.

    Parameters
    ----------
    weight
        How often the window counts in the objective.
    tokens
        Tokens routed to each expert; 0 leaves it out of this scenario.
    gpu_hit_ns
        GPU time of an expert resident in its memory (Eq. 1).
    gpu_miss_striped_ns, gpu_miss_localized_ns
        GPU time of one that must be read from all DIMMs, or from its own (Eq. 2).
    cpu_striped_ns, cpu_localized_ns
        CPU time, likewise (Eq. 3).
    ndp_ns
        Time on the NDP unit of its own DIMM (Eq. 4).
    gpu_calc_ns
        Schema 2: how long a miss keeps the GPU busy in place of the whole `gpu_miss_striped_ns` or
        `gpu_miss_localized_ns`, if reading and computing of different experts overlap. Given
        together with the next two, in all scenarios or in none.
    pcie_striped_ns, pcie_localized_ns
        Schema 2: how long reading the expert from all DIMMs, or from its own, keeps PCIe busy.
    """

    weight: Annotated[Count, Field(ge=1, le=MAX_WEIGHT)]
    tokens: Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
    gpu_hit_ns: Costs
    gpu_miss_striped_ns: Costs
    gpu_miss_localized_ns: Costs
    cpu_striped_ns: Costs
    cpu_localized_ns: Costs
    ndp_ns: Costs
    gpu_calc_ns: OptionalCosts = None
    pcie_striped_ns: OptionalCosts = None
    pcie_localized_ns: OptionalCosts = None


class Copies(Data):
    """Schema 2: the permission to keep several copies of an expert, and the memory that bounds it.

    Parameters
    ----------
    max_per_expert
        How many copies of an expert there may be: one striped over all DIMMs, and one on any DIMM.
    expert_bytes
        Bytes of one expert's weights.
    dimm_bytes
        Bytes of one DIMM for this layer: of `reserved_bytes`, of what is localized there, and of
        the shares of striped experts.
    reserved_bytes
        Those of them that hold something else, such as the KV cache.
    """

    max_per_expert: Annotated[Count, Field(ge=1, le=MAX_DIMMS + 1)]
    expert_bytes: Annotated[Count, Field(ge=1)]
    dimm_bytes: Count
    reserved_bytes: Count = 0

    @property
    def room_bytes(self) -> int:
        """Bytes of one DIMM for copies of experts; negative if the reserved ones do not fit."""
        return self.dimm_bytes - self.reserved_bytes

    def share_bytes(self, dimms: int) -> int:
        """Return how many bytes of each DIMM a striped expert takes, rounded up."""
        return -(-self.expert_bytes // dimms)


class Instance(HostMemory):
    """One GPU with room for `hbm_slots` experts, one CPU, `dimms` identical NDP-DIMMs.

    Parameters
    ----------
    dimm_slots
        How many localized experts one DIMM may hold, or None for any number. Shares of striped
        experts are not counted.
    experts
        Number of experts of the layer.
    dram_striped_ns
        How long a host's read of a striped expert keeps every DIMM busy (Eq. 6).
    dram_localized_ns
        How long a host's read of a localized expert keeps its DIMM busy.
    forecast_tokens
        Schema 2: what an offline trace said of each expert's tokens. No constraint: rules that
        decide the layout before the loads are known go by it, exact methods ignore it.
    copies
        Schema 2: permission to keep several copies of an expert, within a memory. Absent: each
        expert lies in one place, and memory is no limit.

    Notes
    -----
    The other fields of schema 2 stand in `moeopt.problems.host_memory`.

    `from_arrays` takes the fields of `Scenario` as arrays of shape (windows, experts), but
    `weight`, 1 by default, of shape (windows,). Costs are meaningless without tokens.

    Examples
    --------
    >>> from moeopt import layout
    >>> layout.Instance.from_arrays(
    ...     tokens=[[9, 1, 2]], gpu_hit_ns=[[5, 4, 4]], gpu_miss_striped_ns=[[20, 20, 20]],
    ...     gpu_miss_localized_ns=[[30, 30, 30]], cpu_striped_ns=[[40, 15, 18]],
    ...     cpu_localized_ns=[[60, 45, 50]], ndp_ns=[[50, 35, 38]], dimms=2, hbm_slots=1,
    ...     dram_striped_ns=10, dram_localized_ns=20, name="small",
    ... )
    <layout instance 'small': 3 experts, 1 windows, 2 DIMMs, 1 HBM slots;
    minimises weighted_makespan_ns>
    """

    TABLES: ClassVar = (Table("scenarios", "tokens", "(windows, experts)", None, {"weight": 1}),)
    SUMS: ClassVar = (
        Sum("scenarios", "each window's longest paths, times weight, and reads", "largest"),
    )

    problem: Literal["layout"] = "layout"
    dimms: Annotated[Count, Field(ge=1, le=MAX_DIMMS)]
    hbm_slots: Count
    dimm_slots: Count | None
    experts: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    dram_striped_ns: Nanoseconds
    dram_localized_ns: Nanoseconds
    scenarios: Annotated[
        tuple[Scenario, ...], Field(min_length=1, max_length=MAX_SCENARIOS, fail_fast=True)
    ]
    forecast_tokens: Annotated[
        tuple[Count, ...] | None,
        Field(max_length=MAX_EXPERTS, fail_fast=True, exclude_if=absent),
    ] = None
    copies: Annotated[Copies | None, Field(exclude_if=absent)] = None

    @field_validator("scenarios")
    @classmethod
    def _one_entry_per_expert(
        cls, scenarios: tuple[Scenario, ...], info: ValidationInfo
    ) -> tuple[Scenario, ...]:
        experts = info.data.get("experts")
        for row, scenario in enumerate(scenarios):
            for name in ("tokens", *COSTS, *TWO_PARTS):
                values = getattr(scenario, name)
                if experts is not None and values is not None and len(values) != experts:
                    reason = f"must have {experts} entries, one per expert, not {len(values)}"
                    raise field_error([row, name], reason)
        return scenarios

    @field_validator("scenarios")
    @classmethod
    def _two_parts_everywhere_or_nowhere(cls, scenarios: tuple[Scenario, ...]) -> object:
        given = any(getattr(s, name) is not None for s in scenarios for name in TWO_PARTS)
        for row, scenario in enumerate(scenarios if given else ()):
            for name in TWO_PARTS:
                if getattr(scenario, name) is None:
                    reason = f"is missing; {', '.join(TWO_PARTS)} come together, in all scenarios"
                    raise field_error([row, name], reason)
            for part, whole in WITHIN:
                rows = zip(
                    scenario.tokens, getattr(scenario, part), getattr(scenario, whole), strict=False
                )
                for expert, (tokens, short, long) in enumerate(rows):
                    if tokens and short > long:
                        reason = f"must be at most {whole} = {long}, not {short}"
                        raise field_error([row, part, expert], reason)
        return scenarios

    @field_validator("forecast_tokens")
    @classmethod
    def _one_forecast_per_expert(
        cls, forecast: tuple[int, ...] | None, info: ValidationInfo
    ) -> tuple[int, ...] | None:
        experts = info.data.get("experts")
        if forecast is not None and experts is not None and len(forecast) != experts:
            reason = f"must have {experts} entries, one per expert, not {len(forecast)}"
            raise field_error([], reason)
        return forecast

    @model_validator(mode="after")
    def _some_expert_is_active(self) -> Self:
        if not any(any(scenario.tokens) for scenario in self.scenarios):
            raise field_error(["scenarios"], "must have tokens for at least one expert")
        return self

    @model_validator(mode="after")
    def _all_striped_fits(self) -> Self:
        if self.copies is not None:
            need = self.experts * self.copies.share_bytes(self.dimms)
            if need > self.copies.room_bytes:
                reason = f"must be at least {need + self.copies.reserved_bytes}: one copy of each"
                raise field_error(["copies", "dimm_bytes"], f"{reason} expert has to fit")
        return self

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        fields = super()._arranged(given)
        rows = cast(list[dict[str, list[int]]], fields["scenarios"])
        experts = len(rows[0]["tokens"]) if rows else 0
        return {"dimm_slots": None} | fields | {"experts": experts}

    @property
    def in_two_parts(self) -> bool:
        """Whether a miss's GPU work and PCIe time are given apart (schema 2)."""
        return self.scenarios[0].gpu_calc_ns is not None

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        tokens: ArrayLike,
        gpu_hit_ns: ArrayLike,
        gpu_miss_striped_ns: ArrayLike,
        gpu_miss_localized_ns: ArrayLike,
        cpu_striped_ns: ArrayLike,
        cpu_localized_ns: ArrayLike,
        ndp_ns: ArrayLike,
        dimms: int,
        hbm_slots: int,
        dram_striped_ns: int,
        dram_localized_ns: int,
        weight: ArrayLike | None = None,
        gpu_calc_ns: ArrayLike | None = None,
        pcie_striped_ns: ArrayLike | None = None,
        pcie_localized_ns: ArrayLike | None = None,
        channels: ArrayLike | None = None,
        dimm_share: ArrayLike | None = None,
        gpu_base_ns: int | None = None,
        dimm_slots: int | None = None,
        forecast_tokens: ArrayLike | None = None,
        copies: Copies | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many experts, windows, DIMMs and HBM slots there are, in words."""
        windows = f"{len(self.scenarios)} windows, {self.dimms} DIMMs"
        return f"{self.experts} experts, {windows}, {self.hbm_slots} HBM slots"

    @property
    def largest(self) -> int:
        """No solution's objective is above this."""
        longest = map(self.longest_ns, range(len(self.scenarios)))
        return sum(
            scenario.weight * ns for scenario, ns in zip(self.scenarios, longest, strict=True)
        )

    def longest_ns(self, number: int) -> int:
        """Return a sum over a scenario that no device's load exceeds: each expert's longest."""
        times = self.path_times
        of_experts = np.maximum(times.cost[:, number], times.pcie[:, number]).max(axis=0)
        reads = max(self.dram_striped_ns, self.dram_localized_ns)
        return times.base + int(np.maximum(of_experts, reads)[times.active[number]].sum())

    @cached_property
    def path_times(self) -> PathTimes:
        """The scenarios as arrays, in the order of `paths.Path`."""
        tokens = np.array([scenario.tokens for scenario in self.scenarios], dtype=np.int64)

        def times(names: Sequence[str]) -> NDArray[np.int64]:
            rows = [[getattr(scenario, name) for scenario in self.scenarios] for name in names]
            return np.where(tokens > 0, np.array(rows, dtype=np.int64), 0)

        alone = times(COSTS)
        cost, pcie = alone.copy(), np.zeros_like(alone)
        if self.in_two_parts:
            calc, *copies = times(TWO_PARTS)
            cost[GPU_MISSES], pcie[GPU_MISSES] = calc, copies
        striped, local = self.dram_striped_ns, self.dram_localized_ns
        charge = self.striped_charge_ns(striped)
        return PathTimes(
            weight=np.array([scenario.weight for scenario in self.scenarios], dtype=np.int64),
            tokens=tokens,
            cost=cost,
            pcie=pcie,
            alone=alone,
            read=np.array([0, charge, local, charge, local, 0], dtype=np.int64),
            full_read=np.array([0, striped, local, striped, local, 0], dtype=np.int64),
            channel=np.unique(self.channels or (), return_inverse=True)[1].astype(np.int64),
            base=self.base_ns,
        )


Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""


class Solution(SolutionEnvelope):
    """One layout entry per expert and one assignment row per scenario, in the instance's order.

    Parameters
    ----------
    resident
        Whether the expert is kept in the GPU's memory. A resident expert keeps its host copy.
    dimm
        The DIMM that holds all of it (localized), or None if it is striped over all DIMMs. An
        expert without tokens in any scenario may lie anywhere; it matters in later windows.
    assignment
        Per scenario, the domain of each expert; None for an expert without tokens there.
    copies
        Schema 2: the DIMMs that hold a further, localized copy of each expert. The first copy is
        that of `dimm`, and a striped one is always the first. Absent: there are none.
    source
        Schema 2: per scenario, the DIMM of the copy that each expert is run from; None for the
        first copy, and where nothing is read. Absent: all run from their first copies.
    """

    problem: Literal["layout"] = "layout"
    resident: tuple[Flag, ...]
    dimm: tuple[Count | None, ...]
    assignment: tuple[tuple[Domain | None, ...], ...]
    copies: Annotated[tuple[tuple[Count, ...], ...] | None, Field(exclude_if=absent)] = None
    source: Annotated[tuple[tuple[Count | None, ...], ...] | None, Field(exclude_if=absent)] = None

    def sources(self, number: int) -> tuple[int | None, ...]:
        """Return the row of `source` for a scenario, empty if there is none."""
        return self.source[number] if self.source and number < len(self.source) else ()

    def run_from(self, number: int, row: int) -> int | None:
        """Return the DIMM of the copy that an expert is run from, None for the striped one."""
        sources = self.sources(number)
        return self.dimm[row] if not sources or sources[row] is None else sources[row]


def with_idle_localized(instance: Instance, solution: Solution) -> Solution:
    """Return a solution in which idle experts are localized as far as there are slots (LA-C4).

    Schedules and objective stay as they are. Each idle expert, by number, goes to the DIMM whose
    experts have the least NDP time in all scenarios together, and counts there as the shortest.
    Residents stay as they are, and so does everything where several copies are permitted: there a
    place takes bytes from copies (LA-C11).
    """
    times = instance.path_times
    idle = np.flatnonzero(~times.active.any(axis=0)).tolist()
    if not idle or instance.copies is not None or not times.active.any():
        return solution
    work = times.weight.astype(np.float64) @ times.cost[Path.NDP]
    shortest = max(1.0, float(np.delete(work, idle).min()))
    dimm, busy = list(solution.dimm), np.zeros(instance.dimms)
    slots = len(dimm) if instance.dimm_slots is None else instance.dimm_slots
    free = np.full(instance.dimms, slots, dtype=np.int64)
    for row, at in enumerate(dimm):
        if at is not None:
            busy[at] += work[row]
            free[at] -= 1
    for row in idle:
        if dimm[row] is None and not solution.resident[row]:
            least = int(np.where(free > 0, busy, np.inf).argmin())
            if free[least] <= 0:
                break
            dimm[row] = least
            busy[least] += shortest
            free[least] -= 1
    return solution.model_copy(update={"dimm": tuple(dimm)})
