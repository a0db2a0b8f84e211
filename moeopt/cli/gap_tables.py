"""The tables that ``moeopt gap`` prints: by instance, by family, by reading, on later loads."""

from collections.abc import Iterator, Sequence
from math import isnan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich import box
from rich.table import Table

from moeopt.cli.options import (
    print_lines,
    print_table,
    rich_console,
    rich_text,
    shown,
    table_width,
)
from moeopt.cli.report import opened
from moeopt.core.objective import entries
from moeopt.core.wording import markdown_table
from moeopt.study.frame import named
from moeopt.study.table import (
    ALL,
    MEANING,
    OTHER_SAID,
    by_family,
    percent,
    rank,
    shown_interval,
    standings,
    summarise,
)

if TYPE_CHECKING:
    from moeopt.study.report.heldout import HeldOutRow
    from moeopt.study.store import Store

HELD_OUT = (
    *("method", "scheduled by", "later loads", "train", "test", "95 %", "largest"),
    *("of the possible gain", "decisions", "pairs"),
)

FEW_INSTANCES, FEW_METHODS, FEW_LINES = 8, 8, 15
"""Up to so many are printed one by one without `--instances`: as much as is read at a glance."""

WIDTH, WIDE = 100, 200
"""Columns of a page where there is no terminal, and of tables that were asked for in full."""

SHORT = {
    "none": "none",
    "before": "past loads",
    "step": "current loads",
    "hindsight": "oracle",
}
"""What of the loads a method knew, in a narrow column."""


def print_tables(solves: pd.DataFrame, *, everything: bool = False) -> None:
    """Print what the methods' excess comes to, in few lines.

    Parameters
    ----------
    everything
        Print before it a row per instance, and a line per family and method.
    """
    found = summarise(solves)
    instances, methods = solves.instance_hash.nunique(), found.method.nunique()
    one = solves.problem.nunique() <= 1
    few = instances <= FEW_INSTANCES and methods <= FEW_METHODS and one
    if few or everything:
        rich_console(width=table_width(WIDE)).print(_instances(solves))
    families = len(found[["problem", "family"]].drop_duplicates())
    if everything:
        rich_console(width=table_width(WIDE)).print(_families(list(found.itertuples())))
        return
    if families > 1 and len(found) > FEW_LINES:
        found = standings(solves)
    rich_console(width=table_width(WIDTH)).print(_overview(list(found.itertuples())))
    left_out = [f"{instances} one by one"] * (not few)
    left_out += [f"{families} families"] * bool((found.family == ALL).all())
    if len(solves) and left_out:
        more = f"--instances ({', '.join(left_out)})"
        print_lines([f"More: {more}, --csv FILE (every number), --report DIR (a page)."])


