"""What the report says about one problem: tables, figures and worst cases."""

import re
from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from moeopt.core.problem import EXACT
from moeopt.problems.pictures import draw_gantt
from moeopt.problems.registry import get_problem
from moeopt.study.frame import exact_of, grouped
from moeopt.study.later_loads import HINDSIGHT_WORK, HeldOutRow, held_out
from moeopt.study.report.analysis import (
    Curve,
    Dependence,
    Price,
    dependences,
    prices,
    profiles,
    proof_times,
)
from moeopt.study.report.plots import (
    OWN,
    SERIES,
    Line,
    dependence_chart,
    inline,
    lines,
    profile_chart,
    proof_chart,
    range_chart,
)
from moeopt.study.report.study import Study, own_heuristic
from moeopt.study.report.words import Takeaway, own_rules, seconds, takeaway_of
from moeopt.study.report.worst import Case, worst_cases
from moeopt.study.table import ALL, percent, rank, summarise

MOST_ROWS = 500
"""Instances of a problem that are listed; gap.csv has all."""


@dataclass(frozen=True)
class Listed:
    """One instance; `excess` is by the heuristic's label, the worst of its solves that is known.

    `place` is where links lead to it.
    """

    name: str
    family: str
    is_proven: bool
    excess: dict[str, float] = field(default_factory=dict)
    place: str = ""


@dataclass(frozen=True)
class Instances:
    """A problem's heuristics, by label, and its instances, `left_out` of them not among `rows`.

    Those on which the published rule loses most come first.
    """

    methods: Sequence[str]
    rows: Sequence[Listed]
    left_out: int

    def place_of(self, name: str) -> str:
        """Return where links lead to the first instance of a name; empty if it is not listed."""
        return next((one.place for one in self.rows if one.name == name), "")


def instances_of(problem: str, solves: pd.DataFrame) -> Instances:
    """Return the instances that the solves of one problem are about."""
    first = solves.drop_duplicates("instance_hash")
    heuristics = solves[~exact_of(solves)]
    worst = heuristics.pivot_table(
        "excess", "instance_hash", "label", "max", sort=False, observed=False
    )
    methods = list(dict.fromkeys(heuristics.label))
    excess = {
        digest: {label: value for label, value in of.items() if value == value}
        for digest, of in worst.to_dict("index").items()
    }
    found = [
        Listed(row.instance, row.family, row.optimum is not None, excess.get(row.instance_hash, {}))
        for row in first.itertuples()
    ]
    own = own_heuristic(problem, solves)
    mine = heuristics.label[heuristics.method == own[0]] if own else heuristics.label[:0]
    label = "" if mine.empty else mine.iloc[0]
    listed = sorted(found, key=lambda one: -one.excess.get(label, -1.0))
    placed = [
        replace(one, place=f"{problem}-instance-{at}") for at, one in enumerate(listed[:MOST_ROWS])
    ]
    return Instances(methods, placed, max(0, len(listed) - MOST_ROWS))


MOST_CURVES = 9
"""Small panels of a figure; the published heuristic and custom heuristics come first."""


@dataclass(frozen=True)
class Picture:
    """A figure and what is said about it.

    `key` names files, and the element in a page; `heading` and `caption` stand above and below it,
    `title` and `description` are for screen readers.
    """

    key: str
    heading: str
    caption: str
    title: str
    description: str
    draw: Callable[[], Figure]

    @property
    def svg(self) -> Markup:
        """The figure as an element of a page."""
        return inline(self.draw, self.key, self.title, self.description)


@dataclass(frozen=True)
class Closeup:
    """What is known of one heuristic: the published one, or a custom heuristic (`is_rule`).

    `dependence` and `fields` say what its excess depends on, as a figure and in numbers; `cases`
    are where it loses most, each with both schedules.
    """

    takeaway: Takeaway
    dependence: Picture | None
    fields: Sequence[Dependence]
    cases: Sequence[tuple[Case, Picture | None]]
    is_rule: bool


