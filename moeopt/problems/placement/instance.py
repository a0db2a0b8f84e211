"""The steps of a trace as token counts, what experts cost on either side, and the GPU's room."""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain, pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator, model_validator

from moeopt.core.arrays import by_name, integers
from moeopt.core.envelope import (
    Count,
    Flag,
    InstanceEnvelope,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    absent,
    field_error,
)
from moeopt.core.json_files import JsonObject

from .fields import (
    MAX_EXPERTS,
    MAX_LAYERS,
    MAX_STEPS,
    Entries,
    Known,
    PerExpert,
    Step,
    Table,
    Tables,
    check_active,
    check_lengths,
    check_per_expert,
    check_start,
    check_widths,
    longest_by_width,
)
from .fields import Ints as Ints
from .fields import expert_ns as expert_ns
from .layer_steps import LayerSteps, layer_steps_of

MAX_CELLS = 2**18
"""Most layers x experts."""

MAX_TOTAL_NS = 2**50
"""Longest that all steps may take with every expert on both sides, 13 days: its multiples by
weights stay in 64 bits."""

MAX_EXPERT_SLOTS = 2**20
"""Most slots of one expert: the sum over all experts stays below `MAX_NUMBER`."""

Restriction = Literal["whole-layers", "equal-counts"]

Dispatch = Literal["resident", "free"]

Sizes = Annotated[
    tuple[Annotated[int, Field(strict=True, ge=1, le=MAX_EXPERT_SLOTS)], ...],
    Field(max_length=MAX_EXPERTS, fail_fast=True),
]


def _times_of_counts(steps: Sequence[Step]) -> dict[int, int]:
    """Return how often an expert has so many tokens, by their number."""
    counts = np.array([n for _, n in chain.from_iterable(chain(*steps))], dtype=np.int64)
    tokens, times = np.unique(counts, return_counts=True)
    return dict(zip(tokens.tolist(), times.tolist(), strict=True))


def _by_residents(dispatch: str) -> bool:
    """Tell whether it is what schema 1 says, which files need not."""
    return dispatch == "resident"