def _overview(summaries: Sequence[Any]) -> Table:
    """Return a line per method, the best of each kind of information first."""
    families = by_family(summaries)
    known = ""
    if len(families) == 1:
        parts = {s.assumed: (s.instances, s.proven, s.cells) for s in summaries}
        instances, proven, cells = (sum(counts) for counts in zip(*parts.values(), strict=True))
        sure = "all proven" if proven == instances else f"{proven} of them proven"
        if single := max(s.single for s in summaries):
            sure += f" ({single} more closed by one engine, not confirmed)"
        known = f"{instances} instances, {sure}, {cells} independent samples; "
    failures = any(s.failed for s in summaries)
    columns = ["method", "information", "optimal", "median", "95 %", "max", *["failed"] * failures]
    if len(families) > 1:
        columns = ["family", "instances", *columns]
    title = f"{known}excess over the optimum"
    table = Table(*columns, title=title, box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.padding = (0, 1, 0, 0)  # as many columns as a page has, and no name broken
    for family, group in families.items():
        for s in sorted(group, key=rank):
            name = f"{s.method} *" if s.assumed else s.method
            row = [name, SHORT.get(s.kind, ""), percent(s.optimal), percent(s.excess_median)]
            row += [shown_interval(s), percent(s.excess_max), *[str(s.failed)] * failures]
            if len(families) > 1:
                row = [family.removesuffix(f"/{ALL}"), f"{s.proven} of {s.instances}", *row]
            table.add_row(*map(rich_text, row))
    if any(s.assumed for s in summaries):
        table.caption = f"* {OTHER_SAID}"
    return table


def _instances(solves: pd.DataFrame) -> Table:
    """Return a row per instance: the proven optimum or the bracket, and every method's excess."""
    pairs = named(solves)
    methods = list(dict.fromkeys(pairs.label))
    seeds = solves.seed.nunique()
    over = f", median of {seeds} seeds" if seeds > 1 else ""
    title = f"excess over the optimum{over}"
    table = Table("instance", "best known", "bound", *map(rich_text, methods), title=title)
    for column in table.columns:
        column.overflow = "fold"
    for _, group in pairs.groupby(["family", "instance_hash"], sort=False):
        first = group.iloc[0]
        known = [of for name in ("objective", "optimum") for of in group[name] if of is not None]
        best = shown(first.problem, min(known, key=entries, default=None))
        bound = shown(first.problem, first.best_bound)
        texts = [_excess(group[group.label == method]) for method in methods]
        table.add_row(rich_text(first.instance), best, bound, *texts)
    return table


def _excess(solves: pd.DataFrame) -> str:
    if solves.empty:
        return ""
    exact = solves.excess.dropna()
    if len(exact):
        return percent(median(exact))
    if solves.failure.notna().all():
        return "failed"
    limits = solves.excess_at_most.dropna()
    return f"<= {percent(median(limits))}" if len(limits) else "-"


def _families(summaries: Sequence[Any]) -> Table:
    failures = any(s.failed for s in summaries)
    table = Table(
        *("family", "method", "information", "instances", "proven", "samples", "optimal", "median"),
        *("95 %", "max", "median s", "bottleneck", *["failed"] * failures),
        title="excess by problem" if {s.family for s in summaries} == {ALL} else "excess by family",
    )
    table.columns[0].overflow = table.columns[1].overflow = "fold"
    for family, group in by_family(summaries).items():
        for s in group:
            ended = ", ".join(f"{device} {n}" for device, n in sorted(s.bottlenecks.items()))
            shares = (percent(s.optimal), percent(s.excess_median), shown_interval(s))
            seconds = "-" if isnan(s.seconds_median) else f"{s.seconds_median:.4f}"
            cells = [str(s.instances), str(s.proven), str(s.cells), *shares]
            cells += [percent(s.excess_max), seconds, ended, *[str(s.failed)] * failures]
            name = f"{s.method} *" if s.assumed else s.method
            table.add_row(rich_text(family), rich_text(name), MEANING.get(s.kind, ""), *cells)
    if any(s.assumed for s in summaries):
        table.caption = f"* {OTHER_SAID}"
    return table


def print_held_out(solves: pd.DataFrame, kept: "Path | Store", markdown: bool) -> None:
    """Print a table for each problem that has instances of observed and of later loads."""
    from moeopt.study.report.heldout import held_out
    from moeopt.study.report.study import Study

    with opened(kept) as store:
        study = Study.of(solves, store, "")
    none = True
    for problem, of in study.problems.items():
        found = held_out(problem, of, study.instances, study.optima(of))
        none = none and not found
        if not found:
            continue
        title = f"{problem}: on test loads, excess over their own optima"
        if markdown:
            print("\n".join(["", title, "", *markdown_table(HELD_OUT, map(_cells, found), 3)]))
        else:
            print_table(HELD_OUT, map(_cells, found), title)
        for line in _proof(found):
            print(line)
    if none:
        print("no train instance has its test instance among the others")


def _cells(one: "HeldOutRow") -> list[str]:
    interval = "-" if one.interval is None else " to ".join(map(percent, one.interval))
    shares = (percent(one.known), percent(one.later), interval, percent(one.later_max))
    counts = (percent(one.share), str(one.decisions), str(one.pairs))
    return [one.method, one.schedule or "-", one.distance, *shares, *counts]


def _proof(found: "Sequence[HeldOutRow]") -> Iterator[str]:
    """Yield how far hindsight is proven, where it is not to the end."""
    for one in found:
        if one.gap:
            gap = f"proven within {percent(one.gap)} at the median"
            yield f"{one.method}, {one.distance}: {gap}; shares are counted to its bound"
