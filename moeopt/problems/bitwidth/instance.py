"""The data: what each expert loses at each width, and the budgets of bits."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
    model_validator,
)

from moeopt.core.arrays import by_name, integers
from moeopt.core.envelope import (
    MAX_ALL_EXPERTS,
    MAX_BITS,
    MAX_WIDTHS,
    Count,
    Data,
    InstanceEnvelope,
    SolutionEnvelope,
    absent,
    distinct,
    field_error,
)
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject
from moeopt.core.wording import shown

MAX_LAYERS = 1024
MAX_EXPERTS = 4096

Granularity = Literal["expert", "layer", "model"]

Width = Annotated[int, Field(strict=True, ge=1, le=MAX_BITS)]

Scale = Annotated[float, Field(strict=True, gt=0, allow_inf_nan=False)]
"""What one unit of loss stands for in the measured table: the only floats of an instance."""


def _width_keys(value: object) -> object:
    """Turn the keys, which are strings in JSON, into widths; each is written in one way only."""
    if not isinstance(value, dict):
        return value
    for key in value:
        plain = isinstance(key, str) and key.isascii() and key.isdigit() and len(key) <= 3
        if not (type(key) is int or (plain and str(int(key)) == key)):
            raise field_error([], f"{_braceless(shown(key))} is not a width")
    return {int(key): count for key, count in value.items()}


def _braceless(text: str) -> str:
    return text.replace("{", "(").replace("}", ")")


MinCount = Annotated[
    dict[int, Count],
    BeforeValidator(_width_keys),
    WithJsonSchema({"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}}),
]
"""Width -> how many experts of each layer must have it."""


class Expert(Data):
    """An expert: how important it is, and what it loses at each width.

    Parameters
    ----------
    expert
        Its number in the layer.
    importance
        Orders the experts of a layer for `prefix-split`; no part of the objective.
    loss
        One entry per width, in the order of the instance's `bits`, in units of `loss_scale`.
    """

    expert: Count
    importance: Count
    loss: Annotated[tuple[Count, ...], Field(max_length=MAX_WIDTHS)]


class Layer(Data):
    """The experts of a layer that get a width, and their budget.

    Parameters
    ----------
    budget_bits
        Largest sum of their widths. Without effect, and free to be None, where the instance has
        `model_budget_bits`.
    experts
        With distinct numbers.
    loss_scale
        Schema 2: what one unit of this layer's losses stands for, in place of the instance's. Only
        where nothing couples the layers. Given for all layers or for none.
    loss_error
        Schema 2: how far, at most, the losses of two choices of widths differ otherwise in the
        table than here, since losses were rounded; in units. 0 where they are exact.
    """

    budget_bits: Count | None = None
    experts: Annotated[
        tuple[Expert, ...], Field(min_length=1, max_length=MAX_EXPERTS), AfterValidator(distinct)
    ]
    loss_scale: Annotated[Scale | None, Field(exclude_if=absent)] = None
    loss_error: Annotated[Count | None, Field(exclude_if=absent)] = None


class Instance(InstanceEnvelope):
    """Layers of experts, each of which gets one of the widths.

    Parameters
    ----------
    bits
        The widths, rising.
    loss_scale
        What one unit of loss stands for in the measured table, where layers do not say it
        themselves.
    granularity
        What is decided at once: every expert by itself, each layer as a whole, or the whole model.
    min_count
        Width -> how many experts of every layer must have exactly this width.
    layers
        See `Layer`.
    model_budget_bits
        Largest sum of all widths, in place of the layers' budgets; None: the layers' budgets hold.

    Notes
    -----
    `from_arrays` takes `loss` as an array of shape (layers, experts, widths), `importance` of shape
    (layers, experts), all alike by default, and `budget_bits` of shape (layers,), or one integer
    for all layers.

    Examples
    --------
    >>> from moeopt import bitwidth
    >>> bitwidth.Instance.from_arrays(
    ...     loss=[[[9, 4, 0], [5, 2, 0]]], bits=[2, 3, 4], budget_bits=6, name="small"
    ... )
    <bitwidth instance 'small': 1 layers, 2 experts, widths 2, 3, 4; minimises summed_loss>
    """

    problem: Literal["bitwidth"] = "bitwidth"
    schema_version: Annotated[int, Field(strict=True, ge=1, le=2)] = 1
    bits: Annotated[tuple[Width, ...], Field(min_length=1, max_length=MAX_WIDTHS)]
    loss_scale: Scale = 1.0
    granularity: Granularity = "expert"
    min_count: Annotated[MinCount, Field(default_factory=dict)]
    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=MAX_LAYERS)]
    model_budget_bits: Count | None = None

    @field_validator("bits")
    @classmethod
    def _rising(cls, bits: tuple[int, ...]) -> tuple[int, ...]:
        for row in range(1, len(bits)):
            if bits[row] <= bits[row - 1]:
                raise field_error([row], f"must rise: {bits[row]} comes after {bits[row - 1]}")
        return bits

    @field_validator("min_count")
    @classmethod
    def _known_widths(cls, counts: dict[int, int], info: ValidationInfo) -> dict[int, int]:
        bits = info.data.get("bits")
        for width in counts:
            if bits is not None and width not in bits:
                raise field_error([], f"{width} is none of the widths in bits")
        return counts

    @field_validator("layers")
    @classmethod
    def _losses_fit(cls, layers: tuple[Layer, ...], info: ValidationInfo) -> tuple[Layer, ...]:
        if sum(len(layer.experts) for layer in layers) > MAX_ALL_EXPERTS:
            raise field_error([], f"must have at most {MAX_ALL_EXPERTS} experts together")
        bits = info.data.get("bits")
        for number, layer in enumerate(layers):
            for row, expert in enumerate(layer.experts):
                if bits is not None and len(expert.loss) != len(bits):
                    reason = f"must have one entry per width, {len(bits)}, not {len(expert.loss)}"
                    raise field_error([number, "experts", row, "loss"], reason)
        return layers

    @model_validator(mode="after")
    def _some_budget(self) -> "Instance":
        if self.model_budget_bits is None:
            for number, layer in enumerate(self.layers):
                if layer.budget_bits is None:
                    reason = "must be an integer where model_budget_bits is null"
                    raise field_error(["layers", number, "budget_bits"], reason)
        return self

    @model_validator(mode="after")
    def _scales_of_all_or_none(self) -> "Instance":
        own = [layer.loss_scale is not None for layer in self.layers]
        for number in range(len(own)):
            if own[number] != own[0]:
                raise field_error(["layers", number, "loss_scale"], "stands in some layers only")
        if own[0] and self.coupled:
            reason = "must be absent: layers that share a budget or a width need one unit of loss"
            raise field_error(["layers", 0, "loss_scale"], reason)
        return self

    @classmethod
    def _arranged(cls, given: dict[str, object]) -> dict[str, object]:
        widths = integers("bits", given.get("bits"), (None,), axes="(widths,)", least=1)
        axes = "(layers, experts, widths)"
        losses = integers("loss", given.pop("loss", None), (None, None, len(widths)), axes=axes)
        layers, experts, _ = losses.shape
        ranks = np.zeros((layers, experts), np.int64)
        if (importance := given.pop("importance", None)) is not None:
            ranks = integers("importance", importance, ranks.shape, axes="(layers, experts)")
        budgets: list[int | None] = [None] * layers
        if (budget := given.pop("budget_bits", None)) is not None:
            shape = () if isinstance(budget, int | np.integer) else (layers,)
            limits = integers("budget_bits", budget, shape, axes="(layers,)")
            budgets = np.broadcast_to(limits, (layers,)).tolist()
        elif given.get("model_budget_bits") is None:
            raise InputError("budget_bits: must be given, or model_budget_bits in its place")
        rows = [
            {
                "budget_bits": budget,
                "experts": [
                    {"expert": number, "importance": rank, "loss": row}
                    for number, (rank, row) in enumerate(zip(of_layer, table, strict=True))
                ],
            }
            for budget, of_layer, table in zip(
                budgets, ranks.tolist(), losses.tolist(), strict=True
            )
        ]
        return given | {"bits": widths.tolist(), "layers": rows}

    @classmethod
    @by_name
    def from_arrays(
        cls,
        *,
        loss: ArrayLike,
        bits: ArrayLike,
        importance: ArrayLike | None = None,
        budget_bits: ArrayLike | None = None,
        loss_scale: float = 1.0,
        granularity: Literal["expert", "layer", "model"] = "expert",
        min_count: Mapping[int, int] | None = None,
        model_budget_bits: int | None = None,
        name: str | None = None,
        provenance: JsonObject | None = None,
        quantum_ns: int | None = None,
    ) -> Self:
        """Return the instance of arrays: NumPy's, or nested lists."""
        return cls._of_arrays(locals())

    def size(self) -> str:
        """Return how many layers and experts there are, and the widths, in words."""
        experts = sum(len(layer.experts) for layer in self.layers)
        widths = ", ".join(map(str, self.bits))
        return f"{len(self.layers)} layers, {experts} experts, widths {widths}"

    @cached_property
    def losses(self) -> NDArray[np.int64]:
        """The losses of all experts, layer after layer: shape (experts of all layers, widths)."""
        rows = [expert.loss for layer in self.layers for expert in layer.experts]
        return np.array(rows, dtype=np.int64)

    @cached_property
    def layer_losses(self) -> tuple[NDArray[np.int64], ...]:
        """The rows of `losses` of each layer."""
        ends = np.cumsum([len(layer.experts) for layer in self.layers])
        return tuple(np.split(self.losses, ends[:-1]))

    @property
    def coupled(self) -> bool:
        """Whether anything ties the layers together: a model's budget, or one width for all."""
        return self.model_budget_bits is not None or self.granularity == "model"

    @property
    def loss_error(self) -> int:
        """How far rounding may have changed the difference of two solutions' losses, in units.

        0 where nothing is stated.
        """
        return sum(layer.loss_error or 0 for layer in self.layers)

    @property
    def layer_budgets(self) -> tuple[int | None, ...]:
        """The budgets of the layers that hold: None for each where the model's holds instead."""
        if self.model_budget_bits is not None:
            return (None,) * len(self.layers)
        return tuple(layer.budget_bits for layer in self.layers)


class Solution(SolutionEnvelope):
    """One width per expert, layer by layer.

    None stands for an expert without a width: such a file can be read, and the checker reports it.
    """

    problem: Literal["bitwidth"] = "bitwidth"
    bits: tuple[tuple[Count | None, ...], ...]