class Instance(InstanceEnvelope):
    """One GPU with room for `gpu_slots`, a slower side for the rest, and the steps to serve.

    Parameters
    ----------
    layers, experts
        Layers with experts, and experts in each.
    gpu_slots
        The GPU's room for experts, over all layers: an upper limit unless `fill` is set.
    gpu_expert_ns, offload_expert_ns
        One expert on the GPU that has it, and on the other side (CPU, NDP), by its tokens. Entry 0
        is 0; beyond the end the last slope continues.
    layer_offload_fixed_ns
        What a layer pays in a step in which it offloads anything: hand-over, submission.
    steps
        By step and layer: [expert, tokens] of each expert with tokens, each expert once.
    restriction
        "whole-layers": a layer is on the GPU as a whole or not at all; "equal-counts": all layers
        have equally many experts there; None: any experts.
    fill
        Whether every slot must be used.
    expert_slots
        Slots that each expert takes, by layer; None: one each.
    host_slots
        The host's room for experts, None if it does not matter.
    host_copy
        Whether the host holds the experts that are on the GPU as well.
    known
        What rules may know that decide before the steps are there; a field of schema 2. Absent:
        they know nothing but the steps themselves, and those that count have hindsight.
    dispatch
        Who computes the experts on the GPU. "resident": the GPU; "free", of schema 2: in every step
        the better of the two sides, as the host has a copy.
    expert_width, width_gpu_ns, width_offload_ns
        Which times each expert has, by layer: 0 those of `gpu_expert_ns` and `offload_expert_ns`,
        w those of the w-th further tables, say of another bit width, which are as long as those.
        Fields of schema 2.

    Notes
    -----
    `from_arrays` takes `tokens` in place of `steps`, an array of shape (steps, layers, experts), 0
    for none; `expert_slots` and `expert_width` of shape (layers, experts), and the tables of
    further widths of shape (widths, tokens + 1).

    Examples
    --------
    >>> from moeopt import placement
    >>> placement.Instance.from_arrays(
    ...     tokens=[[[2, 0, 1], [0, 3, 0]]], gpu_slots=2, gpu_expert_ns=[0, 2],
    ...     offload_expert_ns=[0, 9], name="small",
    ... )
    <placement instance 'small': 2 layers of 3 experts, 1 steps, 2 GPU slots;
    minimises total_ns>
    """

    SUMS: ClassVar = (
        Sum("steps", "every expert on both sides, in ns,", "largest_ns", MAX_TOTAL_NS),
    )
    FORMER: ClassVar = {"step_scores": None, "score_scale": None}

    problem: Literal["placement"] = "placement"
    schema_version: Annotated[int, Field(strict=True, ge=1, le=2)] = 1
    layers: Annotated[Count, Field(ge=1, le=MAX_LAYERS)]
    experts: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    gpu_slots: Count
    gpu_expert_ns: Table
    offload_expert_ns: Table
    layer_offload_fixed_ns: Nanoseconds
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS, fail_fast=True)]
    restriction: Restriction | None = None
    fill: Flag = False
    expert_slots: (
        Annotated[tuple[Sizes, ...], Field(max_length=MAX_LAYERS, fail_fast=True)] | None
    ) = None
    host_slots: Count | None = None
    host_copy: Flag = True
    known: Annotated[Known | None, Field(exclude_if=absent)] = None
    dispatch: Annotated[Dispatch, Field(exclude_if=_by_residents)] = "resident"
    expert_width: Annotated[PerExpert | None, Field(exclude_if=absent)] = None
    width_gpu_ns: Annotated[Tables | None, Field(exclude_if=absent)] = None
    width_offload_ns: Annotated[Tables | None, Field(exclude_if=absent)] = None

    @field_validator("experts")
    @classmethod
    def _cells_are_bounded(cls, experts: int, info: ValidationInfo) -> int:
        layers = info.data.get("layers", 1)
        if layers * experts > MAX_CELLS:
            raise field_error([], f"layers x experts must be at most {MAX_CELLS}")
        return experts

    @field_validator("gpu_expert_ns", "offload_expert_ns")
    @classmethod
    def _no_tokens_cost_nothing(cls, table: tuple[int, ...]) -> tuple[int, ...]:
        check_start([], table)
        return table

    @field_validator("width_gpu_ns", "width_offload_ns")
    @classmethod
    def _no_tokens_cost_nothing_either(
        cls, tables: tuple[tuple[int, ...], ...] | None
    ) -> tuple[tuple[int, ...], ...] | None:
        for number, table in enumerate(tables or ()):
            check_start([number], table)
        return tables

    @field_validator("steps")
    @classmethod
    def _are_steps(cls, steps: tuple[Step, ...], info: ValidationInfo) -> tuple[Step, ...]:
        layers, experts = info.data.get("layers"), info.data.get("experts")
        if layers is None or experts is None:
            return steps
        for row, step in enumerate(steps):
            if len(step) != layers:
                reason = f"must have one list per layer, {layers}, not {len(step)}"
                raise field_error([row], reason)
            for layer, active in enumerate(step):
                check_active([row, layer], active, experts)
        return steps

    @field_validator("steps")
    @classmethod
    def _tables_reach(cls, steps: tuple[Step, ...], info: ValidationInfo) -> tuple[Step, ...]:
        counts = _times_of_counts(steps)
        for name in ("gpu_expert_ns", "offload_expert_ns"):
            if name in info.data:
                for tokens in counts:
                    if expert_ns(info.data[name], tokens) < 0:
                        reason = f"{tokens} tokens are beyond {name}, whose slope falls below 0"
                        raise field_error([], reason)
        return steps

    @field_validator("known")
    @classmethod
    def _known_of_every_expert(cls, known: Known | None, info: ValidationInfo) -> Known | None:
        layers, experts = info.data.get("layers"), info.data.get("experts")
        if known is not None and layers is not None and experts is not None:
            known.check_shape(layers, experts)
        return known

    @field_validator("expert_slots", "expert_width")
    @classmethod
    def _one_each(cls, table: PerExpert | None, info: ValidationInfo) -> PerExpert | None:
        layers, experts = info.data.get("layers"), info.data.get("experts")
        if table is not None and layers is not None and experts is not None:
            check_per_expert([], table, layers, experts)
        return table

    @model_validator(mode="after")
    def _widths_fit(self) -> Self:
        if self.dispatch == "free" and not self.host_copy:
            raise field_error(["dispatch"], "free needs a copy of every expert: host_copy is false")
        check_widths(self.expert_width, self.width_gpu_ns, self.width_offload_ns)
        check_lengths("width_gpu_ns", self.width_gpu_ns, self.gpu_expert_ns)
        check_lengths("width_offload_ns", self.width_offload_ns, self.offload_expert_ns)
        return self

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        axes = "(steps, layers, experts)"
        used = integers("tokens", given.pop("tokens", None), (None, None, None), axes=axes)
        _, layers, experts = used.shape
        for name, least in (("expert_slots", 1), ("expert_width", 0)):
            if (values := given.get(name)) is not None:
                table = integers(
                    name, values, (layers, experts), axes="(layers, experts)", least=least
                )
                given[name] = table.tolist()
        steps = [
            [[(int(e), int(row[e])) for e in np.flatnonzero(row)] for row in step] for step in used
        ]
        return given | {"layers": layers, "experts": experts, "steps": steps}

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        tokens: ArrayLike,
        gpu_slots: int,
        gpu_expert_ns: ArrayLike,
        offload_expert_ns: ArrayLike,
        layer_offload_fixed_ns: int = 0,
        restriction: Literal["whole-layers", "equal-counts"] | None = None,
        fill: bool = False,
        expert_slots: ArrayLike | None = None,
        host_slots: int | None = None,
        host_copy: bool = True,
        known: Known | None = None,
        dispatch: Literal["resident", "free"] = "resident",
        expert_width: ArrayLike | None = None,
        width_gpu_ns: ArrayLike | None = None,
        width_offload_ns: ArrayLike | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers, experts, steps and slots there are, in words."""
        layers = f"{self.layers} layers of {self.experts} experts"
        return f"{layers}, {len(self.steps)} steps, {self.gpu_slots} GPU slots"

    @property
    def largest_ns(self) -> int:
        """No solution takes longer: every expert on both sides, at its width and at the common."""
        fixed = len(self.steps) * self.layers * self.layer_offload_fixed_ns
        common = sum(
            times * expert_ns(table, tokens)
            for tokens, times in _times_of_counts(self.steps).items()
            for table in (self.gpu_expert_ns, self.offload_expert_ns)
        )
        if self.expert_width is None:
            return fixed + common
        return fixed + max(common, longest_by_width(self.steps, self.expert_width, self.tables))

    @cached_property
    def sizes(self) -> NDArray[np.int64]:
        """Slots of every expert, shape (layers, experts)."""
        if self.expert_slots is None:
            return np.ones((self.layers, self.experts), dtype=np.int64)
        return np.array(self.expert_slots, dtype=np.int64)

    @cached_property
    def tokens(self) -> NDArray[np.int64]:
        """Tokens of every expert over all steps, shape (layers, experts)."""
        total = np.zeros((self.layers, self.experts), dtype=np.int64)
        for step in self.steps:
            for layer, active in enumerate(step):
                for expert, count in active:
                    total[layer, expert] += count
        return total

    @cached_property
    def layer_steps(self) -> list[LayerSteps]:
        """The steps of every layer as arrays, equal ones merged."""
        free = self.dispatch == "free"
        return layer_steps_of(self.steps, *self.tables, self.expert_width, free_dispatch=free)

    @cached_property
    def tables(self) -> tuple[tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]:
        """The tables of all widths for the GPU, and for the other side; the common ones first."""
        on_gpu = (self.gpu_expert_ns, *(self.width_gpu_ns or ()))
        return on_gpu, (self.offload_expert_ns, *(self.width_offload_ns or ()))

    @cached_property
    def entries(self) -> Entries:
        """Every expert with tokens in a layer of a step."""
        rows = [active for step in self.steps for active in step]
        ends = np.cumsum([0, *map(len, rows)])
        flat = np.fromiter(chain.from_iterable(chain.from_iterable(rows)), np.int64)
        expert, tokens = flat.reshape(-1, 2).T
        row = np.repeat(np.arange(len(rows)), np.diff(ends))
        width = np.zeros_like(expert)
        if self.expert_width is not None:
            width = np.array(self.expert_width)[row % self.layers, expert]
        kinds, which = np.unique(tokens * len(self.tables[0]) + width, return_inverse=True)
        pairs = [divmod(kind, len(self.tables[0])) for kind in kinds.tolist()]
        gpu_ns, offload_ns = (
            np.array([expert_ns(tables[w], n) for n, w in pairs], np.int64)[which]
            for tables in self.tables
        )
        return Entries(ends, row, expert, gpu_ns, offload_ns)

    def gpu_ns(self, layer: int, expert: int, tokens: int) -> int:
        """Return what an expert with so many tokens takes on the GPU."""
        return expert_ns(self.tables[0][self._width(layer, expert)], tokens)

    def offload_ns(self, layer: int, expert: int, tokens: int) -> int:
        """Return what an expert with so many tokens takes on the other side."""
        return expert_ns(self.tables[1][self._width(layer, expert)], tokens)

    def _width(self, layer: int, expert: int) -> int:
        return 0 if self.expert_width is None else self.expert_width[layer][expert]


Flags = NDArray[np.bool_]


class Solution(SolutionEnvelope):
    """Which experts live on the GPU; all others are computed elsewhere.

    Parameters
    ----------
    gpu
        By layer.
    computed_on_gpu
        With free dispatch, by step and layer, the experts that the GPU computes: some of those on
        it that have tokens there. None: all of them.
    """

    problem: Literal["placement"] = "placement"
    gpu: tuple[tuple[Count, ...], ...]
    computed_on_gpu: Annotated[
        tuple[tuple[tuple[Count, ...], ...], ...] | None, Field(exclude_if=absent)
    ] = None


def solution_of(instance: Instance, held: Flags) -> Solution:
    """Return the solution of flags of shape (layers, experts), dispatched best where it is free."""
    gpu = tuple(tuple(np.flatnonzero(row).tolist()) for row in held)
    if instance.dispatch == "resident":
        return Solution(instance=instance.name, gpu=gpu)
    fixed_ns = instance.layer_offload_fixed_ns
    runs = [of.computed(row, fixed_ns) for of, row in zip(instance.layer_steps, held, strict=True)]
    return dispatched(instance, gpu, runs)


def dispatched(
    instance: Instance, gpu: tuple[tuple[int, ...], ...], runs: Sequence[Flags]
) -> Solution:
    """Return the solution in which the GPU computes some of the entries of `layer_steps`.

    Parameters
    ----------
    gpu
        By layer, the experts on the GPU.
    runs
        By layer, a flag for each entry. Where the GPU computes all that is there, nothing is said.
    """
    by_row = []
    differ = False
    for of, held, flags in zip(instance.layer_steps, gpu, runs, strict=True):
        parts = [slice(*part) for part in pairwise(of.start.tolist())]
        by_row.append([tuple(of.expert[part][flags[part]].tolist()) for part in parts])
        differ |= bool((np.isin(of.expert, held) != flags).any())
    if not differ:
        return Solution(instance=instance.name, gpu=gpu)
    rows = zip(*(of.row_of_step.tolist() for of in instance.layer_steps), strict=True)
    computed = tuple(
        tuple(by_row[layer][row] if row >= 0 else () for layer, row in enumerate(of_step))
        for of_step in rows
    )
    return Solution(instance=instance.name, gpu=gpu, computed_on_gpu=computed)


def held_of(solution: Solution, layers: int, experts: int) -> Flags:
    """Return the flags of a valid solution, shape (layers, experts)."""
    held = np.zeros((layers, experts), dtype=bool)
    for row, chosen in zip(held, solution.gpu, strict=True):
        row[list(chosen)] = True
    return held
