"""The tables that ``moeopt gap`` prints: excess per instance and per family."""

from collections.abc import Sequence
from statistics import median

from rich.table import Table

from moeopt.cli.options import rich_console, rich_text, shown, table_width
from moeopt.core.objective import entries
from moeopt.study.rows import Row, named
from moeopt.study.table import (
    ALL,
    MEANING,
    OTHER_SAID,
    Summary,
    by_family,
    percent,
    shown_interval,
    standings,
    summarise,
)

MOST_INSTANCES, MOST_METHODS, MOST_LINES = 60, 20, 80
"""What is printed instance by instance, and family by family; more than that cannot be read."""


def print_tables(rows: Sequence[Row]) -> None:
    """Print a row per instance, then one per family and method.

    Where there are too many of either, only what problems come to, and where the rest is.
    """
    console = rich_console(width=table_width(200))
    summaries = summarise(rows)
    problems = list(dict.fromkeys(row.result.problem for row in rows))
    instances = len({row.key.instance for row in rows})
    methods = len({s.method for s in summaries})
    left_out = []
    if len(problems) == 1 and instances <= MOST_INSTANCES and methods <= MOST_METHODS:
        console.print(_instances(rows))
    elif rows:
        left_out.append(f"{instances} instances one by one")
    if len(summaries) > MOST_LINES:
        families = len({(s.problem, s.family) for s in summaries})
        left_out.append(f"{families} families")
        summaries = [s for one in standings(rows) for s in (one.defaults, one.others) if s]
    console.print(_families(summaries))
    if left_out:
        where = "--report DIR, --csv FILE or --markdown"
        console.print(rich_text(f"Not printed: {' and '.join(left_out)}; see {where}."))


def _instances(rows: Sequence[Row]) -> Table:
    """Return a row per instance: the proven optimum or the bracket, and every method's excess."""
    pairs = named(rows)
    methods = list(dict.fromkeys(label for label, _ in pairs))
    seeds = {row.key.seed for row in rows}
    over = f", median of {len(seeds)} seeds" if len(seeds) > 1 else ""
    title = f"excess over the optimum{over}"
    table = Table("instance", "best known", "bound", *map(rich_text, methods), title=title)
    for column in table.columns:
        column.overflow = "fold"
    by_instance: dict[tuple[str, str], dict[str, list[Row]]] = {}
    for label, row in pairs:
        cells = by_instance.setdefault((row.family, row.key.instance), {})
        cells.setdefault(label, []).append(row)
    for cells in by_instance.values():
        group = [row for solves in cells.values() for row in solves]
        known = [row.result.objective for row in group if row.result.objective is not None]
        known += [row.known.objective for row in group[:1] if row.known is not None]
        result = group[0].result
        best = shown(result.problem, min(known, key=entries, default=None))
        bound = shown(result.problem, group[0].best_bound)
        texts = [_excess(cells[m]) if m in cells else "" for m in methods]
        table.add_row(rich_text(result.instance), best, bound, *texts)
    return table


def _excess(solves: Sequence[Row]) -> str:
    exact = [row.excess for row in solves if row.excess is not None]
    if exact:
        return percent(median(exact))
    if all(row.failed for row in solves):
        return "failed"
    limits = [row.excess_at_most for row in solves if row.excess_at_most is not None]
    return f"<= {percent(median(limits))}" if limits else "-"


def _families(summaries: Sequence[Summary]) -> Table:
    failures = any(s.failed for s in summaries)
    table = Table(
        *("family", "method", "decided by", "instances", "proven", "cells", "optimal", "median"),
        *("95 %", "max", "median s", "bottleneck", *["failed"] * failures),
        title="excess by problem" if {s.family for s in summaries} == {ALL} else "excess by family",
    )
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    for family, group in by_family(summaries).items():
        for s in group:
            ended = ", ".join(f"{device} {n}" for device, n in sorted(s.bottlenecks.items()))
            shares = (percent(s.optimal), percent(s.excess_median), shown_interval(s))
            seconds = "-" if s.seconds_median is None else f"{s.seconds_median:.4f}"
            cells = [str(s.instances), str(s.proven), str(s.cells), *shares]
            cells += [percent(s.excess_max), seconds, ended, *[str(s.failed)] * failures]
            name = f"{s.method} *" if s.settled else s.method
            table.add_row(rich_text(family), rich_text(name), MEANING.get(s.kind, ""), *cells)
    if any(s.settled for s in summaries):
        table.caption = f"* {OTHER_SAID}"
    return table
