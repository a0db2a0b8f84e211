"""What ``moeopt gap`` writes into folders: --report gap.csv and HTML, --figures PDF and SVG."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.study.rows import Row
    from moeopt.study.store import Store


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
    from moeopt.core.json_files import write_bytes
    from moeopt.study.export import to_csv
    from moeopt.study.report.write import FILE, missing
    from moeopt.study.report.write import write_report as write_html

    if folder.exists() and not folder.is_dir():
        raise InputError(f"--report: {folder} is a file: must be a folder")
    with _made("--report", folder):
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


@contextmanager
def _made(flag: str, folder: Path) -> Iterator[None]:
    """Make a folder, and tell why it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        raise InputError(f"{flag}: {folder}: {error.strerror}") from None


def need_extra(option: str) -> None:
    """Refuse an option before anything is solved if its extra is not installed.

    Raises
    ------
    InputError
        If a package is missing.
    """
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
    from moeopt.study.report.write import write_figures as write_all

    with _made("--figures", folder), opened(kept) as store:
        write_all(rows, store, folder)


def opened(kept: "Path | Store") -> "AbstractContextManager[Store]":
    """Return a store that is left as it was: closed if it was a file."""
    from moeopt.study.store import Store

    return nullcontext(kept) if isinstance(kept, Store) else Store(kept, create=False)
