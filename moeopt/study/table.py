"""Excess statistics per family and method, and tables of them in Markdown.

A number is never over rules that knew different things of the loads, nor over instances made under
the assumptions' defaults and others: `summarise` is the one place that groups solves.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import median
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.problem import NOTHING, THIS_STEP
from moeopt.core.wording import markdown_code, markdown_table, markdown_text, unknown_name
from moeopt.study.attempt import LAW
from moeopt.study.rows import Row, each_once, grouped, named

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

LEAST_CLUSTERS = 3
"""There is no interval for fewer traces, or cells of laws."""

DRAWS, TAIL = 1000, 25
"""Of a bootstrap, and how many of them lie outside its interval on either side: 95 %."""


@dataclass(frozen=True)
class Summary:
    """Excess over the proven optimum of one method on one family; None where nothing is proven.

    `method` says the time limit as well where the study has several. `proven` counts the
    instances with a proven optimum, `single` those that one engine alone closed, `cells` those
    proven ones that are independent (`moeopt.study.attempt`), `laws` those cells that are draws
    of a law; `optimal` is the share of the solves of those that reach it; `interval` holds the
    median with 95 %, bootstrapped over traces and cells of laws. `bottlenecks` counts the
    bottleneck devices of its solutions. `failed` counts the solves that have no result;
    `seconds_median` is of the others. `knew` says in words by which information about loads the
    method decided, and `kind` which kind that is. `assumed` says whether the instances are made
    under assumptions other than the defaults.
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
    kind: Knew = ""
    assumed: bool = False
    cells: int = 0
    laws: int = 0
    interval: tuple[float, float] | None = None
    single: int = 0


def rank(s: Summary) -> tuple[int, bool, float]:
    """Return by what methods are sorted: by the kind of information, then by the median."""
    return ["", *MEANING].index(s.kind), s.excess_median is None, s.excess_median or 0.0


def summarise(rows: Iterable[Row], *, by_assumption: bool = True) -> list[Summary]:
    """Return one summary per family, method, kind of information and assumption.

    Parameters
    ----------
    by_assumption
        False where the caller has one reading of everything in each group.

    Returns
    -------
    list of Summary
        In order of first appearance.
    """
    groups: dict[tuple[str, str, str, Knew, bool], list[Row]] = {}
    found = list(rows)
    made = {row.key.instance: row.facts["settled"] for row in found if "settled" in row.facts}
    for label, row in named(found):
        assumed = by_assumption and bool(made.get(row.key.instance))
        kind = kind_of(str(row.facts.get("knew", "")))
        which = (row.result.problem, row.family, label, kind, assumed)
        groups.setdefault(which, []).append(row)
    # a solve that failed knew nothing that could be said: it counts where its method's others do
    for several in grouped(groups, lambda which: which[:3]).values():
        told = [which for which in several if any(not row.failed for row in groups[which])]
        for which in [one for one in several if one not in told] if told else []:
            groups[told[0]] += groups.pop(which)
    return [_summary(which, group) for which, group in groups.items()]


def split_by(rows: Iterable[Row], fact: str) -> list[Row]:
    """Return the rows with a family for each value of one of their facts, such as the batch.

    In the order of the values within a family; what has no such fact stays as it is, at the end.

    Raises
    ------
    InputError
        If no row has such a fact.
    """
    found = list(rows)
    known = sorted({name for row in found for name in row.facts})
    if found and fact not in known:
        raise unknown_name("--by", fact, known, "facts of these rows")
    order = {family: number for number, family in enumerate(dict.fromkeys(r.family for r in found))}

    def place(row: Row) -> tuple[int, float, str]:
        value = str(row.facts.get(fact, ""))
        return order[row.family], float(value) if value.isdigit() else float("inf"), value

    return [
        replace(row, family=f"{row.family}, {fact} {row.facts[fact]}") if fact in row.facts else row
        for row in sorted(found, key=place)
    ]


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


def _summary(which: tuple[str, str, str, Knew, bool], group: Sequence[Row]) -> Summary:
    problem, family, method, kind, assumed = which
    known = [row for row in group if row.excess is not None]
    excesses = [row.excess for row in known if row.excess is not None]
    seconds = [row.seconds for row in group if not row.failed]
    bottlenecks: dict[str, int] = {}
    for row in group:
        if "bottleneck" in row.facts:
            device = str(row.facts["bottleneck"])
            bottlenecks[device] = bottlenecks.get(device, 0) + 1
    cells = {_of(row, "cell") for row in known}
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
        kind=kind,
        assumed=assumed,
        cells=len(cells),
        laws=sum(cell.startswith(LAW) for cell in cells),
        interval=interval(excesses, [_of(row, "cluster") for row in known]),
        single=len({row.key.instance for row in group if row.single}),
    )


