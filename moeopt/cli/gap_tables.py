"""The tables that ``moeopt gap`` prints: by instance, by family, by reading, on later loads."""

from collections.abc import Iterable, Sequence
from math import isnan
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pandas as pd

from moeopt.cli.held_out_tables import print_held_out
from moeopt.cli.options import (
    fits,
    print_lines,
    print_table,
    shown,
)
from moeopt.cli.report import opened
from moeopt.core.objective import entries
from moeopt.core.wording import counted
from moeopt.study.frame import named
from moeopt.study.table import (
    ALL,
    MEANING,
    OTHER_SAID,
    bottlenecks_of,
    by_family,
    percent,
    rank,
    shown_interval,
    standings,
    summarise,
)

if TYPE_CHECKING:
    from moeopt.study.store import Store

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
        _print_instances(solves, asked=everything)
    families = len(found[["problem", "family"]].drop_duplicates())
    if everything:
        _print_families(list(found.itertuples()))
        return
    if families > 1 and len(found) > FEW_LINES:
        found = standings(solves)
    _print_overview(list(found.itertuples()))
    left_out = [f"{instances} one by one"] * (not few)
    left_out += [f"{families} families"] * bool((found.family == ALL).all())
    if len(solves) and left_out:
        more = f"--instances ({', '.join(left_out)})"
        print_lines([f"More: {more}, --csv FILE (every number), --report DIR (a page)."])


def _print_overview(summaries: Sequence[Any]) -> None:
    """Print a line per method, the best of each kind of information first."""
    families = by_family(summaries)
    known = ""
    if len(families) == 1:
        parts = {s.assumed: (s.instances, s.proven, s.cells) for s in summaries}
        instances, proven, cells = (sum(counts) for counts in zip(*parts.values(), strict=True))
        sure = "all proven" if proven == instances else f"{proven} of them proven"
        if single := max(s.single for s in summaries):
            sure += f" ({single} more closed by one engine, not confirmed)"
        known = f"{counted(instances, 'instance')}, {sure}, "
        known += f"{counted(cells, 'independent sample')}; "
    failures = any(s.failed for s in summaries)
    columns = ["method", "information", "optimal", "median", "95 %", "max", *["failed"] * failures]
    rows = []
    only, names = _without_what_all_share(families)
    for below, group in zip(names, families.values(), strict=True):
        for s in sorted(group, key=rank):
            name = f"{s.method} *" if s.assumed else s.method
            row = [name, SHORT.get(s.kind, ""), percent(s.optimal), percent(s.excess_median)]
            row += [shown_interval(s), percent(s.excess_max), *[str(s.failed)] * failures]
            if len(families) > 1:
                row = [below, f"{s.proven} of {s.instances}", *row]
            rows.append(row)
    if len(families) > 1:
        columns = ["family", "proven", *columns]
    title = f"{only}{known}excess over the optimum"
    several = len(families) > 1
    print_table(columns, rows, title, words=2 + 2 * several, headings=2 * several, width=WIDTH)
    if any(s.assumed for s in summaries):
        print_lines([f"* {OTHER_SAID}"])


def _without_what_all_share(families: Iterable[str]) -> tuple[str, list[str]]:
    """Return what the title says and how families are called below it.

    One family that a fact divides, such as ``esft, batch 64``, is named in the title alone.
    """
    names = [family.removesuffix(f"/{ALL}") for family in families]
    shared = {name.rpartition(", ")[0] for name in names}
    if len(names) <= 1 or len(shared) > 1 or "" in shared:
        return "", names
    return f"{shared.pop()}: ", [name.rpartition(", ")[2] for name in names]


def _print_instances(solves: pd.DataFrame, *, asked: bool) -> None:
    """Print a row per instance: the proven optimum or the bracket, and every method's excess.

    Where that is wider than the terminal there is a row per instance and method, if it was asked
    for.
    """
    pairs = named(solves)
    methods = list(dict.fromkeys(pairs.label))
    seeds = solves.seed.nunique()
    title = f"excess over the optimum{f', median of {seeds} seeds' * (seeds > 1)}"
    rows = []
    for _, group in pairs.groupby(["family", "instance_hash"], sort=False):
        first = group.iloc[0]
        known = [of for name in ("objective", "optimum") for of in group[name] if of is not None]
        best = shown(first.problem, min(known, key=entries, default=None))
        bound = shown(first.problem, first.best_bound)
        texts = [_excess(group[group.label == method]) for method in methods]
        rows.append([first.instance, best, bound, *texts])
    columns = ["instance", "best known", "bound", *methods]
    if all(best == bound for _, best, bound, *_ in rows):
        columns[1:3] = ["optimum"]
        rows = [[name, best, *texts] for name, best, _, *texts in rows]
    if fits(columns, rows, WIDE):
        print_table(columns, rows, title, words=1, width=WIDE)
        return
    if not asked:
        return
    first = len(columns) - len(methods)
    long = [
        [*row[:first], method, text]
        for row in rows
        for method, text in zip(methods, row[first:], strict=True)
    ]
    heads = [*columns[:first], "method", "excess"]
    print_table(heads, long, title, words=len(heads) - 1, headings=1, width=WIDE)


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


def _print_families(summaries: Sequence[Any]) -> None:
    failures = any(s.failed for s in summaries)
    columns = ["family", "method", "information", "instances", "proven", "samples", "optimal"]
    columns += ["median", "95 %", "max", "median s", "bottleneck", *["failed"] * failures]
    title = "excess by problem" if {s.family for s in summaries} == {ALL} else "excess by family"
    rows = []
    for family, group in by_family(summaries).items():
        for s in sorted(group, key=rank):
            shares = (percent(s.optimal), percent(s.excess_median), shown_interval(s))
            seconds = "-" if isnan(s.seconds_median) else f"{s.seconds_median:.4f}"
            cells = [str(s.instances), str(s.proven), str(s.cells), *shares]
            cells += [percent(s.excess_max), seconds, bottlenecks_of(s)]
            name = f"{s.method} *" if s.assumed else s.method
            row = [family, name, MEANING.get(s.kind, ""), *cells, *[str(s.failed)] * failures]
            rows.append(row)
    print_table(columns, rows, title, words=3, headings=1, width=WIDE)
    if any(s.assumed for s in summaries):
        print_lines([f"* {OTHER_SAID}"])


def print_later(solves: pd.DataFrame, kept: "Path | Store", markdown: bool) -> None:
    """Print a table for each problem that has instances of observed and of later loads."""
    from moeopt.study.later_loads import held_out
    from moeopt.study.report.study import Study

    with opened(kept) as store:
        study = Study.of(solves, store, "")
        tables = {
            problem: held_out(problem, of, study.optima(of), store, study.traits)
            for problem, of in study.problems.items()
        }
    for problem, found in tables.items():
        if found:
            title = f"{problem}: on test loads, excess over their own optima"
            print_held_out(found, title, markdown)
    if not any(tables.values()):
        print("no train instance has its test instance among the others")
