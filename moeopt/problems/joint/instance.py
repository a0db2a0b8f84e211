"""What a joint plan decides on: steps with routed experts, times by width, and three budgets."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.arrays import by_name, integers
from moeopt.core.envelope import (
    Count,
    Data,
    Flag,
    InstanceEnvelope,
    Name,
    Nanoseconds,
    SolutionEnvelope,
    Sum,
    field_error,
)
from moeopt.core.json_files import JsonObject

MAX_LAYERS = 1024
MAX_EXPERTS = 2**14
MAX_CELLS = 2**18
"""Most layers x experts."""

MAX_STEPS = 2**20
MAX_WIDTHS = 16
MAX_TABLE = 2**16
MAX_CONTEXTS = 64
MAX_TOTAL = 2**50
"""Most ns that all steps may take with nothing at once, and largest loss of all decisions: sums of
multiples stay in 64 bits."""

Active = tuple[Count, Count, Count]
"""An expert, its tokens, and what deferring it in this step adds to the loss."""

Layer = Annotated[tuple[Active, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
Step = Annotated[tuple[Layer, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
Table = Annotated[
    tuple[Nanoseconds, ...], Field(min_length=2, max_length=MAX_TABLE, fail_fast=True)
]
"""The time of an expert by its tokens, from 0 on."""

Width = Annotated[int, Field(strict=True, ge=1, le=64)]
Tables = Annotated[tuple[Table, ...], Field(max_length=MAX_WIDTHS)]
Losses = Annotated[
    tuple[Annotated[tuple[Count, ...], Field(max_length=MAX_WIDTHS)], ...],
    Field(max_length=MAX_EXPERTS, fail_fast=True),
]


class CacheOption(Data):
    """One way to keep the KV cache: its length, its width, how many sequences.

    Parameters
    ----------
    name
        What it is called.
    kv_bytes
        GPU memory that it takes.
    attention_ns
        Attention of every layer.
    step_ns
        What a step takes before its first layer with experts: dense layers, the head.
    kv_loss
        What it adds to the loss.
    """

    name: Name
    kv_bytes: Count
    attention_ns: Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
    step_ns: Nanoseconds = 0
    kv_loss: Count = 0


Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Every layer of every step; row ``step * layers + layer``.

    Attributes
    ----------
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert, tokens, loss
        Shape (entries,): an expert with tokens, how many, and its loss if it is deferred there.
    """

    start: Ints
    expert: Ints
    tokens: Ints
    loss: Ints

    @property
    def entries(self) -> int:
        """How many experts with tokens there are in all steps and layers."""
        return len(self.expert)

    @cached_property
    def row(self) -> Ints:
        """The row of every entry, shape (entries,)."""
        return np.repeat(np.arange(len(self.start) - 1), np.diff(self.start))


def rows_of_steps(steps: Sequence[Sequence[Sequence[tuple[int, int, int]]]]) -> Rows:
    """Return the rows of an instance's steps."""
    lengths = [len(active) for step in steps for active in step]
    entries = np.array(
        [entry for step in steps for active in step for entry in active], dtype=np.int64
    ).reshape(-1, 3)
    start = np.zeros(len(lengths) + 1, dtype=np.int64)
    np.cumsum(lengths, out=start[1:])
    expert, tokens, loss = (np.ascontiguousarray(column) for column in entries.T)
    return Rows(start, expert, tokens, loss)


