"""The report as one HTML file that needs no other, and writing it."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from moeopt.core.json_files import write_bytes
from moeopt.core.lazy import installed
from moeopt.study.report import words
from moeopt.study.report.study import Study
from moeopt.study.rows import Row
from moeopt.study.store import Store
from moeopt.study.table import percent, shown_interval

FILE = "index.html"

NEEDED = ("jinja2", "matplotlib")
"""The extra `report`."""

MOST_FAILURES = 50
"""So many failures are listed."""


HERE = Path(__file__).parent


def script() -> str:
    """Return the one script of a report."""
    return (HERE / "report.js").read_text(encoding="utf-8")


@cache
def policy() -> str:
    """Return what a browser may do with a report: run its script, and load nothing."""
    digest = b64encode(hashlib.sha256(script().encode()).digest()).decode()
    return (
        "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; "
        f"script-src 'sha256-{digest}'"
    )


def to_html(study: Study) -> str:
    """Return the report of a study; the packages of the extra are imported now."""
    from jinja2 import Environment, FileSystemLoader
    from markupsafe import Markup

    from moeopt.study.report.sections import sections

    loader = FileSystemLoader(HERE)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found = words.takeaways(study)
    versions, machines = words.tally(study)
    labels = study.labels
    solves = len({row.key for row in study.rows if not row.failed})
    given = {
        "script": Markup(script()),  # noqa: S704 - a file of the package
        "policy": policy(),
        "opening": words.opening(found, solves),
        "sections": sections(study),
        "failures": [
            (study.name_of(key.instance), labels[key], failure)
            for key, failure in study.failures[:MOST_FAILURES]
        ],
        "more_failures": max(0, len(study.failures) - MOST_FAILURES),
        "versions": versions,
        "machines": machines,
        "command": study.command,
        "sentence": words.sentence,
        "amount": words.amount,
        "seconds": words.seconds,
        "percent": percent,
        "interval": shown_interval,
    }
    return environment.get_template("report.html.j2").render(given)


def missing() -> list[str]:
    """Return which of the packages that a report needs are not installed."""
    return [name for name in NEEDED if not installed(name)]


def write_report(
    rows: Sequence[Row],
    store: Store,
    folder: Path,
    command: str = "",
    assumed: Mapping[tuple[str, str], str] | None = None,
) -> Path:
    """Write ``index.html`` into a folder that exists, and return the file.

    Parameters
    ----------
    rows
        What the report is about.
    store
        Where the rows' instances are, and the solves that failed.
    command
        What makes the report again; it is shown at the end.
    assumed
        Median excess over assumptions, as `moeopt.study.assumptions.spans` returns it.

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    file = folder / FILE
    write_bytes(to_html(Study.of(rows, store, command, assumed)).encode(), file)
    return file