@dataclass(frozen=True)
class Section:
    """Everything about one problem; what there is nothing about is None or empty."""

    takeaway: Takeaway
    overall: Sequence[Any]
    families: Mapping[str, Sequence[Any]]
    instances: Instances
    lines: Sequence[Line]
    profile: Picture | None
    proofs: Picture | None
    closeups: Sequence[Closeup]
    prices: Sequence[Price]
    held_out: Sequence[HeldOutRow]
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_scheduled(self) -> bool:
        """Whether what a decision costs depends on who schedules it."""
        return bool(get_problem(self.takeaway.problem).schedulers)

    @property
    def sample_rule(self) -> str:
        """The rule that shares of hindsight's gain are counted from."""
        return get_problem(self.takeaway.problem).sample_rule or ""

    @property
    def held_out_gap(self) -> float:
        """The largest median gap of what is known of hindsight, over all distances."""
        return max((one.gap for one in self.held_out if one.gap is not None), default=0.0)

    @property
    def ranges(self) -> Picture | None:
        """The problem's part of the overview; None without heuristics that can be compared."""
        return _ranges(self.takeaway.problem, self.lines) if self.lines else None

    @property
    def charts(self) -> list[Picture]:
        """The figures that stand side by side."""
        found = [self.profile, self.proofs, *(one.dependence for one in self.closeups)]
        return [picture for picture in found if picture]

    @property
    def later(self) -> dict[str, float]:
        """Method -> its median excess on the later loads that come next, by the best schedule."""
        found: dict[str, float] = {}
        for one in self.held_out:
            if one.schedule in ("", EXACT):
                found.setdefault(one.method, one.later)
        return found


def sections(study: Study, found: Sequence[Takeaway]) -> list[Section]:
    """Return a section for each problem of a study, with what its numbers come to."""
    if not study.problems:
        return []
    once = pd.concat(study.problems.values())
    overall = dict(iter(summarise(once.assign(family=ALL)).groupby("problem", sort=False)))
    families = dict(iter(summarise(study.frame).groupby("problem", sort=False)))
    return [
        _section(study, takeaway, overall[takeaway.problem], families[takeaway.problem])
        for takeaway in found
    ]


def _section(
    study: Study, takeaway: Takeaway, overall: pd.DataFrame, summaries: pd.DataFrame
) -> Section:
    problem = takeaway.problem
    solves = study.problems[problem]
    own = set(solves.label[solves.source_sha256 != ""])

    def order(s: Any) -> tuple[bool, tuple[int, float]]:
        return s.method not in own, rank(s)

    families = grouped(summaries.itertuples(), lambda s: str(s.family))
    marked = _marked(problem, solves)
    best = study.optima(solves)
    return Section(
        takeaway,
        sorted(overall.itertuples(), key=order),
        {family: sorted(of, key=order) for family, of in families.items()},
        instances_of(problem, solves),
        lines(list(overall.itertuples()), marked, own),
        _profile(solves, {name: OWN if name in own else SERIES[0] for name in marked}),
        _proofs(solves),
        list(_closeups(study, takeaway, solves, best)),
        prices(problem, solves, study.traits),
        held_out(problem, solves, best, study.store, study.traits, HINDSIGHT_WORK),
        {label: text for (of, label), text in study.assumed.items() if of == problem},
    )


def _closeups(
    study: Study, published: Takeaway, solves: pd.DataFrame, best: pd.DataFrame
) -> Iterator[Closeup]:
    """Yield one of each custom heuristic, of each state of its file, then the published one's."""
    problem = published.problem
    keys: set[str] = set()
    for name, mine in own_rules(solves).items():
        key = re.sub(r"[^A-Za-z0-9_]+", "-", f"{problem}-{name}")
        while key in keys:
            key += "_"
        keys.add(key)
        takeaway = takeaway_of(problem, solves, name, mine)
        yield _closeup(study, key, takeaway, mine, best, is_rule=True)
    mine = solves[solves.method == published.method]
    if not (mine.empty or mine.source_sha256.iloc[0]):
        yield _closeup(study, problem, published, mine, best, is_rule=False)


def _closeup(
    study: Study,
    key: str,
    takeaway: Takeaway,
    mine: pd.DataFrame,
    best: pd.DataFrame,
    *,
    is_rule: bool,
) -> Closeup:
    found = dependences(mine, study.traits)
    cases = worst_cases(mine, best, study.store.instance)
    return Closeup(
        takeaway,
        _dependence(key, takeaway, found) if found else None,
        found,
        [(case, _schedules(f"{key}-case{n}", case)) for n, case in enumerate(cases, 1)],
        is_rule,
    )


def _marked(problem: str, solves: pd.DataFrame) -> set[str]:
    """Return the labels of the published heuristic and of custom heuristics."""
    own = own_heuristic(problem, solves)
    published = solves.method == own[0] if own else False
    return set(solves.label[(solves.source_sha256 != "") | published])


