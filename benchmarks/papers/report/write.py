"""Writing a report's files: report.md and a picture for each paper and chart."""

from pathlib import Path

from benchmarks.papers.report.document import Document
from benchmarks.papers.report.markdown import to_markdown
from benchmarks.papers.report.plots import chart_svg, ratios_svg
from benchmarks.papers.report.words import by_paper
from benchmarks.rooms.core import write_bytes
from moeopt import InputError

PLOTS = "plots"


def write_report(document: Document, folder: Path) -> None:
    """Write the report into a folder.

    Raises
    ------
    InputError
        If a file cannot be written.
    """
    svgs = _pictures(document)
    files = {
        paper: [f"{PLOTS}/{paper}-{number}.svg" for number in range(len(found))]
        for paper, found in svgs.items()
    }
    texts = {
        "report.md": to_markdown(document, files),
        **{
            name: svg
            for paper, found in svgs.items()
            for name, svg in zip(files[paper], found, strict=True)
        },
    }
    try:
        (folder / PLOTS).mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_bytes(text.encode(), folder / name)
    except OSError as error:
        raise InputError(f"--report: {folder}: {error.strerror}") from None


def _pictures(document: Document) -> dict[str, list[str]]:
    """Return the SVG elements of each paper: ours over published, then its charts."""
    pictures: dict[str, list[str]] = {}
    for paper, figures in by_paper(document.figures).items():
        ratios = ratios_svg(figures)
        pictures[paper] = [] if ratios is None else [ratios]
        pictures[paper] += [chart_svg(chart) for chart in document.charts.get(paper, ())]
    return pictures
