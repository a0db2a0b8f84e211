"""docs/fidelity.md: published figures beside ours, in brief."""

from collections.abc import Sequence

from benchmarks.papers.figure import INPUT, NOT_COMPUTABLE, OPEN, Figure
from benchmarks.papers.report.markdown import plain, table
from benchmarks.papers.report.words import TITLES, by_paper, cells, joined, percent, summary, tally

INTRODUCTION = """# Fidelity: the published figures, and ours

Written by `python -m benchmarks.papers --markdown`; do not edit.

The verdict looks at no result: it is the worst error (ours / published - 1, 0 inside a published
range) anywhere in the 95 % intervals of a figure. "Reproduces" is up to 5 %, then within 10 %,
within 25 %, no. Drawn values are means over six seeds. Where a paper leaves open which trace,
reading or grid it used, the value is that of the farthest one, or the mean if they are many. Kinds:
*predicted* from stated numbers alone; *assumed* with a source for the assumption; *selected* as it
fits, which is weak evidence; *limit*, which knows what no system can know; *input*, a parameter, a
stated cap or arithmetic on a paper's own numbers, so that nothing is predicted and the figure has
no row. *Not computable* is what a paper does not define or state, *open* what needs a part that the
package lacks.

`python -m benchmarks.papers ID` adds intervals, errors, assumptions, remarks, and the figure for
the best baseline. `--sweep all` moves every parameter that a paper leaves
open. `--report DIR` writes all of it, with the places where papers contradict themselves.
"""

CEILINGS = {
    "T3": "layout and schedule of every step, known loads",
    "T3e": "the same",
    "T4": "the same",
    "T4e": "the same",
    "T12": "the same",
    "T5": "schedule, known loads",
    "T6": "the same",
    "T7": "layout and schedule of every step, known loads",
    "T5xT6xT7": "the same",
    "K5": "deferred experts of every layer",
    "K15": "the same",
    "E2": "slices of every expert",
    "E3": "the same, with the experts that were prefetched",
    "E4": "the same",
    "E6": "the same",
    "E7": "the same",
    "C2d": "experts on the GPU, from the same prompt",
    "C3d": "the same",
    "C4d": "the same",
    "C8": "the same",
    "G4": "ways of every layer",
    "G5": "the same",
    "G6": "the same",
    "G11": "the same",
}
"""Headline speedups, and which decision is made exactly in place of the paper's rule."""

CEILING = """## Ceilings

What the paper's system would reach here with the best decision that there is, all else equal:
proven optima in place of its rules. No rule can be better in this model, so that what is published
above it needs another machine or other loads. The last column is what the paper's rule leaves.
"""

HEAD = ("id", "where", "quantity", "published", "ours", "kind")


def fidelity_page(figures: Sequence[Figure]) -> str:
    """Return the page."""
    parts = [INTRODUCTION, "## In short\n", f"{summary(figures)}\n"]
    verdicts = [(verdict, str(count), *rest) for verdict, count, *rest in tally(figures)]
    parts.append(table(("verdict", "figures", "kinds", "ids"), verdicts))
    ceilings = [_ceiling(figure) for figure in figures if figure.published.id in CEILINGS]
    if ceilings:
        head = ("id", "published", "ours", "with the best decision", "which one", "left")
        parts += [CEILING, table(head, ceilings)]
    for paper, found in by_paper(figures).items():
        rows = [_row(figure) for figure in found if figure.verdict not in WITHOUT_ROW]
        parts += [f"## {TITLES[paper]}\n", table(HEAD, rows)]
        parts += _reasons("Not computable are", found, NOT_COMPUTABLE)
        parts += _reasons("Open are", found, OPEN)
        parts += _reasons("Open in part, or a miss whose cause is open, are", found, "")
    return "\n".join(parts)


WITHOUT_ROW = (INPUT, NOT_COMPUTABLE, OPEN)


def _reasons(begin: str, figures: Sequence[Figure], verdict: str) -> list[str]:
    """Return a sentence with the figures of a verdict by reason; "" stands for those with a row."""
    ids: dict[str, list[str]] = {}
    for figure in figures:
        why = figure.ours.missing or (_reason(figure) if verdict else "")
        has_row = figure.verdict not in WITHOUT_ROW
        if why and (has_row if verdict == "" else figure.verdict == verdict):
            ids.setdefault(plain(why), []).append(figure.published.id)
    said = "; ".join(f"{', '.join(names)}: {why}" for why, names in ids.items())
    return [f"{begin} {said}.\n"] if said else []


def _ceiling(figure: Figure) -> list[str]:
    ours, best = figure.ours.values, figure.ours.optimum
    gains = 1 if figure.published.unit == "fraction" else 0
    left = [
        None if value is None or most is None else (gains + most) / (gains + value) - 1
        for value, most in zip(ours, best, strict=True)
    ]
    texts = (
        figure.published.id,
        f"{figure.published.text} {figure.published.unit}".strip(),
        joined(ours),
        joined(best),
        CEILINGS[figure.published.id],
        " / ".join(map(percent, left)),
    )
    return [plain(text) for text in texts]


def _row(figure: Figure) -> list[str]:
    name, published, ours, _, _, kind, _ = cells(figure)
    quantity = figure.published.quantity.replace("_", " ")
    condition = f" ({figure.published.condition})" if figure.published.condition else ""
    texts = (name, figure.published.where, quantity + condition, published, ours, kind)
    return [plain(text) for text in texts]


def _reason(figure: Figure) -> str:
    """Return why a figure cannot be computed: the first clause of its remark."""
    return figure.ours.note.partition(";")[0].rstrip(".")
