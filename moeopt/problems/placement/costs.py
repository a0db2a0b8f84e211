"""What an expert takes on either side, by its tokens: tables, one for all or one per bit width."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Nanoseconds, field_error

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
