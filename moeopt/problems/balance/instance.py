"""One MoE layer whose experts are cut over NDP units, and the cost of a slice on either side."""

from typing import Annotated, ClassVar, Literal, Self

from numpy.typing import ArrayLike
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from moeopt.core.arrays import Table, by_name
from moeopt.core.envelope import (
    Count,
    Data,
    Flag,
    InstanceEnvelope,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    distinct,
    field_error,
)
from moeopt.core.json_files import JsonObject

MAX_UNITS = 1024
MAX_SLICES_PER_UNIT = 4096
MAX_EXPERTS = 4096
MAX_SEQUENCE = 2**20


class Expert(Data):
    """One active expert: its tokens, and what one of its slices costs on either side.

    Parameters
    ----------
    expert
        The expert's number in its layer.
    tokens
        Tokens routed to it, at least 1.
    resident
        Whether its weights are in the GPU's memory already: its slices need no transfer.
    slice_gpu_ns
        GPU time of one slice.
    slice_ndp_ns
        Time of one slice on the NDP unit that holds it.
    """

    expert: Count
    tokens: Annotated[Count, Field(ge=1)]
    resident: Flag
    slice_gpu_ns: Nanoseconds
    slice_ndp_ns: Nanoseconds


class Instance(InstanceEnvelope):
    """One GPU behind one link, and NDP units that each hold a part of every expert.

    Parameters
    ----------
    stage
        In "prefill" the activations of `seq_len` tokens pass over the link as well.
    ndp_units
        N: number of NDP units an expert is cut over.
    slices_per_unit
        Into how many slices a unit's part of an expert is cut; a slice is 1 / (N x this) of it.
    seq_len
        S: tokens of the sequence; 1 in "decode".
    activation_ns
        T_a: time of one activation transfer.
    slice_transfer_ns
        Link time of one slice of an expert that is not resident.

    Notes
    -----
    `from_arrays` takes the fields of `Expert` as arrays of shape (experts,). By default the experts
    are numbered 0, 1, ... and none is resident; without `seq_len` it is the decode stage.

    Examples
    --------
    >>> from moeopt import balance
    >>> balance.Instance.from_arrays(
    ...     tokens=[3, 1], slice_gpu_ns=[4, 3], slice_ndp_ns=[9, 5], slice_transfer_ns=6,
    ...     activation_ns=1, ndp_units=2, slices_per_unit=4, name="small",
    ... )
    <balance instance 'small': 2 experts, 2 NDP units of 4 slices, decode;
    minimises makespan_ns>
    """

    TABLES: ClassVar = (Table("experts", "tokens", "(experts,)", "expert", {"resident": False}),)
    SUMS: ClassVar = (
        Sum("experts", "all slices on both sides with transfers and activations", "horizon_ns"),
    )

    problem: Literal["balance"] = "balance"
    stage: Literal["decode", "prefill"]
    ndp_units: Annotated[Count, Field(ge=1, le=MAX_UNITS)]
    slices_per_unit: Annotated[Count, Field(ge=1, le=MAX_SLICES_PER_UNIT)]
    seq_len: Annotated[Count, Field(ge=1, le=MAX_SEQUENCE)]
    activation_ns: Nanoseconds
    slice_transfer_ns: Nanoseconds
    experts: Annotated[
        tuple[Expert, ...],
        Field(min_length=1, max_length=MAX_EXPERTS, fail_fast=True),
        AfterValidator(distinct),
    ]

    @field_validator("seq_len")
    @classmethod
    def _one_token_in_decode(cls, seq_len: int, info: ValidationInfo) -> int:
        if info.data.get("stage") == "decode" and seq_len != 1:
            raise field_error([], f"must be 1 because stage is decode, not {seq_len}")
        return seq_len

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        stage = "decode" if given.get("seq_len") is None else "prefill"
        given["seq_len"] = 1 if stage == "decode" else given["seq_len"]
        return {"stage": stage} | super()._arranged(given)

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        tokens: ArrayLike,
        slice_gpu_ns: ArrayLike,
        slice_ndp_ns: ArrayLike,
        ndp_units: int,
        slices_per_unit: int,
        activation_ns: int,
        slice_transfer_ns: int,
        expert: ArrayLike | None = None,
        resident: ArrayLike | None = None,
        seq_len: int | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many experts and slices there are, and the stage, in words."""
        units = f"{self.ndp_units} NDP units of {self.slices_per_unit} slices"
        return f"{len(self.experts)} experts, {units}, {self.stage}"

    @property
    def slices(self) -> int:
        """Slices of one expert, over all units."""
        return self.ndp_units * self.slices_per_unit

    @property
    def ndp_overhead_ns(self) -> int:
        """What activations cost the NDP side if any NDP work remains: (N + 1) T_a (Eq. 1, 2)."""
        return (self.ndp_units + 1) * self.activation_ns

    @property
    def gpu_overhead_ns(self) -> int:
        """What they cost the GPU's link if any NDP work remains: (S - 1) T_a N (Eq. 2)."""
        if self.stage == "decode":
            return 0
        return (self.seq_len - 1) * self.activation_ns * self.ndp_units

    @property
    def horizon_ns(self) -> int:
        """A makespan that no solution exceeds: everything one after the other, on both sides."""
        slices = sum(e.slice_gpu_ns + e.slice_ndp_ns for e in self.experts) * self.slices
        slices += self.slice_transfer_ns * self.slices * len(self.experts)
        return slices + self.gpu_overhead_ns + self.ndp_overhead_ns

    @property
    def flow_shop_order(self) -> list[int]:
        """Rows of the experts in an order that is best however many slices are pulled.

        Residents come first, then the others by falling computation. Proof: among equal transfers
        that is Johnson's order, up to the order of those with the longer computation, which is
        free.
        """
        experts = self.experts
        return sorted(
            range(len(experts)),
            key=lambda row: (not experts[row].resident, -experts[row].slice_gpu_ns),
        )


class Solution(SolutionEnvelope):
    """One row per expert, in the order of the instance, with one count per NDP unit."""

    problem: Literal["balance"] = "balance"
    gpu_slices: tuple[tuple[Count, ...], ...]
