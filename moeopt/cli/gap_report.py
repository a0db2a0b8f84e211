"""What ``moeopt gap`` writes into folders: --report gap.csv and HTML, --figures PDF and SVG."""

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from moeopt.study.rows import Row
    from moeopt.study.store import Store

ASKED = (
    *(
        "settlements",
        "methods",
        "rules",
        "time_limit",
        "work_limit",
        "seed",
        "workers",
        "prove_again",
    ),
    *("jobs", "executor", "store", "report"),
)
"""The options that decide what a report says."""


def write_report(
    rows: "Sequence[Row]",
    kept: "Path | Store",
    folder: Path,
    command: str,
    settled: "Mapping[tuple[str, str], str] | None" = None,
) -> None:
    """Write a report on rows into a folder, which is made if need be.

    Parameters
    ----------
    kept
        The store that the rows come from.
    command
        What makes the report again, which it names.
    settled
        Median excess over settlements, if it is known.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    from moeopt.core.errors import InputError
    from moeopt.core.json_files import write_bytes
    from moeopt.study.export import to_csv
    from moeopt.study.report.write import FILE, missing
    from moeopt.study.report.write import write_report as write_html

    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_bytes(to_csv(rows).encode(), folder / "gap.csv")
        if absent := missing():
            print(
                f"moeopt: note: {folder / FILE} needs {' and '.join(absent)}: "
                "pip install 'moeopt[report]'",
                file=sys.stderr,
            )
            return
        with opened(kept) as store:
            write_html(rows, store, folder, command, settled)
    except OSError as error:
        raise InputError(f"--report: {folder}: {error.strerror}") from None


def need_extra(option: str) -> None:
    """Refuse an option before anything is solved if its extra is not installed.

    Raises
    ------
    InputError
        If a package is missing.
    """
    from moeopt.core.errors import InputError
    from moeopt.study.report.write import missing

    if absent := missing():
        raise InputError(f"{option}: needs {' and '.join(absent)}: pip install 'moeopt[report]'")


def write_figures(rows: "Sequence[Row]", kept: "Path | Store", folder: Path) -> None:
    """Write the report's figures into a folder, which is made if need be.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    from moeopt.core.errors import InputError
    from moeopt.study.report.write import write_figures as write_all

    try:
        folder.mkdir(parents=True, exist_ok=True)
        with opened(kept) as store:
            write_all(rows, store, folder)
    except OSError as error:
        raise InputError(f"--figures: {folder}: {error.strerror}") from None


def opened(kept: "Path | Store") -> "AbstractContextManager[Store]":
    """Return a store that is left as it was: closed if it was a file."""
    from moeopt.study.store import Store

    return nullcontext(kept) if isinstance(kept, Store) else Store(kept, create=False)


def flag(parameter: str) -> str:
    """Return the option of one of the command's parameters."""
    return "--with" if parameter == "rules" else f"--{parameter.replace('_', '-')}"


def command_of(ctx: typer.Context) -> str:
    """Return the command line that makes the same report; a store is used instead of solving."""
    words = ["moeopt", "gap", *map(str, ctx.params["paths"] or ())]
    for name in ASKED:
        source = ctx.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            given = ctx.params[name]
            for value in given if isinstance(given, list | tuple) else [given]:
                words += [flag(name)] if value is True else [flag(name), str(value)]
    if ctx.params["paths"] and ctx.params["store"]:
        words.append("--resume")
    return shlex.join(words)
