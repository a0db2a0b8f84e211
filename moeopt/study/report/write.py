"""Writing the report's file."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from moeopt.problems.json_files import write_bytes
from moeopt.study.report.study import Study
from moeopt.study.rows import Row
from moeopt.study.store import Store

FILE = "index.html"

NEEDED = ("jinja2", "matplotlib")
"""The extra `report`."""


def missing() -> list[str]:
    """Return which of the packages that a report needs are not installed."""
    return [name for name in NEEDED if find_spec(name) is None]


def write_report(rows: Sequence[Row], store: Store, folder: Path, command: str = "") -> Path:
    """Write ``index.html`` into a folder that exists, and return the file.

    Parameters
    ----------
    rows
        What the report is about.
    store
        Where the rows' instances are, and the solves that failed.
    command
        What makes the report again; it is shown beside every figure and table.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    from moeopt.study.report.html import to_html

    file = folder / FILE
    write_bytes(to_html(Study.of(rows, store, command)).encode(), file)
    return file
