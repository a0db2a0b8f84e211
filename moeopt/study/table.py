"""Excess statistics per family and method, and tables of them in Markdown.

A number is never over rules that knew different things of the loads, nor over instances made under
the assumptions' defaults and others: `summarise` is the one place that groups solves.
"""

from collections import Counter
from collections.abc import Sequence
from math import inf, isnan, nan
from statistics import median
from typing import Any, Literal

import numpy as np
import pandas as pd

from moeopt.core.interval import interval
from moeopt.core.problem import NOTHING, THIS_STEP
from moeopt.core.wording import markdown_code, markdown_table, markdown_text, unknown_name
from moeopt.study.frame import TAG, each_once, grouped, named
from moeopt.study.tags import LAW

Knew = Literal["", "none", "before", "step", "hindsight"]
"""By which information about loads a rule decided; empty for exact methods and users' rules."""

MEANING: dict[Knew, str] = {
    "none": "none",
    "before": "past loads",
    "step": "current loads",
    "hindsight": "oracle",
}
"""In words: what of the loads a method knew when it decided."""

ALL = "all"
"""The family that stands for all of a problem's families."""


GROUP = ("problem", "family", "method", "kind", "assumed")
"""What solves are grouped by: `method` as tables call it, `kind` of information, and whether the
instances are made under assumptions other than the defaults."""

SUMMARY = (
    *GROUP,
    *("instances", "proven", "single", "cells", "laws", "optimal", "excess_min", "excess_median"),
    *("interval_low", "interval_high", "excess_p95", "excess_max", "seconds_median", "failed"),
    *("knew", "bottlenecks"),
)
"""Columns of `summarise`.

`instances` counts all, `proven` those with a proven optimum, `single` those that one engine alone
closed, `cells` those proven ones that are independent (`moeopt.study.tags`), `laws` those cells
that are draws of a law; `optimal` is the share of the solves that reach a proven optimum. The
interval holds the median excess with 95 %, bootstrapped over traces and cells of laws. `failed`
counts the solves that have no result; `seconds_median` is of the others. `knew` says in words by
which information about loads the method decided; `bottlenecks` counts the bottleneck devices of its
solutions. Unknown is NaN.
"""


def summarise(frame: pd.DataFrame, by: Sequence[str] = GROUP) -> pd.DataFrame:
    """Return the excess over the proven optimum, a row for each group of solves.

    Parameters
    ----------
    frame
        Solves, as `moeopt.study.frame.frame_of` returns them.
    by
        Columns that make the groups, of the frame or of `GROUP`.

    Returns
    -------
    pandas.DataFrame
        Columns `by`, then those of `SUMMARY` that are not among `by`, groups in order of first
        appearance.
    """
    solves = named(frame)
    knew = solves.facts.map(lambda facts: str(facts.get("knew", "")))
    settled = solves.get("tag_settled", pd.Series("", index=solves.index))
    solves = solves.assign(
        method=solves.label, knew=knew, kind=knew.map(kind_of), assumed=settled.fillna("") != ""
    )
    # a solve that failed knew nothing that could be said: it counts where its method's others do
    told = solves[solves.failure.isna()]
    same = [name for name in by if name not in ("kind", "assumed")]
    if len(told) < len(solves) and len(same) < len(by):
        regime = told.drop_duplicates(same).set_index(same)[["kind", "assumed"]]
        for at in solves.index[solves.failure.notna()]:
            which = tuple(solves.loc[at, same]) if len(same) > 1 else solves.loc[at, same[0]]
            if which in regime.index:
                solves.loc[at, ["kind", "assumed"]] = regime.loc[which].to_list()
    groups = solves.groupby(list(by), sort=False, dropna=False)
    rest = [name for name in SUMMARY if name not in by]
    rows = [(*which, *(found[name] for name in rest)) for which, found in map(_numbers, groups)]
    return pd.DataFrame(rows, columns=[*by, *rest])


