"""``moeopt gap``: methods against the optimum, as tables and CSV."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from moeopt.cli.options import Seed, TimeLimit, Workers, shown

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rich.console import Console

    from moeopt.gap.study import Row
    from moeopt.gap.table import Summary


def gap_command(
    paths: Annotated[list[Path], typer.Argument(help="Instance files or folders of them.")],
    methods: Annotated[
        str | None, typer.Option("--methods", help="Comma-separated; default: every heuristic.")
    ] = None,
    time_limit: TimeLimit = 60.0,
    seed: Seed = 0,
    workers: Workers = 1,
    report: Annotated[
        Path | None, typer.Option("--report", help="Folder for gap.csv, every number of the run.")
    ] = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the summary as Markdown, without times.")
    ] = False,
) -> int:
    """Print how far methods are above the optimum, per instance and per family."""
    from moeopt.gap.table import summarise, to_markdown

    rows = _run(paths, methods, time_limit, seed, workers)
    if report is not None:
        _write(rows, report)
    if markdown:
        print(to_markdown(summarise(rows)), end="")
        return 0
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 200)
    _print_instances(console, rows)
    _print_summary(console, summarise(rows))
    return 0


def _run(
    paths: list[Path], methods: str | None, time_limit: float, seed: int, workers: int
) -> list["Row"]:
    import moeopt
    from moeopt.cli.progress import counting

    names = [name.strip() for name in methods.split(",")] if methods is not None else None
    expected = 0
    with counting() as show:

        def on_start(done: int, total: int, instance: str, method: str) -> None:
            nonlocal expected
            expected = total
            show(done, total, instance, method)

        rows = moeopt.gap(
            paths, names, time_limit_s=time_limit, seed=seed, workers=workers, on_start=on_start
        )
    if len(rows) < expected:
        print(f"moeopt: interrupted: {len(rows)} of {expected} solves done", file=sys.stderr)
    return rows


def _write(rows: "Sequence[Row]", folder: Path) -> None:
    from moeopt.errors import InputError
    from moeopt.gap.table import to_csv
    from moeopt.problems.json_files import write_bytes

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(to_csv(rows).encode(), folder / "gap.csv")
    except OSError as error:
        raise InputError(f"--report: {folder}: {error.strerror}") from None


def _print_instances(console: "Console", rows: "Sequence[Row]") -> None:
    """Print a row per instance: the proven optimum or the bracket, and every method's excess."""
    from rich.markup import escape
    from rich.table import Table

    from moeopt.gap.table import percent
    from moeopt.problems.objective import entries

    methods = list(dict.fromkeys(row.result.method for row in rows))
    table = Table("instance", "best known", "bound", *methods, title="excess over the optimum")
    by_instance: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        by_instance.setdefault((row.family, row.result.instance), []).append(row)
    for (_, instance), group in by_instance.items():
        known = [row.result.objective for row in group if row.result.objective is not None]
        cells = {row.result.method: _excess(row, percent) for row in group}
        problem = group[0].result.problem
        best = shown(problem, min(known, key=entries, default=None))
        bound = shown(problem, group[0].best_bound)
        table.add_row(escape(instance), best, bound, *(cells.get(m, "") for m in methods))
    console.print(table)


def _excess(row: "Row", percent: "Callable[[float | None], str]") -> str:
    if row.excess is not None:
        return percent(row.excess)
    return "-" if row.excess_at_most is None else f"<= {percent(row.excess_at_most)}"


def _print_summary(console: "Console", summaries: "Sequence[Summary]") -> None:
    from rich.markup import escape
    from rich.table import Table

    from moeopt.gap.table import percent

    table = Table(
        *("family", "method", "instances", "proven", "optimal", "median", "p95", "max"),
        *("median s", "bottleneck"),
        title="excess by family",
    )
    for s in summaries:
        shares = (s.optimal, s.excess_median, s.excess_p95, s.excess_max)
        ended = ", ".join(f"{device} {n}" for device, n in sorted(s.bottlenecks.items()))
        counts = (str(s.instances), str(s.proven))
        seconds = f"{s.seconds_median:.4f}"
        table.add_row(escape(s.family), s.method, *counts, *map(percent, shares), seconds, ended)
    console.print(table)
