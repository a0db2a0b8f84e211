"""Excess statistics per family and method, and tables of them in Markdown and LaTeX."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from moeopt.core.escaping import latex_text, markdown_code, markdown_text
from moeopt.study.rows import Row, named


@dataclass(frozen=True)
class Summary:
    """Excess over the proven optimum of one method on one family; None where nothing is proven.

    `method` says the time limit as well where the study has several. `proven` counts the instances
    with a proven optimum; `optimal` is the share of the solves of those that reach it.
    `bottlenecks` counts the bottleneck devices of its solutions. `failed` counts the solves that
    have no result; `seconds_median` is of the others. `knew` says by which information about loads
    the method decided; empty for exact methods and users' rules.
    """

    problem: str
    family: str
    method: str
    instances: int
    proven: int
    optimal: float | None
    excess_min: float | None
    excess_median: float | None
    excess_p95: float | None
    excess_max: float | None
    seconds_median: float | None
    bottlenecks: dict[str, int]
    failed: int = 0
    knew: str = ""


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """Return one summary per family and method, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for label, row in named(list(rows)):
        groups.setdefault((row.result.problem, row.family, label), []).append(row)
    return [_summary(*which, group) for which, group in groups.items()]


def _summary(problem: str, family: str, method: str, group: Sequence[Row]) -> Summary:
    excesses = [row.excess for row in group if row.excess is not None]
    seconds = [row.seconds for row in group if not row.failed]
    bottlenecks: dict[str, int] = {}
    for row in group:
        if "bottleneck" in row.facts:
            device = str(row.facts["bottleneck"])
            bottlenecks[device] = bottlenecks.get(device, 0) + 1
    return Summary(
        problem=problem,
        family=family,
        method=method,
        instances=len({row.key.instance for row in group}),
        proven=len({row.key.instance for row in group if row.optimum is not None}),
        optimal=sum(row.optimal for row in group) / len(excesses) if excesses else None,
        excess_min=min(excesses, default=None),
        excess_median=median(excesses) if excesses else None,
        excess_p95=float(np.quantile(excesses, 0.95)) if excesses else None,
        excess_max=max(excesses, default=None),
        seconds_median=median(seconds) if seconds else None,
        bottlenecks=bottlenecks,
        failed=len(group) - len(seconds),
        knew=", or ".join(dict.fromkeys(str(r.facts["knew"]) for r in group if "knew" in r.facts)),
    )


def to_markdown(summaries: Sequence[Summary]) -> str:
    """Return tables, family by method, without times: the same on every machine.

    The first gives the median and the largest excess over the optimum and the share of instances
    solved to the optimum, of those whose optimum is proven, and below each method the information
    about loads that it decided by; the second counts the bottleneck devices of the schedules.
    Several problems have tables of their own, under headings, as their methods differ.
    """
    problems = list(dict.fromkeys(s.problem for s in summaries))
    if len(problems) == 1:
        return _tables(summaries)
    parts = [[s for s in summaries if s.problem == name] for name in problems]
    return "\n".join(
        f"### {name}\n\n{_tables(part)}" for name, part in zip(problems, parts, strict=True)
    )


def _tables(summaries: Sequence[Summary]) -> str:
    tables = [_pivot(summaries, _excess_cell, _knew(summaries))]
    if any(s.bottlenecks for s in summaries):
        tables.append(_pivot(summaries, _bottleneck_cell))
    return "\n".join(tables)


def _knew(summaries: Sequence[Summary]) -> dict[str, str]:
    """Return by which information each method decided, where that is known."""
    found: dict[str, dict[str, None]] = {}
    for s in summaries:
        if s.knew:
            found.setdefault(s.method, {}).update(dict.fromkeys(s.knew.split(", or ")))
    return {method: ", or ".join(words) for method, words in found.items()}


def _pivot(
    summaries: Sequence[Summary],
    cell: Callable[[Summary], str],
    knew: Mapping[str, str] | None = None,
) -> str:
    methods = list(dict.fromkeys(s.method for s in summaries))
    lines = [
        f"| family | instances | {' | '.join(map(_head, methods))} |",
        f"|---|---:|{'---|' * len(methods)}",
    ]
    if knew:
        lines.append(f"| *decided by* | | {' | '.join(knew.get(m, '') for m in methods)} |")
    for family, group in by_family(summaries).items():
        found = {s.method: s for s in group}
        count, proven = max(s.instances for s in group), max(s.proven for s in group)
        shown = f"{count}" if proven == count else f"{count}, {proven} proven"
        cells = [cell(found[m]) if m in found else "" for m in methods]
        lines.append(f"| {markdown_text(family)} | {shown} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _head(label: str) -> str:
    """Return a method's label with its name set as code."""
    name, bracket, said = label.partition(" (")
    return f"{markdown_code(name)}{bracket}{markdown_text(said)}"


def to_latex(summaries: Sequence[Summary]) -> str:
    """Return a table for a paper: family by method, excess in per cent, share solved to optimality.

    A `tabular` to be put into a `table` with a caption of one's own; it needs the package booktabs.
    Without times: the same on every machine.
    """
    failures = any(s.failed for s in summaries)
    columns = "lrrrrr" + "r" * failures
    heads = ["method", "instances", "proven", "median", "max", "optimal", *["failed"] * failures]
    lines = [
        r"% excess over the proven optimum in per cent; needs \usepackage{booktabs}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        rf"{' & '.join(heads)} \\",
    ]
    for family, group in by_family(summaries).items():
        lines += [
            r"\midrule",
            rf"\multicolumn{{{len(columns)}}}{{l}}{{\textit{{{latex_text(family)}}}}} \\",
        ]
        for s in group:
            shares = (s.excess_median, s.excess_max, s.optimal)
            cells = [rf"\texttt{{{latex_text(s.method)}}}", str(s.instances), str(s.proven)]
            cells += ["--" if share is None else f"{100 * share:.1f}" for share in shares]
            lines.append(rf"{' & '.join([*cells, *[str(s.failed)] * failures])} \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def by_family(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Return the summaries of each family; its name has the problem's before it if need be."""
    several = len({s.problem for s in summaries}) > 1
    groups: dict[str, list[Summary]] = {}
    for s in summaries:
        groups.setdefault(f"{s.problem}/{s.family}" if several else s.family, []).append(s)
    return groups


def _excess_cell(s: Summary) -> str:
    failed = f"{s.failed} failed" if s.failed else ""
    if s.excess_median is None or s.excess_max is None or s.optimal is None:
        return failed or "-"
    cell = f"{100 * s.excess_median:.0f} / {100 * s.excess_max:.0f} % ({100 * s.optimal:.0f} %)"
    return f"{cell}, {failed}" if failed else cell


def _bottleneck_cell(s: Summary) -> str:
    return ", ".join(f"{device} {count}" for device, count in sorted(s.bottlenecks.items()))


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash if unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"
