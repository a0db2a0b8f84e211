"""The report as one HTML file that needs no other: pictures are inside, every text is escaped."""

from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path

from jinja2 import Environment, FileSystemLoader

from benchmarks.papers.figure import IN_10, IN_25, NO, REPRODUCES
from benchmarks.papers.report import words
from benchmarks.papers.report.document import Document

CLASSES = {REPRODUCES: "reproduces", IN_10: "within-10", IN_25: "within-25", NO: "no"}
"""Verdict -> style."""


def to_html(document: Document, pictures: Mapping[str, Sequence[str]]) -> str:
    """Return the report.

    Parameters
    ----------
    pictures
        Paper -> SVG elements to show above its table.
    """
    loader = FileSystemLoader(Path(__file__).parent)
    template = Environment(loader=loader, autoescape=True).get_template("report.html.j2")
    return template.render(
        papers=words.by_paper(document.figures),
        tally=words.tally(document.figures),
        summary=words.summary(document.figures),
        sweeps=document.sweeps,
        contradictions=document.contradictions,
        pictures={
            paper: [b64encode(svg.encode()).decode() for svg in svgs]
            for paper, svgs in pictures.items()
        },
        titles=words.TITLES,
        classes=CLASSES,
        cells=words.cells,
        joined=words.joined,
        number=words.number,
        reasons=words.reasons,
    )