def _numbers(group: tuple[Any, pd.DataFrame]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the statistics of a group of solves."""
    which, solves = group
    known = solves[solves.excess.notna()]
    excesses = known.excess.to_list()
    seconds = solves.seconds[solves.failure.isna()]
    cells = set(tag_of(known, "cell"))
    low, high = interval(excesses, tag_of(known, "cluster")) or (nan, nan)
    names = Counter(str(f["bottleneck"]) for f in solves.facts if "bottleneck" in f)
    proven = solves.optimum.notna()
    return which, {
        **dict.fromkeys(SUMMARY, nan),
        "instances": solves.instance_hash.nunique(),
        "proven": solves.instance_hash[proven].nunique(),
        "single": solves.instance_hash[solves.single].nunique(),
        "cells": len(cells),
        "laws": sum(cell.startswith(LAW) for cell in cells),
        "optimal": solves.optimal.sum() / len(excesses) if excesses else nan,
        "excess_min": min(excesses, default=nan),
        "excess_median": median(excesses) if excesses else nan,
        "interval_low": low,
        "interval_high": high,
        "excess_p95": float(np.quantile(excesses, 0.95)) if excesses else nan,
        "excess_max": max(excesses, default=nan),
        "seconds_median": median(seconds) if len(seconds) else nan,
        "failed": int(solves.failure.notna().sum()),
        "knew": ", or ".join(filter(None, dict.fromkeys(solves.knew))),
        "bottlenecks": dict(names),
        "kind": next((kind for kind in solves.kind if kind), ""),
        "method": solves.method.iloc[0],
        "problem": solves.problem.iloc[0],
        "family": solves.family.iloc[0],
        "assumed": bool(solves.assumed.iloc[0]),
    }


def tag_of(solves: pd.DataFrame, name: str) -> list[str]:
    """Return the cells or clusters of solves; one whose store did not keep it is one of its own."""
    own, column = solves.instance_hash, solves.get(f"tag_{name}")
    found: list[str] = (own if column is None else column.fillna(own)).to_list()
    return found


def rank(s: Any) -> tuple[int, float]:
    """Return by what methods are sorted: by the kind of information, then by the median."""
    return ["", *MEANING].index(s.kind), inf if isnan(s.excess_median) else s.excess_median


def split_by(frame: pd.DataFrame, fact: str) -> pd.DataFrame:
    """Return the solves with a family for each value of a tag or fact, such as the batch.

    In the order of the values within a family; what has no such fact stays as it is, at the end.

    Raises
    ------
    InputError
        If no solve has such a fact.
    """
    facts = facts_of(frame)
    known = sorted({name for of in facts for name in of})
    if len(frame) and fact not in known:
        raise unknown_name("--by", fact, known, "facts of these rows")
    order = {family: number for number, family in enumerate(dict.fromkeys(frame.family))}
    values = [str(of.get(fact, "")) for of in facts]

    def place(at: int) -> tuple[int, float, str]:
        value = values[at]
        number = float(value) if value.isdigit() else inf
        return order[frame.family.iloc[at]], number, value

    families = [
        f"{family}, {fact} {of[fact]}" if fact in of else family
        for family, of in zip(frame.family, facts, strict=True)
    ]
    return frame.assign(family=families).iloc[sorted(range(len(frame)), key=place)]


def facts_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return what is known of each solve beside its numbers: facts, and tags of its instance."""
    tags = [name for name in frame.columns if name.startswith(TAG)]
    found = []
    for facts, *own in zip(frame.facts, *(frame[name] for name in tags), strict=True):
        said = zip(tags, own, strict=True)
        found.append(
            dict(facts) | {name.removeprefix(TAG): of for name, of in said if isinstance(of, str)}
        )
    return found


def kind_of(words: str) -> Knew:
    """Return which kind of information some words are about.

    What a rule knew at most counts, if it differs from instance to instance.
    """
    if not words:
        return ""
    if "hindsight" in words:
        return "hindsight"
    if words == NOTHING:
        return "none"
    return "step" if words == THIS_STEP else "before"


def to_markdown(summary: pd.DataFrame) -> str:
    """Return a table with a line per family and method, without times: the same on every machine.

    Within a family the best of each kind of information come first. Median, interval and largest
    excess are over the optimum, where that is proven. Several problems have tables of their own,
    under headings, as their methods differ.
    """
    parts = grouped(summary.itertuples(), lambda s: str(s.problem))
    if len(parts) == 1:
        return _table(next(iter(parts.values())))
    return "\n".join(f"### {name}\n\n{_table(part)}" for name, part in parts.items())


OTHER, OTHER_SAID = "\\*", "instances made under assumptions other than the defaults"


def _table(summaries: Sequence[Any]) -> str:
    failures, ends = (any(getattr(s, of) for s in summaries) for of in ("failed", "bottlenecks"))
    heads = ["family", "method", "information", "instances", "samples", "median", "95 %", "max"]
    heads += ["optimal", *["failed"] * failures, *["bottleneck"] * ends]
    rows = []
    for of in grouped(summaries, lambda s: s.family).values():
        for s in sorted(of, key=rank):
            proven = "" if s.proven == s.instances else f", {s.proven} proven"
            line = [f"{markdown_text(s.family)}{f' {OTHER}' * s.assumed}", _head(s.method), s.knew]
            line += [f"{s.instances}{proven}", shown_cells(s)]
            line += [_whole(s.excess_median), _whole_interval(s)]
            line += [_whole(s.excess_max), _whole(s.optimal), *[str(s.failed)] * failures]
            rows.append([*line, *[bottlenecks_of(s)] * ends])
    lines = markdown_table(heads, rows, 3)
    said = f"\n{OTHER} {OTHER_SAID}\n" if any(s.assumed for s in summaries) else ""
    return "\n".join(lines) + "\n" + said


def _whole(share: float) -> str:
    """Return a share as whole percent; a dash if unknown."""
    return "-" if isnan(share) else f"{100 * share:.0f} %"


def _whole_interval(s: Any) -> str:
    if isnan(s.interval_low):
        return "-"
    return f"{100 * s.interval_low:.0f} to {100 * s.interval_high:.0f}"


def bottlenecks_of(s: Any) -> str:
    """Return how many solutions each device is the bottleneck of."""
    return ", ".join(f"{device} {count}" for device, count in sorted(s.bottlenecks.items()))


def standings(frame: pd.DataFrame) -> pd.DataFrame:
    """Return each method over all families: each solve once, repeated experiments left out."""
    return summarise(each_once(frame).assign(family=ALL))


def front_markdown(found: pd.DataFrame) -> str:
    """Return a table with a line per rule and kind of information: defaults, and the others beside.

    Only methods whose information is stated: rules of the problems. `found` is from `standings`.
    """
    numbers = ("samples", "median", "95 %", "max")
    heads = ("problem", "rule", "information", "proven", *numbers, "optimal")
    rows = []
    stated = [s for s in found.itertuples() if s.kind]
    for which, of in grouped(stated, lambda s: (s.problem, s.method, s.kind)).items():
        problem, method, kind = which
        by = {s.assumed: _standing(s) for s in of}
        missing = ["-"] * 6
        line = [f"`{problem}`", _head(method), MEANING[kind], *by.get(False, missing)]
        rows.append([*line, *by.get(True, missing)[:-1]])
    lines = markdown_table((*heads, "other assumptions: proven", *numbers), rows, 3)
    return "\n".join(lines) + "\n"


def _standing(s: Any) -> list[str]:
    if isnan(s.excess_median):
        return ["-"] * 6
    proven = str(s.proven) if s.proven == s.instances else f"{s.proven} of {s.instances}"
    middle, most = percent(s.excess_median), percent(s.excess_max)
    return [proven, shown_cells(s), middle, shown_interval(s), most, percent(s.optimal)]


def shown_cells(s: Any) -> str:
    """Return how many cells there are, and how many of them are draws of a law."""
    return f"{s.cells}, {s.laws} law" if s.laws else str(s.cells)


def shown_interval(s: Any) -> str:
    """Return the interval in words; a dash where there are too few traces and cells."""
    if isnan(s.interval_low):
        return "-"
    return f"{100 * s.interval_low:.1f} to {100 * s.interval_high:.1f}"


def _head(label: str) -> str:
    """Return a method's label with its name set as code."""
    name, bracket, said = label.partition(" (")
    return f"{markdown_code(name)}{bracket}{markdown_text(said)}"


def by_family(summaries: Sequence[Any]) -> dict[str, list[Any]]:
    """Return the summaries of each family; its name has the problem's before it if need be."""
    several = len({s.problem for s in summaries}) > 1
    return grouped(summaries, lambda s: f"{s.problem}/{s.family}" if several else s.family)


def known(value: Any) -> Any:
    """Return a number of a summary; None for one that is unknown."""
    return None if isinstance(value, float) and isnan(value) else value


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash if unknown."""
    return "-" if share is None or isnan(share) else f"{100 * share:.1f} %"
