"""docs/fidelity.md: published figures beside ours, in brief."""

from collections.abc import Sequence

from benchmarks.papers.figure import INPUT, NOT_COMPUTABLE, Figure
from benchmarks.papers.report.markdown import plain, table
from benchmarks.papers.report.words import TITLES, by_paper, cells, summary, tally

INTRODUCTION = """# Fidelity: the published figures, and ours

For whoever asks how far the models agree with the five papers. Written by
`python -m benchmarks.papers --markdown`; do not edit.

The verdict looks at no result: it is the worst error (ours / published - 1, 0 inside a published
range) anywhere in the 95 % intervals of a figure. "Reproduces" is up to 5 %, then within 10 %,
within 25 %, no. Drawn values are means over six seeds. Where a paper leaves open which trace,
reading or grid it used, the value is that of the farthest one, or the mean if they are many. Kinds:
*predicted* from stated numbers alone; *assumed* with a source for the assumption; *selected* as it
fits, which is weak evidence; *limit*, which knows what no system can know; *input*, a parameter or
a stated cap, so that nothing is predicted and the figure has no row.

`python -m benchmarks.papers ID` adds intervals, errors, assumptions, remarks, and the figure for
the best baseline and the exact decision. `--sweep all` moves every parameter that a paper leaves
open. `--report DIR` writes all of it, with the places where papers contradict themselves.
"""

HEAD = ("id", "where", "quantity", "published", "ours", "kind")


def fidelity_page(figures: Sequence[Figure]) -> str:
    """Return the page."""
    parts = [INTRODUCTION, "## In short\n", f"{summary(figures)}\n"]
    verdicts = [(verdict, str(count), *rest) for verdict, count, *rest in tally(figures)]
    parts.append(table(("verdict", "figures", "kinds", "ids"), verdicts))
    for paper, found in by_paper(figures).items():
        rows = [_row(figure) for figure in found if figure.verdict not in (INPUT, NOT_COMPUTABLE)]
        parts += [f"## {TITLES[paper]}\n", table(HEAD, rows)]
        reasons: dict[str, list[str]] = {}
        for figure in found:
            if figure.verdict == NOT_COMPUTABLE:
                reasons.setdefault(_reason(figure), []).append(figure.published.id)
        if reasons:
            missing = "; ".join(f"{', '.join(ids)}: {why}" for why, ids in reasons.items())
            parts.append(f"Not computable are {missing}.\n")
    return "\n".join(parts)


def _row(figure: Figure) -> list[str]:
    name, published, ours, _, _, kind, _ = cells(figure)
    quantity = figure.published.quantity.replace("_", " ")
    condition = f" ({figure.published.condition})" if figure.published.condition else ""
    texts = (name, figure.published.where, quantity + condition, published, ours, kind)
    return [plain(text) for text in texts]


def _reason(figure: Figure) -> str:
    """Return why a figure cannot be computed: the first clause of its remark."""
    return plain(figure.ours.note.partition(";")[0].rstrip("."))
