"""The report as one HTML file that needs no other, and writing it."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from moeopt.problems.json_files import write_bytes
from moeopt.study.report import words
from moeopt.study.report.study import Study
from moeopt.study.rows import Row
from moeopt.study.store import Store
from moeopt.study.table import percent

FILE = "index.html"

NEEDED = ("jinja2", "matplotlib")
"""The extra `report`."""

MOST_FAILURES = 50
"""So many failures are listed."""


def to_html(study: Study) -> str:
    """Return the report; the packages of the extra are imported now."""
    from jinja2 import Environment, FileSystemLoader

    from moeopt.study.report.sections import sections

    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found = words.takeaways(study)
    versions, machines = words.tally(study)
    labels = study.labels
    solves = len({row.key for row in study.rows if not row.failed})
    return environment.get_template("report.html.j2").render(
        opening=words.opening(found, solves),
        takeaways=found,
        sections=sections(study),
        failures=[
            (study.name_of(key.instance), labels[key], failure)
            for key, failure in study.failures[:MOST_FAILURES]
        ],
        more_failures=max(0, len(study.failures) - MOST_FAILURES),
        versions=versions,
        machines=machines,
        command=study.command,
        sentence=words.sentence,
        amount=words.amount,
        seconds=words.seconds,
        percent=percent,
    )


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
    file = folder / FILE
    write_bytes(to_html(Study.of(rows, store, command)).encode(), file)
    return file


def write_figures(rows: Sequence[Row], store: Store, folder: Path) -> list[Path]:
    """Write each of the report's figures as a PDF and an SVG into a folder that exists.

    Parameters
    ----------
    rows, store
        As in `write_report`.

    Returns
    -------
    list of Path
        The files, named after problem, rule and what is shown: ``tri_domain-profile.pdf``.

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    from moeopt.study.report.plots import save
    from moeopt.study.report.sections import sections

    return [
        file
        for section in sections(Study.of(rows, store, ""))
        for picture in section.pictures
        for file in save(picture.draw, folder, picture.key)
    ]