def _of(row: Row, fact: str) -> str:
    """Return a row's cell or cluster; one whose store did not keep it is one of its own."""
    return str(row.facts.get(fact, row.key.instance))


def interval(values: Sequence[float], clusters: Sequence[str]) -> tuple[float, float] | None:
    """Return the 95 % interval of the median: whole clusters are drawn with replacement.

    None below `LEAST_CLUSTERS` clusters. The same values give the same interval everywhere.
    """
    names = {name: number for number, name in enumerate(sorted(set(clusters)))}
    if len(names) < LEAST_CLUSTERS:
        return None
    order = np.argsort(np.array(values), kind="stable")
    ranked = np.array(values, dtype=np.float64)[order]
    owner = np.array([names[cluster] for cluster in clusters])[order]
    reached = np.cumsum(_draws(len(names))[:, owner], axis=1)
    total = reached[:, -1:]
    low, high = (np.argmax(reached >= half, axis=1) for half in ((total + 1) // 2, total // 2 + 1))
    medians = np.sort((ranked[low] + ranked[high]) / 2)
    return float(medians[TAIL]), float(medians[-TAIL - 1])


@lru_cache(maxsize=32)
def _draws(clusters: int) -> NDArray[np.int64]:
    """Return how often each cluster is in each draw: the same for all groups of so many."""
    picks = np.random.default_rng(0).integers(clusters, size=(DRAWS, clusters))
    return np.stack([np.bincount(row, minlength=clusters) for row in picks])


def to_markdown(summaries: Sequence[Summary]) -> str:
    """Return tables, family by method, without times: the same on every machine.

    The first give the median with its interval, the largest excess over the optimum and the share
    of instances solved to the optimum, of those whose optimum is proven, and below each method the
    information about loads that it decided by; families whose methods knew other things stand in a
    table of their own. The last counts the bottleneck devices of the schedules. Several problems
    have tables of their own, under headings, as their methods differ.
    """
    parts = grouped(summaries, lambda s: s.problem)
    if len(parts) == 1:
        return _tables(summaries)
    return "\n".join(f"### {name}\n\n{_tables(part)}" for name, part in parts.items())


def _tables(summaries: Sequence[Summary]) -> str:
    tables = [_pivot(part, _excess_cell, knew=True) for part in _regimes(summaries)]
    if any(s.bottlenecks for s in summaries):
        tables += [_pivot(part, _bottleneck_cell) for part in _regimes(summaries)]
    said = f"\n{OTHER} {OTHER_SAID}\n" if any(s.assumed for s in summaries) else ""
    return "\n".join(tables) + said


OTHER, OTHER_SAID = "\\*", "instances made under assumptions other than the defaults"

_Line = dict[str, Summary]
"""Method -> summary: one line of a table, in which every method knew one thing."""


def _regimes(summaries: Sequence[Summary]) -> list[list[_Line]]:
    """Return lines by tables: within a table a method knew the same kind of thing throughout."""
    lines: dict[tuple[str, bool, int], _Line] = {}
    for s in summaries:
        number = 0
        while s.method in lines.get((s.family, s.assumed, number), {}):
            number += 1
        lines.setdefault((s.family, s.assumed, number), {})[s.method] = s
    tables: list[tuple[dict[str, Knew], list[_Line]]] = []
    for line in lines.values():
        kinds: dict[str, Knew] = {method: s.kind for method, s in line.items() if s.kind}
        for known, of in tables:
            if all(known.get(method, kind) == kind for method, kind in kinds.items()):
                known.update(kinds)
                of.append(line)
                break
        else:
            tables.append((kinds, [line]))
    return [of for _, of in tables]


def _pivot(lines: Sequence[_Line], cell: Callable[[Summary], str], *, knew: bool = False) -> str:
    methods = list(dict.fromkeys(method for line in lines for method in line))
    text = [
        f"| family | instances | samples | {' | '.join(map(_head, methods))} |",
        f"|---|---:|---:|{'---|' * len(methods)}",
    ]
    said = {m: _words([line[m] for line in lines if m in line]) for m in methods}
    if knew and any(said.values()):
        text.append(f"| *information* | | | {' | '.join(said.values())} |")
    for line in lines:
        first = next(iter(line.values()))
        of = list(line.values())
        count, proven = max(s.instances for s in of), max(s.proven for s in of)
        shown = f"{count}" if proven == count else f"{count}, {proven} proven"
        name = markdown_text(first.family) + f" {OTHER}" * first.assumed
        cells = [cell(line[m]) if m in line else "" for m in methods]
        counted = shown_cells(max(of, key=lambda s: s.cells))
        text.append(f"| {name} | {shown} | {counted} | {' | '.join(cells)} |")
    return "\n".join(text) + "\n"


def _words(summaries: Sequence[Summary]) -> str:
    """Return by which information a method decided, each wording once."""
    words = [word for s in summaries if s.knew for word in s.knew.split(", or ")]
    return ", or ".join(dict.fromkeys(words))


@dataclass(frozen=True)
class Standing:
    """A rule on all instances of its problem, of one kind of information.

    `defaults` are its numbers on instances made under every assumption's default, `others` those on
    the others; None where there is none.
    """

    problem: str
    method: str
    kind: Knew
    defaults: Summary | None
    others: Summary | None


def standings(rows: Iterable[Row]) -> list[Standing]:
    """Return every method's standings, each solve once, repeated experiments left out."""
    once = each_once(rows, lambda row: "repeats" in row.facts)
    found: dict[tuple[str, str, Knew], list[Summary | None]] = {}
    for s in summarise(as_one_family(row for of in once.values() for row in of)):
        found.setdefault((s.problem, s.method, s.kind), [None, None])[s.assumed] = s
    return [Standing(*which, *pair) for which, pair in found.items()]


def as_one_family(rows: Iterable[Row]) -> list[Row]:
    """Return the rows as if they were of one family."""
    return [replace(row, family=ALL) for row in rows]


def front_markdown(found: Sequence[Standing]) -> str:
    """Return a table with a line per rule and kind of information: defaults, and the others beside.

    Only methods whose information is stated: rules of the problems.
    """
    numbers = ("samples", "median", "95 %", "max")
    heads = ("problem", "rule", "information", "proven", *numbers, "optimal")
    rows = [
        [
            *(f"`{one.problem}`", _head(one.method), MEANING[one.kind]),
            *_standing(one.defaults),
            *_standing(one.others)[:-1],
        ]
        for one in found
        if one.kind
    ]
    lines = markdown_table((*heads, "other assumptions: proven", *numbers), rows, 3)
    return "\n".join(lines) + "\n"


def _standing(s: Summary | None) -> list[str]:
    if s is None or s.excess_median is None:
        return ["-"] * 6
    proven = str(s.proven) if s.proven == s.instances else f"{s.proven} of {s.instances}"
    middle, most = percent(s.excess_median), percent(s.excess_max)
    return [proven, shown_cells(s), middle, shown_interval(s), most, percent(s.optimal)]


def shown_cells(s: Summary) -> str:
    """Return how many cells there are, and how many of them are draws of a law."""
    return f"{s.cells}, {s.laws} law" if s.laws else str(s.cells)


def shown_interval(s: Summary) -> str:
    """Return the interval in words; a dash where there are too few traces and cells."""
    if s.interval is None:
        return "-"
    low, high = (f"{100 * end:.1f}" for end in s.interval)
    return f"{low} to {high}"


def _head(label: str) -> str:
    """Return a method's label with its name set as code."""
    name, bracket, said = label.partition(" (")
    return f"{markdown_code(name)}{bracket}{markdown_text(said)}"


def by_family(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """Return the summaries of each family; its name has the problem's before it if need be."""
    several = len({s.problem for s in summaries}) > 1
    return grouped(summaries, lambda s: f"{s.problem}/{s.family}" if several else s.family)


def _excess_cell(s: Summary) -> str:
    failed = f"{s.failed} failed" if s.failed else ""
    if s.excess_median is None or s.excess_max is None or s.optimal is None:
        return failed or "-"
    ends = [f"{100 * end:.0f}" for end in s.interval or ()]
    within = f" [{', '.join(ends)}]" if ends else ""
    middle, most = f"{100 * s.excess_median:.0f}{within}", f"{100 * s.excess_max:.0f} %"
    cell = f"{middle} / {most} ({100 * s.optimal:.0f} %)"
    return f"{cell}, {failed}" if failed else cell


def _bottleneck_cell(s: Summary) -> str:
    return ", ".join(f"{device} {count}" for device, count in sorted(s.bottlenecks.items()))


def percent(share: float | None) -> str:
    """Return a share as a percentage with one decimal, or a dash if unknown."""
    return "-" if share is None else f"{100 * share:.1f} %"
