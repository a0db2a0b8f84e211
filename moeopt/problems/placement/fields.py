"""Fields of an instance and what makes them valid: times, what rules may know, steps."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from moeopt.core.envelope import Count, Data, Nanoseconds, absent, field_error

Ints = NDArray[np.int64]

MAX_TABLE = 2**16

MAX_WIDTHS = 256
"""Most tables besides the common ones."""

Table = Annotated[
    tuple[Nanoseconds, ...], Field(min_length=2, max_length=MAX_TABLE, fail_fast=True)
]
"""The time of an expert by its tokens; beyond the end the last slope continues."""

Tables = Annotated[tuple[Table, ...], Field(min_length=1, max_length=MAX_WIDTHS, fail_fast=True)]


def expert_ns(table: Sequence[int], tokens: int) -> int:
    """Return what a table of times says; beyond its end the last slope continues."""
    last = len(table) - 1
    if tokens <= last:
        return table[tokens]
    return table[last] + (tokens - last) * (table[last] - table[last - 1])


def check_start(at: list[str | int], table: Sequence[int]) -> None:
    """Refuse a table that takes time for nothing."""
    if table[0] != 0:
        raise field_error([*at, 0], f"no tokens cost 0, not {table[0]}")


def check_widths(
    widths: Sequence[Sequence[int]] | None, gpu: Tables | None, offload: Tables | None
) -> None:
    """Refuse widths without tables, tables without widths, and numbers beyond the tables."""
    given = {"expert_width": widths, "width_gpu_ns": gpu, "width_offload_ns": offload}
    if widths is None or gpu is None or offload is None:
        for name, field in given.items():
            if field is not None:
                others = " and ".join(other for other in given if other != name)
                raise field_error([name], f"needs {others}")
        return
    if len(gpu) != len(offload):
        reason = f"must have a table per width, {len(gpu)} as width_gpu_ns, not {len(offload)}"
        raise field_error(["width_offload_ns"], reason)
    for layer, row in enumerate(widths):
        for expert, width in enumerate(row):
            if width > len(gpu):
                reason = f"must be at most {len(gpu)}, the number of further tables, not {width}"
                raise field_error(["expert_width", layer, expert], reason)


def check_lengths(name: str, tables: Tables | None, common: Table) -> None:
    """Refuse tables that are longer or shorter than the common one of their side."""
    for number, table in enumerate(tables or ()):
        if len(table) != len(common):
            reason = f"must have {len(common)} entries, as the common table, not {len(table)}"
            raise field_error([name, number], reason)


def longest_by_width(
    steps: Sequence[Sequence[Sequence[tuple[int, int]]]],
    widths: Sequence[Sequence[int]],
    tables: tuple[Sequence[Table], Sequence[Table]],
) -> int:
    """Return what all steps take with every expert on both sides, in ns.

    Parameters
    ----------
    steps
        By step and layer: (expert, tokens).
    widths
        By layer and expert.
    tables
        For the GPU and for the other side, the common ones first.

    Raises
    ------
    PydanticCustomError
        If tokens are beyond a table whose last slope falls below 0 there.
    """
    used = Counter(
        (row[expert], tokens)
        for step in steps
        for row, active in zip(widths, step, strict=True)
        for expert, tokens in active
    )
    total = 0
    for name, of_side in zip(("width_gpu_ns", "width_offload_ns"), tables, strict=True):
        for (width, tokens), times in used.items():
            ns = expert_ns(of_side[width], tokens)
            if ns < 0:
                reason = f"{tokens} tokens are beyond a table whose slope falls below 0"
                raise field_error([name, width - 1], reason)
            total += times * ns
    return total


MAX_LAYERS = 1024
MAX_EXPERTS = 4096
MAX_SCALE = 2**30

_Row = Annotated[tuple[Count, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]

PerExpert = Annotated[tuple[_Row, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
"""A number per expert, by layer."""

TABLES = ("prefill_counts", "prefill_scores", "profile_counts")


class Known(Data):
    """How much each expert was used before the steps, by layer and expert; each may be absent.

    Parameters
    ----------
    prefill_counts
        Tokens that chose each expert in the prompts of the sequences whose decoding the steps are:
        what context-aware CXL-NDP 4.1 and the edge GPU-NDP paper's pre-fetching collect.
    prefill_scores
        Routing weights that those tokens gave each expert, summed, in units of 1 / `score_scale`.
    score_scale
        What a routing weight of 1 is as an integer; given with `prefill_scores`, and only then.
    profile_counts
        Tokens that chose each expert in an offline profile, as of KTransformers and Fiddler: other
        sequences of the trace, or the steps before these.
    """

    prefill_counts: Annotated[PerExpert | None, Field(exclude_if=absent)] = None
    prefill_scores: Annotated[PerExpert | None, Field(exclude_if=absent)] = None
    score_scale: Annotated[
        int | None, Field(strict=True, ge=1, le=MAX_SCALE, exclude_if=absent)
    ] = None
    profile_counts: Annotated[PerExpert | None, Field(exclude_if=absent)] = None

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.prefill_counts is None and self.profile_counts is None:
            raise field_error([], "must have prefill_counts or profile_counts")
        if self.prefill_scores is not None and self.prefill_counts is None:
            raise field_error(["prefill_scores"], "needs prefill_counts")
        if (self.prefill_scores is None) != (self.score_scale is None):
            raise field_error(["score_scale"], "must be given with prefill_scores, and only then")
        return self

    def check_shape(self, layers: int, experts: int) -> None:
        """Refuse tables of another shape than the instance's."""
        for name in TABLES:
            table = getattr(self, name)
            if table is not None:
                check_per_expert([name], table, layers, experts)


def check_per_expert(at: list[str | int], table: PerExpert, layers: int, experts: int) -> None:
    """Refuse a table that has not one number for each expert of each layer."""
    if len(table) != layers:
        raise field_error(at, f"must have one list per layer, {layers}, not {len(table)}")
    for layer, row in enumerate(table):
        if len(row) != experts:
            reason = f"must have one entry per expert, {experts}, not {len(row)}"
            raise field_error([*at, layer], reason)


MAX_STEPS = 2**20

Active = tuple[Count, Count]
"""An expert and its tokens."""

Layer = Annotated[tuple[Active, ...], Field(max_length=MAX_EXPERTS, fail_fast=True)]
"""The experts of a layer with tokens in one step."""

Step = Annotated[tuple[Layer, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]


@dataclass(frozen=True)
class Entries:
    """Experts with tokens, in the order of the steps; a row is one layer of one step.

    Attributes
    ----------
    ends
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    row, expert, gpu_ns, offload_ns
        By entry: its row, the expert, and its time on both sides.
    """

    ends: Ints
    row: Ints
    expert: Ints
    gpu_ns: Ints
    offload_ns: Ints

    def by_row(self, values: NDArray[Any]) -> Ints:
        """Return the sums of values of each row."""
        return np.diff(np.concatenate(([0], np.cumsum(values)))[self.ends])


def check_active(at: list[str | int], active: Layer, experts: int) -> None:
    """Refuse experts that do not exist, stand twice or have no tokens."""
    seen: set[int] = set()
    for place, (expert, tokens) in enumerate(active):
        if expert >= experts:
            reason = f"must be below experts = {experts}, not {expert}"
            raise field_error([*at, place, 0], reason)
        if expert in seen:
            raise field_error([*at, place, 0], f"expert {expert} stands twice")
        if tokens < 1:
            raise field_error([*at, place, 1], "must be at least 1: others are left out")
        seen.add(expert)