class Instance(InstanceEnvelope):
    """One GPU beside a CPU, the steps to serve, and budgets of memory and quality.

    Parameters
    ----------
    layers, experts
        Layers with experts, and experts in each.
    bits
        Widths that an expert may have, rising; what follows "by width" is in this order.
    expert_bytes
        Size of an expert by width.
    gpu_ns, cpu_ns
        Time of an expert on either side by width and tokens, no tokens first.
    copy_ns
        Copying an expert to the GPU, by width.
    shared_ns
        Shared experts of every layer, on the GPU.
    hand_over_ns
        Handing a layer's activations from GPU to CPU or back, one way.
    contexts
        The ways to keep the KV cache, of which one is chosen.
    gpu_bytes
        GPU memory for residents, caches and KV cache.
    host_bytes
        Host memory for experts; None: any.
    max_loss
        Most loss of all decisions together; None: any.
    host_copy
        Whether the host holds the residents as well. Then they may run on the CPU.
    max_ways, max_deferred
        Most cache ways, and most deferred experts, of a layer.
    width_loss
        Loss by layer, expert and width; None: none.
    steps
        By step and layer: [expert, tokens, loss if deferred] of each expert with tokens, in order
        of falling routing score, each expert once.

    Notes
    -----
    `from_arrays` takes `chosen` in place of `steps`, an array of shape (steps, layers, top_k) of
    the experts that each of them runs, with `deferral_loss` of the same shape; `expert_bytes`,
    `gpu_ns`, `cpu_ns` and `copy_ns` of shape (widths,); `shared_ns` and `attention_ns` of shape
    (layers,), or one integer for all; and `width_loss` of shape (layers, experts, widths). There is
    one context, of `kv_bytes`, `attention_ns` and `step_ns`.

    Examples
    --------
    >>> from moeopt import joint
    >>> joint.Instance.from_arrays(
    ...     chosen=[[[0, 1], [2, 0]]], experts=3, expert_bytes=[8], gpu_ns=[2], cpu_ns=[9],
    ...     gpu_bytes=20, attention_ns=5, name="small",
    ... )
    <joint instance 'small': 2 layers of 3 experts, 1 steps, 1 widths, 20 bytes of GPU memory;
    minimises total_ns>
    """

    SUMS: ClassVar = (
        Sum(
            "steps",
            "all steps with nothing at once and every copy, in ns,",
            "largest_ns",
            MAX_TOTAL,
        ),
        Sum("width_loss", "the losses of all decisions", "largest_loss", MAX_TOTAL),
        Sum("expert_bytes", "all experts at every width, ways and KV caches,", "all_bytes"),
    )
    ABSENT: ClassVar = {
        **{"hand_over_ns": 0, "host_bytes": None, "max_loss": None, "width_loss": None},
        **{"host_copy": True, "max_ways": 0, "max_deferred": 0},
    }

    problem: Literal["joint"] = "joint"
    layers: Annotated[Count, Field(ge=1, le=MAX_LAYERS)]
    experts: Annotated[Count, Field(ge=1, le=MAX_EXPERTS)]
    bits: Annotated[tuple[Width, ...], Field(min_length=1, max_length=MAX_WIDTHS)]
    expert_bytes: Annotated[tuple[Count, ...], Field(max_length=MAX_WIDTHS)]
    gpu_ns: Tables
    cpu_ns: Tables
    copy_ns: Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_WIDTHS)]
    shared_ns: Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
    hand_over_ns: Nanoseconds
    contexts: Annotated[tuple[CacheOption, ...], Field(min_length=1, max_length=MAX_CONTEXTS)]
    gpu_bytes: Count
    host_bytes: Count | None = None
    max_loss: Count | None = None
    host_copy: Flag = True
    max_ways: Count = 0
    max_deferred: Count = 0
    width_loss: (
        Annotated[tuple[Losses, ...], Field(max_length=MAX_LAYERS, fail_fast=True)] | None
    ) = None
    steps: Annotated[tuple[Step, ...], Field(min_length=1, max_length=MAX_STEPS, fail_fast=True)]

    @field_validator("experts")
    @classmethod
    def _cells_are_bounded(cls, experts: int, info: ValidationInfo) -> int:
        if info.data.get("layers", 1) * experts > MAX_CELLS:
            raise field_error([], f"layers x experts must be at most {MAX_CELLS}")
        return experts

    @field_validator("bits")
    @classmethod
    def _widths_rise(cls, bits: tuple[int, ...]) -> tuple[int, ...]:
        for place in range(1, len(bits)):
            if bits[place] <= bits[place - 1]:
                reason = f"must rise: {bits[place]} comes after {bits[place - 1]}"
                raise field_error([place], reason)
        return bits

    @field_validator("expert_bytes", "gpu_ns", "cpu_ns", "copy_ns")
    @classmethod
    def _one_per_width(cls, values: tuple[object, ...], info: ValidationInfo) -> object:
        widths = len(info.data.get("bits", values))
        if len(values) != widths:
            raise field_error([], f"must have one entry per width, {widths}, not {len(values)}")
        return values

    @field_validator("gpu_ns", "cpu_ns")
    @classmethod
    def _no_tokens_cost_nothing(cls, tables: tuple[Table, ...]) -> tuple[Table, ...]:
        for width, table in enumerate(tables):
            if table[0] != 0:
                raise field_error([width, 0], f"no tokens cost 0, not {table[0]}")
        return tables

    @field_validator("shared_ns")
    @classmethod
    def _one_per_layer(cls, values: tuple[int, ...], info: ValidationInfo) -> tuple[int, ...]:
        layers = info.data.get("layers", len(values))
        if len(values) != layers:
            raise field_error([], f"must have one entry per layer, {layers}, not {len(values)}")
        return values

    @field_validator("contexts")
    @classmethod
    def _attention_of_every_layer(
        cls, contexts: tuple[CacheOption, ...], info: ValidationInfo
    ) -> tuple[CacheOption, ...]:
        layers = info.data.get("layers")
        for row, context in enumerate(contexts):
            if layers is not None and len(context.attention_ns) != layers:
                reason = f"must have one entry per layer, {layers}, not {len(context.attention_ns)}"
                raise field_error([row, "attention_ns"], reason)
        return contexts

    @field_validator("max_ways")
    @classmethod
    def _ways_are_experts(cls, ways: int, info: ValidationInfo) -> int:
        experts = info.data.get("experts", ways)
        if ways > experts:
            raise field_error([], f"must be at most experts = {experts}, not {ways}")
        return ways

    @field_validator("width_loss")
    @classmethod
    def _loss_of_every_width(
        cls, losses: tuple[Losses, ...] | None, info: ValidationInfo
    ) -> tuple[Losses, ...] | None:
        if losses is None or not {"layers", "experts", "bits"} <= set(info.data):
            return losses
        layers, experts, widths = (info.data["layers"], info.data["experts"], info.data["bits"])
        if len(losses) != layers:
            raise field_error([], f"must have one list per layer, {layers}, not {len(losses)}")
        for layer, row in enumerate(losses):
            if len(row) != experts:
                reason = f"must have one list per expert, {experts}, not {len(row)}"
                raise field_error([layer], reason)
            for expert, entries in enumerate(row):
                if len(entries) != len(widths):
                    reason = f"must have one entry per width, {len(widths)}, not {len(entries)}"
                    raise field_error([layer, expert], reason)
        return losses

    @field_validator("steps")
    @classmethod
    def _are_steps(cls, steps: tuple[Step, ...], info: ValidationInfo) -> tuple[Step, ...]:
        if not {"layers", "experts", "gpu_ns", "cpu_ns"} <= set(info.data):
            return steps
        layers, experts = info.data["layers"], info.data["experts"]
        longest = min(len(table) for table in (*info.data["gpu_ns"], *info.data["cpu_ns"]))
        for row, step in enumerate(steps):
            if len(step) != layers:
                reason = f"must have one list per layer, {layers}, not {len(step)}"
                raise field_error([row], reason)
            for layer, active in enumerate(step):
                _check_active([row, layer], active, experts, longest)
        return steps

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        axes = "(steps, layers, top_k)"
        used = integers("chosen", given.pop("chosen", None), (None, None, None), axes=axes)
        layers = used.shape[1]
        late = np.zeros_like(used)
        if (loss := given.pop("deferral_loss", None)) is not None:
            late = integers("deferral_loss", loss, used.shape, axes=axes)
        widths = integers("bits", given.get("bits", [16]), (None,), axes="(widths,)").tolist()
        for name in ("expert_bytes", "gpu_ns", "cpu_ns", "copy_ns"):
            values = given.get(name, [0] * len(widths) if name == "copy_ns" else None)
            column = integers(name, values, (len(widths),), axes="(widths,)").tolist()
            given[name] = [[0, ns] for ns in column] if name in ("gpu_ns", "cpu_ns") else column
        for name in ("attention_ns", "shared_ns"):
            values = given.get(name, 0)
            shape = () if isinstance(values, int | np.integer) else (layers,)
            array = integers(name, values, shape, axes="(layers,)")
            given[name] = np.broadcast_to(array, (layers,)).tolist()
        if (width_loss := given.get("width_loss")) is not None:
            axes, experts = "(layers, experts, widths)", given.get("experts")
            cells = (layers, experts if isinstance(experts, int) else None, len(widths))
            given["width_loss"] = integers("width_loss", width_loss, cells, axes=axes).tolist()
        context = {"name": "as given", "attention_ns": given.pop("attention_ns")}
        context |= {name: given.pop(name, 0) for name in ("kv_bytes", "step_ns")}
        steps = np.stack([used, np.ones_like(used), late], axis=-1).tolist()
        return given | {"layers": layers, "bits": widths, "contexts": [context], "steps": steps}

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        chosen: ArrayLike,
        experts: int,
        expert_bytes: ArrayLike,
        gpu_ns: ArrayLike,
        cpu_ns: ArrayLike,
        gpu_bytes: int,
        deferral_loss: ArrayLike | None = None,
        kv_bytes: int = 0,
        step_ns: int = 0,
        attention_ns: ArrayLike = 0,
        bits: ArrayLike = (16,),
        copy_ns: ArrayLike | None = None,
        shared_ns: ArrayLike = 0,
        hand_over_ns: int = 0,
        host_bytes: int | None = None,
        max_loss: int | None = None,
        host_copy: bool = True,
        max_ways: int = 0,
        max_deferred: int = 0,
        width_loss: ArrayLike | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers, experts, steps and widths there are, in words."""
        layers = f"{self.layers} layers of {self.experts} experts"
        steps = f"{len(self.steps)} steps, {len(self.bits)} widths"
        return f"{layers}, {steps}, {self.gpu_bytes} bytes of GPU memory"

    @cached_property
    def rows(self) -> Rows:
        """The steps as arrays."""
        return rows_of_steps(self.steps)

    def lost(self, layer: int, expert: int, width: int) -> int:
        """Return what an expert loses at a width, given by its place in `bits`."""
        return 0 if self.width_loss is None else self.width_loss[layer][expert][width]

    @property
    def horizon_ns(self) -> int:
        """How long all steps take if nothing overlaps: at least as long as any solution's."""
        entries = chain.from_iterable(chain.from_iterable(self.steps))
        experts = 0
        tokens = [n for _, n, _ in entries]
        slowest = [
            max(table[n] for table in (*self.gpu_ns, *self.cpu_ns))
            for n in range(max(tokens, default=0) + 1)
        ]
        experts = sum(slowest[n] for n in tokens)
        around = max(c.step_ns + sum(c.attention_ns) for c in self.contexts) + sum(self.shared_ns)
        return experts + len(self.steps) * (around + 2 * self.layers * self.hand_over_ns)

    @property
    def largest_ns(self) -> int:
        """No solution's time is above this, with all that is copied one after the other."""
        return self.horizon_ns + max(self.copy_ns) * self.rows.entries

    @property
    def all_bytes(self) -> int:
        """What every variable of a model for the GPU's memory stands for, in bytes together."""
        experts = self.layers * self.experts * sum(self.expert_bytes)
        ways = self.layers * self.max_ways * max(self.expert_bytes)
        return experts + ways + sum(context.kv_bytes for context in self.contexts)

    @property
    def largest_loss(self) -> int:
        """No solution loses more than this."""
        late: list[int] = self.rows.loss.tolist()
        loss = sum(late) + max(context.kv_loss for context in self.contexts)
        return loss + sum(max(entries) for row in self.width_loss or () for entries in row)

    def deferrable(self, layer: int) -> range:
        """Return the counts that a layer may defer: none in the last one."""
        return range(1 if layer == self.layers - 1 else self.max_deferred + 1)


