"""The report as Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from string import ascii_letters

from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.figure import NO, NOT_COMPUTABLE, Figure
from benchmarks.papers.report.document import Document
from benchmarks.papers.report.words import (
    HEAD,
    TITLES,
    by_paper,
    cells,
    joined,
    number,
    summary,
    tally,
)
from benchmarks.papers.sweep import Sweep

INTRODUCTION = """# Fidelity: the published figures, and ours

For whoever asks how far the models agree with the five papers. Written by
`python -m benchmarks.papers`; do not edit.

Every headline figure is a row, also those that we miss or cannot compute. Error is
ours / published - 1, and 0 inside a published range. Drawn values are means over six seeds with the
95 % interval of the mean (Student's t).

The verdict looks at no result. It is the worst error of a figure anywhere in its intervals:
"reproduces" up to 5 %, then within 10 %, within 25 %, no. Where a paper leaves open which trace,
reading or grid it used, the value is that of the farthest one, or the mean if they are many. What a
paper does not define is not computable. Kinds: *predicted* from stated numbers alone; *assumed*
with a source for the assumption; *selected* because it fits, which is weak evidence; *limit*, which
knows what no system can know; *input*, a parameter or a stated cap, so that nothing is predicted.
"Best baseline" and "optimum" are the same figure with the best baseline in place of the paper's
system, and with the exact decision in place of the paper's heuristic.
"""

WHOLE = """A figure's own remarks stand here only where it is missed or not computable:
`python -m benchmarks.papers ID` prints them for every figure. `--report DIR` writes the whole
report, with a table for each parameter below and the places where the papers contradict themselves.
"""


def to_markdown(
    document: Document,
    pictures: Mapping[str, Sequence[str]] | None = None,
    *,
    brief: bool = False,
) -> str:
    """Return the report.

    Parameters
    ----------
    pictures
        Paper -> files to show under its table.
    brief
        Whether to leave out contradictions, settings one by one, and the remarks on figures that
        come out.
    """
    parts = [INTRODUCTION, *([WHOLE] if brief else []), "## In short\n"]
    parts += [f"{summary(document.figures)}\n", _tally(document.figures)]
    for paper, figures in by_paper(document.figures).items():
        parts += [f"## {TITLES[paper]}\n", _figures(figures)]
        parts += [f"![{TITLES[paper]}]({file})\n" for file in (pictures or {}).get(paper, ())]
        parts.append(_notes(figures, brief))
    if document.sweeps:
        parts.append("## What the papers leave open, and how much it matters\n")
        parts.append(
            "One parameter is moved at a time; `python -m benchmarks.papers --sweep NAME` repeats "
            "it.\n"
        )
        if brief:
            parts.append("Of each parameter the figure that moves most over its settings:\n")
            parts += [*map(_widest, document.sweeps, document.sweeps.values()), ""]
        else:
            parts += [_sweep(name, sweep) for name, sweep in document.sweeps.items()]
    if document.contradictions and not brief:
        parts.append("## Where the papers do not agree with themselves\n")
        parts += [_contradictions(p, found) for p, found in document.contradictions.items()]
    return "\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [_row(head), _row(["---"] * len(head)), *map(_row, rows)]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Return a text that Markdown and HTML show as it is, on one line."""
    for sign, shown in (("&", "&amp;"), ("<", "&lt;"), ("|", "\\|"), ("*", "\\*"), ("_", "\\_")):
        text = text.replace(sign, shown)
    return " ".join(text.split())


def _row(row: Sequence[str]) -> str:
    return f"| {' | '.join(row)} |"


def _tally(figures: Sequence[Figure]) -> str:
    rows = [(verdict, str(count), *rest) for verdict, count, *rest in tally(figures)]
    return table(("verdict", "figures", "kinds", "ids"), rows)


def _figures(figures: Sequence[Figure]) -> str:
    head = ("id", "where", "quantity", *HEAD[1:], "best baseline", "optimum")
    rows = []
    for figure in figures:
        name, *rest = cells(figure)
        p, o = figure.published, figure.ours
        what = p.quantity.replace("_", " ") + (f" ({p.condition})" if p.condition else "")
        texts = (name, p.where, what, *rest, joined(o.baseline), joined(o.optimum))
        rows.append([plain(text) for text in texts])
    return table(head, rows)


def _notes(figures: Sequence[Figure], brief: bool) -> str:
    """Return what each figure assumes; what several assume is stated once, under a letter."""
    times = Counter(clause for figure in figures for clause in figure.ours.assumptions)
    common = [clause for clause, count in times.items() if count > 1]
    letters = dict(zip(common, ascii_letters, strict=False))
    lines = [f"- ({letter}) {plain(clause)}." for clause, letter in letters.items()]
    for figure in figures:
        used = "".join(f"({letters[c]})" for c in figure.ours.assumptions if c in letters)
        own = [clause for clause in figure.ours.assumptions if clause not in letters]
        note = "" if brief and figure.verdict not in (NO, NOT_COMPUTABLE) else figure.ours.note
        clauses = [used, *map(plain, (*own, note))]
        if why := "; ".join(clause.rstrip(".") for clause in clauses if clause):
            lines.append(f"- **{figure.published.id}** {why}.")
    return "\n".join(lines) + "\n"


def _title(sweep: Sweep) -> str:
    return plain(sweep.parameter[:1].upper() + sweep.parameter[1:])


def _widest(name: str, sweep: Sweep) -> str:
    """Return the result that moves most over all settings, with its ends, as one point."""
    found: list[tuple[float, str]] = []
    for column, result in enumerate(sweep.results):
        known = [value for _, row in sweep.rows if (value := row[column]) is not None]
        if known:
            low, high = min(known), max(known)
            text = f"{plain(result)} {number(low)} to {number(high)}"
            found.append((high / low if low > 0 else inf, text))
    moved = max(found, key=lambda one: one[0])[1] if found else "nothing"
    return f"- {_title(sweep)} (`{name}`, default {plain(sweep.default)}): {moved}."


def _sweep(name: str, sweep: Sweep) -> str:
    title = f"### {_title(sweep)}\n"
    note = f"; {plain(sweep.note).rstrip('.')}" if sweep.note else ""
    words = f"`{name}`. Default: {plain(sweep.default)} ({plain(sweep.source)}){note}.\n"
    rows = [(plain(at), *map(number, values)) for at, values in sweep.rows]
    return "\n".join((title, words, table(("setting", *sweep.results), rows)))


def _contradictions(paper: str, found: Sequence[Contradiction]) -> str:
    lines = [f"### {TITLES[paper]}\n"]
    for one in found:
        arithmetic = f" {plain(one.arithmetic)}" if one.arithmetic else ""
        lines.append(
            f"- **{plain(one.where)}.** {plain(one.statement)}{arithmetic}"
            f" *Settled:* {plain(one.settlement)}"
        )
    return "\n".join(lines) + "\n"
