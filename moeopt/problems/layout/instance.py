"""The experts of one MoE layer, and the trace windows that one layout of theirs must serve."""

from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.problems.arrays import integers, made, rows_of
from moeopt.problems.envelope import Count, Data, InstanceEnvelope, Nanoseconds, field_error

from .paths import PathTimes

MAX_DIMMS = 1024
MAX_EXPERTS = 4096
MAX_SCENARIOS = 256
MAX_WEIGHT = 2**16
"""So that a weighted sum of makespans stays within what solvers can count."""

Costs = Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]

COSTS = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)
"""The fields of a scenario with the costs of an expert's paths, in the order of `paths.Path`."""


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
    """

    weight: Annotated[Count, Field(ge=1, le=MAX_WEIGHT)]
    tokens: Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
    gpu_hit_ns: Costs
    gpu_miss_striped_ns: Costs
    gpu_miss_localized_ns: Costs
    cpu_striped_ns: Costs
    cpu_localized_ns: Costs
    ndp_ns: Costs


class Instance(InstanceEnvelope):
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
    """

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

    @field_validator("scenarios")
    @classmethod
    def _one_entry_per_expert(
        cls, scenarios: tuple[Scenario, ...], info: ValidationInfo
    ) -> tuple[Scenario, ...]:
        experts = info.data.get("experts")
        for row, scenario in enumerate(scenarios):
            for name in ("tokens", *COSTS):
                length = len(getattr(scenario, name))
                if experts is not None and length != experts:
                    reason = f"must have {experts} entries, one per expert, not {length}"
                    raise field_error([row, name], reason)
        return scenarios

    @model_validator(mode="after")
    def _some_expert_is_active(self) -> "Instance":
        if not any(any(scenario.tokens) for scenario in self.scenarios):
            raise field_error(["scenarios"], "must have tokens for at least one expert")
        return self

    @classmethod
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
        dimm_slots: int | None = None,
        weight: ArrayLike | None = None,
        name: str | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays with one row per trace window and one column per expert.

        Parameters
        ----------
        tokens
            Tokens of each expert in each window, shape (windows, experts).
        gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns, cpu_striped_ns, cpu_localized_ns
            Time of each path (TriMoE Eq. 1-3), in ns, shape (windows, experts); meaningless
            without tokens.
        ndp_ns
            Time on an NDP unit (Eq. 4), in ns, shape (windows, experts).
        dimms, hbm_slots
            Number of DIMMs, and of experts that the GPU's memory holds.
        dram_striped_ns, dram_localized_ns
            How long a host's read keeps every DIMM, or the expert's own, busy (Eq. 6), in ns.
        dimm_slots
            How many localized experts a DIMM may hold; None: any number.
        weight
            How often each window counts, at least 1, shape (windows,). Default: once.
        name, quantum_ns
            What the instance is called, and the unit that all times are multiples of, if any.

        Raises
        ------
        InputError
            If an argument is not an array of integers of this shape and range; one line with the
            argument, the index and the value.

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
        used = integers("tokens", tokens, (None, None), axes="(windows, experts)")
        costs = (
            *(gpu_hit_ns, gpu_miss_striped_ns, gpu_miss_localized_ns),
            *(cpu_striped_ns, cpu_localized_ns, ndp_ns),
        )
        windows, experts = used.shape
        counts = np.ones(windows, np.int64)
        if weight is not None:
            counts = integers("weight", weight, (windows,), axes="(windows,)", least=1)
        columns = {"weight": counts.tolist(), "tokens": used.tolist()}
        for field, values in zip(COSTS, costs, strict=True):
            columns[field] = integers(field, values, used.shape, axes="(windows, experts)").tolist()
        return made(
            cls,
            name=name,
            quantum_ns=quantum_ns,
            dimms=dimms,
            hbm_slots=hbm_slots,
            dimm_slots=dimm_slots,
            experts=experts,
            dram_striped_ns=dram_striped_ns,
            dram_localized_ns=dram_localized_ns,
            scenarios=rows_of(columns),
        )

    def size(self) -> str:
        """Return how many experts, windows, DIMMs and HBM slots there are, in words."""
        windows = f"{len(self.scenarios)} windows, {self.dimms} DIMMs"
        return f"{self.experts} experts, {windows}, {self.hbm_slots} HBM slots"

    @cached_property
    def path_times(self) -> PathTimes:
        """The scenarios as arrays, in the order of `paths.Path`."""
        scenarios = self.scenarios
        return PathTimes.of(
            [scenario.weight for scenario in scenarios],
            [scenario.tokens for scenario in scenarios],
            [[getattr(scenario, name) for scenario in scenarios] for name in COSTS],
            (self.dram_striped_ns, self.dram_localized_ns),
        )
