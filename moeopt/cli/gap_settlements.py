"""``moeopt gap --settlements``: excess under every reading of what the papers leave open."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.table import Table

from moeopt.cli.options import rich_console, rich_text, table_width

if TYPE_CHECKING:
    from moeopt.study.settlements import Reading
    from moeopt.study.store import Store

SOLVING = (
    *("paths", "methods", "time_limit", "work_limit", "store", "resume", "jobs", "csv", "markdown"),
    *("settlements", "report", "traces"),
)
"""The parameters of ``moeopt gap`` that mean something with --settlements."""

JOINTLY = (
    *("paths", "methods", "time_limit", "work_limit", "jobs", "csv", "traces"),
    *("all_settlements", "points"),
)
"""Those that do with --settlements all."""


def settlements_command(
    paths: Sequence[Path],
    methods: Sequence[str] | None,
    time_limit_s: float | None,
    work_limit: float | None,
    *,
    store: "Path | Store",
    resume: bool,
    jobs: int,
    csv: Path | None,
    markdown: bool,
    traces: Path | None = None,
) -> "tuple[Sequence[Reading], int]":
    """Solve, print the table, write it to `csv` if asked; return the readings and the exit code."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.core.errors import InputError
    from moeopt.study.export import write_text
    from moeopt.study.settlements import sensitivity, to_csv, to_markdown

    if not paths:
        raise InputError("Missing argument 'PATHS': instances or folders")
    with showing() as watch:
        readings = sensitivity(
            paths,
            methods,
            time_limit_s=time_limit_s,
            work_limit=work_limit,
            store=store,
            resume=resume,
            jobs=jobs,
            watch=watch,
            traces=traces,
        )
    if csv is not None:
        write_text(to_csv(readings), csv)
    if markdown:
        print(to_markdown(readings), end="")
    else:
        _print(readings)
    return readings, watch.exit_code


def joint_command(
    paths: Sequence[Path],
    methods: Sequence[str] | None,
    *,
    points: int,
    time_limit_s: float | None,
    work_limit: float | None,
    jobs: int,
    traces: Path | None,
    csv: Path | None,
) -> int:
    """Solve on a grid of all settlements, print each rule's range with its ends; the exit code."""
    from moeopt.cli.campaign_progress import showing
    from moeopt.core.errors import InputError
    from moeopt.study.export import write_text
    from moeopt.study.settlements import joint_sentences, joint_to_csv, jointly

    if not paths:
        raise InputError("Missing argument 'PATHS': instances or folders")
    if points < 1:
        raise InputError(f"--points: must be at least 1, not {points}")
    with showing() as watch:
        found, size = jointly(
            paths,
            methods,
            points=points,
            time_limit_s=time_limit_s,
            work_limit=work_limit,
            jobs=jobs,
            traces=traces,
            watch=watch,
        )
    if csv is not None:
        write_text(joint_to_csv(found), csv)
    print("\n".join(joint_sentences(found, size)))
    return watch.exit_code


def _print(readings: "Sequence[Reading]") -> None:
    from moeopt.study.settlements import HEADS, cells, sentences

    console = rich_console(width=table_width(200))
    table = Table(*HEADS, "optimal", title="excess over the optimum, one settlement at a time")
    for reading in readings:
        table.add_row(*map(rich_text, cells(reading)))
    console.print(table)
    for sentence in sentences(readings):
        console.print(rich_text(sentence))
