"""``moeopt reproduce --measured``: measured speeds of real runtimes with ours beside them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measured.comparison import Comparison

DOCUMENT, PICTURE = "measured.md", "measured.svg"
"""Files inside the folder of --report."""


def measured_command(
    path: Path | None, as_json: bool, markdown: Path | None, report: Path | None
) -> None:
    """Print the comparison; write it where asked for."""
    from benchmarks.measured.comparison import compare

    comparison = compare(path)
    if as_json:
        for found in comparison.to_dicts():
            print(json.dumps(found))
    else:
        _print(comparison)
    if markdown is not None or report is not None:
        _write(comparison, markdown, report)


def _print(comparison: "Comparison") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from benchmarks.measured.markdown import (
        GROUP_HEAD,
        POINT_HEAD,
        SUMMARY_HEAD,
        groups,
        point_cells,
        summary_cells,
    )

    tables: list[tuple[Sequence[str], Sequence[Sequence[str]]]]
    tables = [(POINT_HEAD, [point_cells(row) for row in comparison.rows])]
    tables += [((kind, *GROUP_HEAD[1:]), rows) for kind, rows in groups(comparison).items()]
    tables.append((SUMMARY_HEAD, list(summary_cells(comparison.summary()))))
    console = Console(width=None if sys.stdout.isatty() else 200)
    for head, rows in tables:
        table = Table(*map(escape, head))
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
    if comparison.left_out:
        console.print(
            f"{len(comparison.left_out)} points cannot be expressed (--markdown says why)"
        )
    if comparison.strategies is not None:
        alike, opposed, _ = comparison.strategies.pairs()
        console.print(
            f"ktransformers' strategies: {alike} of {alike + opposed} pairs in the measured order"
        )


def _write(comparison: "Comparison", markdown: Path | None, report: Path | None) -> None:
    from benchmarks.measured.markdown import to_markdown
    from moeopt.core.errors import InputError
    from moeopt.core.json_files import write_bytes

    option, place = "--markdown", markdown
    try:
        if markdown is not None:
            write_bytes(to_markdown(comparison).encode(), markdown)
        if report is not None:
            from benchmarks.measured.picture import draw
            from moeopt.study.pictures import save_figure

            option, place = "--report", report
            report.mkdir(parents=True, exist_ok=True)
            write_bytes(to_markdown(comparison, PICTURE).encode(), report / DOCUMENT)
            save_figure(draw(comparison), report / PICTURE)
    except OSError as error:
        raise InputError(f"{option}: {place}: {error.strerror}") from None
