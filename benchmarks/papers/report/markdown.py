"""The report as Markdown."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from string import ascii_letters

from benchmarks.papers.contradictions import Contradiction
from benchmarks.papers.figure import Figure
from benchmarks.papers.report.document import Document
from benchmarks.papers.report.words import (
    HEAD,
    TITLES,
    by_paper,
    cells,
    joined,
    number,
    open_for,
    summary,
    tally,
)
from benchmarks.papers.sweep import Sweep

INTRODUCTION = """# Fidelity: the published figures, and ours

Written by `python -m benchmarks.papers`; do not edit.

Every headline figure of the five papers is a row, those that we miss or cannot compute too.
Error is ours / published - 1, 0 inside a published range. What is drawn is the mean over six
seeds, with the 95 % interval of that mean (Student's t); what has no interval draws nothing.

The rule of verdicts looks at no result. The worst error of a figure anywhere in its intervals
counts: up to 5 % it reproduces, then within 10 %, within 25 %, no. Where several traces,
readings or grids of ours could stand for the paper's and it does not say which, the value is
that of the one farthest off, or the mean of all where they are many. What the paper leaves
undefined is not computable, whatever one reading would give; what needs a part that the package
lacks is open, and its remark says which part. Kinds: *predicted* from stated
numbers alone; *assumed*: needs an assumption with a source of its own; *selected*: an
assumption chosen because it fits, weak evidence; *limit*: an upper limit that knows what no
system can know; *input*: a parameter of the model, one that a parameter was taken from, or one
that a stated cap decides, so that nothing is predicted. "Best baseline" and "optimum" are the
same figure for the best baseline instead of the paper's system, and with the exact decision
instead of the paper's heuristic.
"""


def to_markdown(document: Document, pictures: Mapping[str, Sequence[str]] | None = None) -> str:
    """Return the report.

    Parameters
    ----------
    pictures
        Paper -> files to show under its table.
    """
    parts = [INTRODUCTION, "## In short\n"]
    parts += [f"{summary(document.figures)}\n", _tally(document.figures)]
    for paper, figures in by_paper(document.figures).items():
        parts += [f"## {TITLES[paper]}\n", _figures(figures)]
        parts += [f"![{TITLES[paper]}]({file})\n" for file in (pictures or {}).get(paper, ())]
        parts.append(_notes(figures))
    if document.sweeps:
        parts.append("## What the papers leave open, and how much it matters\n")
        parts.append(
            "One parameter is moved at a time; `python -m benchmarks.papers --sweep NAME` repeats "
            "it.\n"
        )
        parts += [_sweep(name, sweep) for name, sweep in document.sweeps.items()]
    if document.contradictions:
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


def _notes(figures: Sequence[Figure]) -> str:
    """Return what each figure assumes; what several assume is stated once, under a letter."""
    times = Counter(clause for figure in figures for clause in figure.ours.assumptions)
    common = [clause for clause, count in times.items() if count > 1]
    letters = dict(zip(common, ascii_letters, strict=False))
    lines = [f"- ({letter}) {plain(clause)}." for clause, letter in letters.items()]
    for figure in figures:
        used = "".join(f"({letters[c]})" for c in figure.ours.assumptions if c in letters)
        own = [clause for clause in figure.ours.assumptions if clause not in letters]
        clauses = [used, *map(plain, (*own, figure.ours.note, open_for(figure)))]
        if why := "; ".join(clause.rstrip(".") for clause in clauses if clause):
            lines.append(f"- **{figure.published.id}** {why}.")
    return "\n".join(lines) + "\n"


def _sweep(name: str, sweep: Sweep) -> str:
    title = f"### {plain(sweep.parameter[:1].upper() + sweep.parameter[1:])}\n"
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
            f" *Assumed:* {plain(one.assumption)}"
        )
    return "\n".join(lines) + "\n"
