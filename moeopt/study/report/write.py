"""The report as one HTML file that needs no other, and writing it."""

import hashlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pandas as pd

from moeopt.core.json_files import write_bytes
from moeopt.core.lazy import installed
from moeopt.study.report import words
from moeopt.study.report.study import Study
from moeopt.study.store import Store
from moeopt.study.table import percent, shown_interval

FILE = "index.html"

NEEDED = ("matplotlib",)
"""Packages of the extra `report`."""

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
    failures = study.failures
    solves = study.frame.key[study.frame.failure.isna()].nunique()
    listed = failures.head(MOST_FAILURES)
    given = {
        "script": Markup(script()),  # noqa: S704 - a file of the package
        "policy": policy(),
        "headline": words.headline(study),
        "opening": words.opening(found, solves, brief=bool(words.headline(study))),
        "sections": sections(study, found),
        "failures": list(listed.itertuples()),
        "more_failures": max(0, len(failures) - MOST_FAILURES),
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
    solves: pd.DataFrame,
    store: Store,
    folder: Path,
    command: str = "",
    assumed: Mapping[tuple[str, str], str] | None = None,
) -> Path:
    """Write ``index.html`` into a folder that exists, and return the file.

    Parameters
    ----------
    solves
        What the report is about.
    store
        Where the solves' instances are.
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
    write_bytes(to_html(Study.of(solves, store, command, assumed)).encode(), file)
    return file
