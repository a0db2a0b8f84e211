"""``python -m benchmarks.papers [ID...]``: published figures with ours beside them."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from benchmarks.rooms.cli import Json, command, main, new_app, run_app

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.papers.figure import Figure
    from benchmarks.papers.sweep import Sweep

LEAST_WIDTH = 60
"""Least width of the column of assumptions: figures with many values leave it little."""

FIGURES, SWEEPS = "figures", "sweeps"
"""Folders, inside that of --report, with one JSON file per figure or sweep."""


def papers_command(
    ids: Annotated[
        list[str] | None,
        Parameter(help="Such as T5; default: all."),
    ] = None,
    /,
    *,
    report: Annotated[
        Path | None, Parameter("--report", help="Folder for report.md and plots.")
    ] = None,
    markdown: Annotated[
        Path | None, Parameter("--markdown", metavar="FILE", help="The page docs/fidelity.md.")
    ] = None,
    resume: Annotated[
        bool, Parameter("--resume", help="Keep what --report has of this version.")
    ] = False,
    sweep: Annotated[
        list[str] | None,
        Parameter("--sweep", metavar="NAME", help="Sensitivity instead of figures; or all."),
    ] = None,
    data: Annotated[
        Path | None, Parameter("--data", help="Folder with real traces; else MOEOPT_TRACES.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Compute published figures with our models: ours, error, kind, assumptions, verdict."""
    from benchmarks.papers import data as traces
    from benchmarks.papers.run import reproduce
    from moeopt import InputError

    if resume and report is None:
        raise InputError("--resume: needs --report, the folder to go on with")
    if sweep and (ids or report or markdown):
        raise InputError("--sweep: can be used with --json and --data only")
    if report is not None:
        _require_report_extra(report)
    traces.use(data)
    if sweep:
        _sweep(sweep, as_json)
        return 0
    kept = None if report is None else report / FIGURES
    figures = []
    for figure in reproduce(ids or (), kept, resume=resume):
        figures.append(figure)
        if as_json:
            print(json.dumps(figure.to_dict()), flush=True)
    if not as_json:
        _print(figures)
    if report is not None or markdown is not None:
        _write(figures, report, markdown, resume)
    return 0


def _sweep(names: list[str], as_json: bool) -> None:
    from benchmarks.papers.sweep import sweeps

    for name, found in sweeps(names):
        if as_json:
            print(json.dumps({"sweep": name} | found.to_dict()), flush=True)
        else:
            _print_sweep(name, found)


def _print(figures: "Sequence[Figure]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from benchmarks.papers.report.words import HEAD, cells, joined, reasons, summary

    table = Table(*HEAD, "best baseline", "optimum")
    table.add_column("assumptions", min_width=LEAST_WIDTH)
    for figure in figures:
        beside = joined(figure.ours.baseline), joined(figure.ours.optimum)
        table.add_row(*map(escape, (*cells(figure), *beside, reasons(figure))))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)
    console.print(escape(summary(figures)))


def _print_sweep(name: str, found: "Sweep") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from benchmarks.papers.report.words import number

    title = f"{name}: {found.parameter}; default {found.default} ({found.source})"
    table = Table("setting", *map(escape, found.results), title=escape(title))
    for setting, values in found.rows:
        table.add_row(escape(setting), *map(number, values))
    Console(width=None if sys.stdout.isatty() else 200).print(table)


def _write(
    figures: "Sequence[Figure]", report: Path | None, markdown: Path | None, resume: bool
) -> None:
    from benchmarks.papers.report.page import fidelity_page
    from benchmarks.rooms.core import write_bytes

    if markdown is not None:
        write_bytes(fidelity_page(figures).encode(), markdown)
    if report is not None:
        from benchmarks.papers.report.document import Document
        from benchmarks.papers.report.write import write_report
        from benchmarks.papers.sweep import sweeps

        swept = dict(sweeps(["all"], report / SWEEPS, resume=resume))
        write_report(Document.of(figures, swept), report)


def _require_report_extra(report: Path) -> None:
    """Say at the start, not after minutes, that a package is missing."""
    from moeopt import InputError

    try:
        import benchmarks.papers.report.write  # noqa: F401
    except ModuleNotFoundError as error:
        reason = f"reports need {error.name} (pip install {error.name})"
        raise InputError(f"--report: {report}: {reason}") from None


def run(argv: "Sequence[str]") -> int:
    """Run the command line and return its exit code; errors are one line on stderr."""
    app = new_app("python -m benchmarks.papers", str(papers_command.__doc__).partition("\n")[0])
    app.default(command(papers_command))
    return run_app(app, argv)


if __name__ == "__main__":
    main(run=run)