def _check_active(at: list[str | int], active: Layer, experts: int, longest: int) -> None:
    """Refuse experts that do not exist, stand twice, or have no or more tokens than the tables."""
    seen: set[int] = set()
    for place, (expert, tokens, _) in enumerate(active):
        if expert >= experts:
            raise field_error([*at, place, 0], f"must be below experts = {experts}, not {expert}")
        if expert in seen:
            raise field_error([*at, place, 0], f"expert {expert} stands twice")
        if not 1 <= tokens < longest:
            reason = f"must be from 1 to {longest - 1}, which the times know, not {tokens}"
            raise field_error([*at, place, 1], reason)
        seen.add(expert)


class Solution(SolutionEnvelope):
    """All decisions of a plan; None stands for one that is missing, which the checker reports.

    Parameters
    ----------
    context
        Which of the instance's contexts.
    resident
        By layer, the experts that stay on the GPU.
    bits
        By layer and expert, its width.
    ways, deferred
        By layer, cache ways, and how many of the experts on the CPU are deferred.
    swapped
        (step, layer, expert): an expert that the GPU holds, and that the CPU runs nevertheless.
        All others run on the GPU exactly where it holds them.
    """

    problem: Literal["joint"] = "joint"
    context: Count | None
    resident: tuple[tuple[Count, ...], ...]
    bits: tuple[tuple[Count | None, ...], ...]
    ways: tuple[Count | None, ...]
    deferred: tuple[Count | None, ...]
    swapped: tuple[tuple[Count, Count, Count], ...] = ()
