"""Figures in words and short numbers, the same in the terminal and in Markdown."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import get_args

from benchmarks.papers.figure import (
    IN_10,
    IN_25,
    INPUT,
    NO,
    NOT_COMPUTABLE,
    OPEN,
    REPRODUCES,
    Figure,
    Kind,
)
from benchmarks.papers.published import Interval

VERDICTS = (REPRODUCES, IN_10, IN_25, NO, INPUT, NOT_COMPUTABLE, OPEN)

TITLES = {
    "trimoe": "TriMoE",
    "ktransformers": "KTransformers",
    "edge_gpu_ndp": "Edge GPU-NDP",
    "context_aware_cxl_ndp": "Context-aware CXL-NDP",
    "cpu_gpu_collaborative": "CPU-GPU collaborative",
}
"""Papers, as they are called in headings."""

HEAD = ("id", "published", "ours", "95 % interval", "error", "kind", "verdict")

NOT_COUNTED = "not counted"
"""In place of a verdict, for rows that stand beside published figures."""


def number(value: float | None) -> str:
    """Return a value with three significant digits, a dash for None."""
    if value is None:
        return "-"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(error: float | None) -> str:
    """Return an error in percent, with its sign; a dash for None."""
    if error is None:
        return "-"
    rounded = round(100 * error, 1 if abs(error) < 10 else 0)
    return f"{rounded:+.1f} %" if rounded else "0 %"


def joined(values: Iterable[float | None]) -> str:
    """Return several values as published.csv writes them, an empty text for none."""
    return " / ".join(map(number, values))


def ranges(intervals: Iterable[Interval | None]) -> str:
    """Return intervals as "low-high", in one number if the ends read the same; "" for none."""
    texts = []
    for interval in intervals:
        low, high = (None, None) if interval is None else (interval.low, interval.high)
        ends = dict.fromkeys((number(low), number(high)))
        texts.append("-".join(ends))
    return " / ".join(texts)


def cells(figure: Figure) -> tuple[str, ...]:
    """Return a row of the table, in the order of `HEAD`."""
    partial = " (in part)" if figure.is_partial else ""
    return (
        figure.published.id,
        f"{figure.published.text} {figure.published.unit}".strip(),
        joined(figure.ours.values),
        ranges(figure.ours.intervals),
        " / ".join(map(percent, figure.errors)),
        figure.ours.kind,
        figure.verdict + partial,
    )


def reasons(figure: Figure) -> str:
    """Return a figure's assumptions and note as one sentence."""
    clauses = [*figure.ours.assumptions, figure.ours.note, open_for(figure)]
    return "; ".join(clause.rstrip(".") for clause in clauses if clause)


def open_for(figure: Figure) -> str:
    """Return what a figure is open for, as a clause; empty if nothing is known to be missing."""
    return f"open: {figure.ours.missing}" if figure.ours.missing else ""


def tally(figures: Sequence[Figure]) -> list[tuple[str, int, str, str]]:
    """Return for each verdict how many published figures have it, by kind, and which.

    The last row has those that are not counted, each with its verdict.
    """
    counted, others = _counted(figures)
    rows = []
    for verdict in VERDICTS:
        found = [figure for figure in counted if figure.verdict == verdict]
        kinds = Counter(figure.ours.kind for figure in found)
        words = ", ".join(f"{kinds[kind]} {kind}" for kind in get_args(Kind) if kinds[kind])
        rows.append((verdict, len(found), words, " ".join(f.published.id for f in found)))
    beside = ", ".join(f"{f.published.id}: {f.verdict}" for f in others)
    return [*rows, (NOT_COUNTED, len(others), "", beside)]


def summary(figures: Sequence[Figure]) -> str:
    """Return how many published figures come out within 5 %, as a sentence."""
    counted, _ = _counted(figures)
    found = [figure for figure in counted if figure.verdict == REPRODUCES]
    fitted = sum(figure.ours.kind == "selected" for figure in found)
    return (
        f"{len(found)} of {len(counted)} published figures come out within 5 %, {fitted} of them"
        " through an assumption that was chosen because it fits."
    )


def _counted(figures: Sequence[Figure]) -> tuple[list[Figure], list[Figure]]:
    """Return the published figures, and the rows that stand beside them."""
    counted = [figure for figure in figures if not figure.published.beside]
    return counted, [figure for figure in figures if figure.published.beside]


def by_paper(figures: Sequence[Figure]) -> dict[str, list[Figure]]:
    """Return the figures of each paper, in the order in which they come."""
    papers: dict[str, list[Figure]] = {}
    for figure in figures:
        papers.setdefault(figure.published.paper, []).append(figure)
    return papers
