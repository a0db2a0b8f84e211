"""Figures in words and short numbers, the same in the terminal, Markdown and HTML."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from moeopt.reproduce.figure import (
    IN_10,
    IN_25,
    INPUT,
    NO,
    NOT_COMPUTABLE,
    REPRODUCES,
    Figure,
    Kind,
)

VERDICTS = (REPRODUCES, IN_10, IN_25, NO, INPUT, NOT_COMPUTABLE)

TITLES = {
    "trimoe": "TriMoE",
    "ktransformers": "KTransformers",
    "edge_gpu_ndp": "Edge GPU-NDP",
    "context_aware_cxl_ndp": "Context-aware CXL-NDP",
    "cpu_gpu_collaborative": "CPU-GPU collaborative",
}
"""Papers, as they are called in headings."""

HEAD = ("id", "published", "ours", "error", "kind", "verdict")


def number(value: float | None) -> str:
    """Return a value with three significant digits, a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(error: float | None) -> str:
    """Return an error in percent, with its sign; a dash for None."""
    if error is None:
        return "-"
    rounded = 100 * error if abs(error) < 10 else round(100 * error)
    return f"{rounded:+.1f} %" if rounded else "0 %"


def joined(values: Iterable[float | None]) -> str:
    """Return several values as published.csv writes them, an empty text for none."""
    return " / ".join(map(number, values))


def cells(figure: Figure) -> tuple[str, ...]:
    """Return a row of the table, in the order of `HEAD`."""
    partial = " (in part)" if figure.is_partial else ""
    return (
        figure.published.id,
        f"{figure.published.text} {figure.published.unit}".strip(),
        joined(figure.ours.values),
        " / ".join(map(percent, figure.errors)),
        figure.ours.kind,
        figure.verdict + partial,
    )


def reasons(figure: Figure) -> str:
    """Return a figure's assumptions and note as one sentence."""
    clauses = [*figure.ours.assumptions, figure.ours.note]
    return "; ".join(clause.rstrip(".") for clause in clauses if clause)


def tally(figures: Sequence[Figure]) -> list[tuple[str, int, str, str]]:
    """Return for each verdict how many figures have it, by kind, and which."""
    rows = []
    for verdict in VERDICTS:
        found = [figure for figure in figures if figure.verdict == verdict]
        kinds = Counter(figure.ours.kind for figure in found)
        words = ", ".join(f"{kinds[kind]} {kind}" for kind in get_args(Kind) if kinds[kind])
        rows.append((verdict, len(found), words, " ".join(f.published.id for f in found)))
    return rows


def by_paper(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Return the figures of each paper, in the order in which they come."""
    papers: dict[str, list[Figure]] = {}
    for figure in figures:
        papers.setdefault(figure.published.paper, []).append(figure)
    return papers
