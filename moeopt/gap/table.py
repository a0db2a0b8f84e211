"""Tables of a study: every row, and excess statistics per family and method."""

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import StringIO
from statistics import median

import numpy as np

from moeopt.gap.study import Row

COLUMNS = (
    "problem",
    "family",
    "instance",
    "method",
    "engine",
    "status",
    "termination",
    "objective",
    "bound",
    "optimum",
    "excess",
    "excess_at_most",
    "build_s",
    "solve_s",
    "seed",
    "workers",
)


@dataclass(frozen=True)
class Summary:
    """Excess over the proven optimum of one method on one family; None where nothing is proven.

    `proven` counts the instances with a proven optimum; `optimal` is the share of those on which
    the method reaches it. `bottlenecks` counts the bottleneck devices of its solutions.
    """

    family: str
    method: str
    instances: int
    proven: int
    optimal: float | None
    excess_min: float | None
    excess_median: float | None
    excess_p95: float | None
    excess_max: float | None
    seconds_median: float
    bottlenecks: dict[str, int]


def summarise(rows: Iterable[Row]) -> list[Summary]:
    """Return one summary per family and method, in order of first appearance."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.family, row.result.method), []).append(row)
    return [_summary(family, method, group) for (family, method), group in groups.items()]


def _summary(family: str, method: str, group: Sequence[Row]) -> Summary:
    excesses = [row.excess for row in group if row.excess is not None]
    bottlenecks: dict[str, int] = {}
    for row in group:
        if "bottleneck" in row.facts:
            device = str(row.facts["bottleneck"])
            bottlenecks[device] = bottlenecks.get(device, 0) + 1
    return Summary(
        family=family,
        method=method,
        instances=len(group),
        proven=sum(row.optimum is not None for row in group),
        optimal=sum(row.optimal for row in group) / len(excesses) if excesses else None,
        excess_min=min(excesses, default=None),
        excess_median=median(excesses) if excesses else None,
        excess_p95=float(np.quantile(excesses, 0.95)) if excesses else None,
        excess_max=max(excesses, default=None),
        seconds_median=median(row.seconds for row in group),
        bottlenecks=bottlenecks,
    )


def to_csv(rows: Sequence[Row]) -> str:
    """Return every row as CSV with full precision; unknown is an empty cell."""
    extra = sorted({name for row in rows for name in row.facts})
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, *extra])
    for row in rows:
        names = ("family", "optimum", "excess", "excess_at_most")
        own = {name: getattr(row, name) for name in names}
        cells = [own[name] if name in own else getattr(row.result, name) for name in COLUMNS]
        writer.writerow([*cells, *(row.facts.get(name) for name in extra)])
    return text.getvalue()


def to_markdown(summaries: Sequence[Summary]) -> str:
    """Return two tables, family by method, without times: the same on every machine.

    The first gives the median and the largest excess over the optimum and the share of instances
    solved to the optimum; the second counts the bottleneck devices of the schedules.
    """
    tables = [_pivot(summaries, _excess_cell)]
    if any(s.bottlenecks for s in summaries):
        tables.append(_pivot(summaries, _bottleneck_cell))
    return "\n".join(tables)


def _pivot(summaries: Sequence[Summary], cell: Callable[[Summary], str]) -> str:
    methods = list(dict.fromkeys(s.method for s in summaries))
    lines = [
        f"| family | instances | {' | '.join(f'`{method}`' for method in methods)} |",
        f"|---|---:|{'---|' * len(methods)}",
    ]
    for family in dict.fromkeys(s.family for s in summaries):
        found = {s.method: s for s in summaries if s.family == family}
        count = max(s.instances for s in found.values())
        cells = [cell(found[m]) if m in found else "" for m in methods]
        lines.append(f"| {family} | {count} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _excess_cell(s: Summary) -> str:
    if s.excess_median is None or s.excess_max is None or s.optimal is None:
        return "-"
    return f"{100 * s.excess_median:.0f} / {100 * s.excess_max:.0f} % ({100 * s.optimal:.0f} %)"


def _bottleneck_cell(s: Summary) -> str:
    return ", ".join(f"{device} {count}" for device, count in sorted(s.bottlenecks.items()))


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash if unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"
