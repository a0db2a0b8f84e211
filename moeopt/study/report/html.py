"""The report as one HTML file that needs no other: figures are inside, every text is escaped."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from moeopt.study.report import words
from moeopt.study.report.sections import sections
from moeopt.study.report.study import Study
from moeopt.study.table import percent

MOST_FAILURES = 50
"""So many failures are listed."""


def to_html(study: Study) -> str:
    """Return the report."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    found = words.takeaways(study)
    versions, machines = words.tally(study)
    labels = study.labels
    solves = len({row.key for row in study.rows})
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
