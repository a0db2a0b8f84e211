"""``python -m benchmarks.measured [FILE]``: measured speeds of runtimes with ours beside them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.main import main, run_app
from moeopt.cli.options import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measured.comparison import Comparison

DOCUMENT, PICTURE = "measured.md", "measured.svg"
"""Files inside the folder of --report."""


def measured_command(
    path: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A CSV file of points; else ours.")
    ] = None,
    as_json: Json = False,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="The report without picture.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--report", help="Folder for measured.md and measured.svg.")
    ] = None,
) -> int:
    """Predict measured speeds of runtimes from the other ones, and compare."""
    from benchmarks.measured.comparison import compare

    if report is not None:
        _require_report_extra(report)
    comparison = compare(path)
    if as_json:
        for found in comparison.to_dicts():
            print(json.dumps(found))
    else:
        _print(comparison)
    if markdown is not None or report is not None:
        _write(comparison, markdown, report)
    return 0


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


def _require_report_extra(report: Path) -> None:
    """Say at the start, not after minutes, that a package is missing."""
    from moeopt.core.errors import InputError

    try:
        import benchmarks.measured.picture  # noqa: F401
    except ModuleNotFoundError as error:
        reason = f"reports need {error.name}, of the extra 'report'"
        raise InputError(f"--report: {report}: {reason}") from None


def run(argv: "Sequence[str]") -> int:
    """Run the command line and return its exit code; errors are one line on stderr."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command()(measured_command)
    return run_app(app, argv, "python -m benchmarks.measured")


if __name__ == "__main__":
    main(run=run)