def _ranges(problem: str, found: Sequence[Line]) -> Picture:
    return Picture(
        f"{problem}-ranges",
        "",
        "",
        f"Excess of each rule in {problem}",
        "; ".join(line.words for line in found),
        lambda: range_chart(found),
    )


def _profile(solves: pd.DataFrame, marked: Mapping[str, str]) -> Picture | None:
    """Return the heuristics' profiles, or those of all methods where there is no heuristic."""
    problem = solves.problem.iloc[0]
    exact = exact_of(solves)
    curves = profiles(solves if exact.all() else solves[~exact])
    if not any(curve.x for curve in curves):
        return None
    shown = _best(curves, marked)
    left_out = len(curves) - len(shown)
    unit = "solves" if solves.seed.nunique() > 1 else "instances"
    caption = (
        f"Share of {unit} with a proven optimum on which a method costs at most so many times the "
        "optimum: the higher and the further left, the better. In grey the other methods. "
    )
    if left_out:
        caption += f"{left_out} more in the table only. "
    said = "; ".join(
        f"{curve.name}: optimal on {percent(curve.at(1.0))}, within 1.1 times the optimum on "
        f"{percent(curve.at(1.1))}, within 2 times on {percent(curve.at(2.0))}"
        for curve in shown
    )
    return Picture(
        f"{problem}-profile",
        "How often, how close",
        caption,
        f"Performance profiles for {problem}",
        said,
        lambda: profile_chart(shown, marked, unit),
    )


def _best(curves: Sequence[Curve], own: Container[str]) -> list[Curve]:
    """Return the curves that lie highest on the whole, those in `own` first."""
    order = sorted(
        curves, key=lambda c: (c.name not in own, -sum(c.at(1 + i / 20) for i in range(21)))
    )
    return order[:MOST_CURVES]


def _proofs(solves: pd.DataFrame) -> Picture | None:
    """Return the times to proof of all exact methods, also of those that proved nothing."""
    problem = solves.problem.iloc[0]
    proven = {curve.name: curve for curve in proof_times(solves)}
    shown = solves.label.isin(list(proven)) | exact_of(solves)
    asked = dict(Counter(solves.label[solves.failure.isna() & shown]))
    if not asked:
        return None
    order = sorted(asked, key=lambda name: -len(proven[name].x) if name in proven else 0)
    first = {name: asked[name] for name in order[:MOST_CURVES]}
    said = "; ".join(
        f"{name}: {len(curve.x)} proofs of {count}, the fastest in {seconds(curve.x[0])} s, half "
        f"of them within {seconds(curve.x[(len(curve.x) - 1) // 2])} s, the slowest in "
        f"{seconds(curve.x[-1])} s"
        if (curve := proven.get(name))
        else f"{name}: no proof of {count}"
        for name, count in first.items()
    )
    return Picture(
        f"{problem}-proofs",
        "Time to proof",
        "How many optima each exact method has proven itself after so many seconds. ",
        f"Time to proof for {problem}",
        said,
        lambda: proof_chart([proven[name] for name in first if name in proven], first),
    )


def _dependence(key: str, takeaway: Takeaway, found: Sequence[Dependence]) -> Picture:
    method = takeaway.method
    said = "; ".join(
        f"{one.name}: " + ", ".join(f"at {v} median {percent(m)}" for v, _, m, _ in one.table)
        for one in found
    )
    against = ", ".join(one.name for one in found)
    return Picture(
        f"{key}-fields",
        f"What the excess of {method} depends on",
        f"Excess of {method} over the optimum: a dot per solve, a dash per median. ",
        f"Excess of {method} in {takeaway.problem} against {against}",
        said,
        lambda: dependence_chart(found),
    )


def _schedules(key: str, case: Case) -> Picture | None:
    if not case.panels:
        return None
    title = f"Schedules of {case.row.method} and of the optimum"
    said = "; ".join(
        f"{panel.title}, done last: {max(panel.lanes, key=lambda lane: lane.end_ns).device}"
        for panel in case.panels
    )
    caption = "Both schedules on one time axis; the red line is the end. "
    if case.hidden:
        caption += f"{case.hidden} devices that are done earlier are left out. "
    return Picture(key, "", caption, title, said, lambda: draw_gantt(case.panels))
