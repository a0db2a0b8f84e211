"""What the report says about one problem: tables, figures and worst cases."""

import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from markupsafe import Markup
from matplotlib.figure import Figure

from moeopt.core.problem import EXACT
from moeopt.problems.registry import get_problem
from moeopt.study.pictures import draw_gantt
from moeopt.study.plan import Key
from moeopt.study.report.analysis import (
    Curve,
    Dependence,
    Price,
    dependences,
    prices,
    profiles,
    proof_times,
)
from moeopt.study.report.heldout import HeldOutRow, held_out
from moeopt.study.report.plots import (
    Line,
    dependence_chart,
    inline,
    lines,
    profile_chart,
    proof_chart,
    range_chart,
)
from moeopt.study.report.study import Study, is_exact, own_heuristic
from moeopt.study.report.words import Takeaway, own_rules, seconds, takeaway_of, takeaways
from moeopt.study.report.worst import Case, worst_cases
from moeopt.study.rows import Row, grouped
from moeopt.study.table import Summary, as_one_family, percent, rank, summarise

MOST_ROWS = 500
"""Instances of a problem that are listed; gap.csv has all."""


@dataclass(frozen=True)
class Listed:
    """One instance; `excess` is by the heuristic's label, the worst of its solves that is known."""

    name: str
    family: str
    is_proven: bool
    excess: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Instances:
    """A problem's heuristics, by label, and its instances, `left_out` of them not among `rows`.

    Those on which the published rule loses most come first.
    """

    methods: Sequence[str]
    rows: Sequence[Listed]
    left_out: int


def instances_of(problem: str, rows: Sequence[Row], labels: Mapping[Key, str]) -> Instances:
    """Return the instances that the rows of one problem are about."""
    found: dict[str, Listed] = {}
    methods: dict[str, str] = {}
    for row in rows:
        proven = row.optimum is not None
        one = found.setdefault(row.key.instance, Listed(row.result.instance, row.family, proven))
        if is_exact(problem, row.key.method):
            continue
        label = labels[row.key]
        methods.setdefault(label, row.key.method)
        if row.excess is not None:
            one.excess[label] = max(row.excess, one.excess.get(label, 0.0))
    own = own_heuristic(problem, rows)
    first = next((label for label, method in methods.items() if own and method == own[0]), "")
    listed = sorted(found.values(), key=lambda one: -one.excess.get(first, -1.0))
    return Instances(list(methods), listed[:MOST_ROWS], max(0, len(listed) - MOST_ROWS))


MOST_CURVES = 9
"""Small panels of a figure; the published heuristic and rules of one's own come first."""


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
    """What is known of one heuristic: the published one, or a rule of one's own (`is_rule`).

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
    overall: Sequence[Summary]
    families: Mapping[str, Sequence[Summary]]
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


def sections(study: Study) -> list[Section]:
    """Return a section for each problem of a study."""
    once = [row for rows in study.problems.values() for row in rows]
    overall = grouped(summarise(as_one_family(once)), lambda s: s.problem)
    families = grouped(summarise(study.rows), lambda s: s.problem)
    labels = study.labels
    return [
        _section(study, takeaway, overall[takeaway.problem], families[takeaway.problem], labels)
        for takeaway in takeaways(study)
    ]


def _section(
    study: Study,
    takeaway: Takeaway,
    overall: Sequence[Summary],
    summaries: Sequence[Summary],
    labels: Mapping[Key, str],
) -> Section:
    problem = takeaway.problem
    rows = study.problems[problem]
    own = {labels[row.key] for row in rows if row.key.source_sha256}

    def order(s: Summary) -> tuple[bool, tuple[int, bool, float]]:
        return s.method not in own, rank(s)

    families = grouped(summaries, lambda s: s.family)
    marked = _marked(problem, rows, labels)
    return Section(
        takeaway,
        sorted(overall, key=order),
        {family: sorted(of, key=order) for family, of in families.items()},
        instances_of(problem, rows, labels),
        lines(overall, marked),
        _profile(problem, rows, labels, marked),
        _proofs(problem, rows, labels),
        list(_closeups(study, takeaway, rows)),
        prices(problem, rows, study.instances),
        held_out(problem, rows, study.instances, labels),
        {label: text for (of, label), text in study.assumed.items() if of == problem},
    )


def _closeups(study: Study, published: Takeaway, rows: Sequence[Row]) -> Iterator[Closeup]:
    """Yield one of each rule of one's own, of each state of its file, then the published one's."""
    problem = published.problem
    keys: set[str] = set()
    for name, mine in own_rules(rows).items():
        key = re.sub(r"[^A-Za-z0-9_]+", "-", f"{problem}-{name}")
        while key in keys:
            key += "_"
        keys.add(key)
        takeaway = takeaway_of(problem, rows, name, mine)
        yield _closeup(study, key, takeaway, mine, rows, is_rule=True)
    mine = [row for row in rows if row.key.method == published.method]
    if mine and not mine[0].key.source_sha256:
        yield _closeup(study, problem, published, mine, rows, is_rule=False)


def _closeup(
    study: Study,
    key: str,
    takeaway: Takeaway,
    mine: Sequence[Row],
    rows: Sequence[Row],
    *,
    is_rule: bool,
) -> Closeup:
    found, method = dependences(mine, study.instances), mine[0].key.method
    others = [row for row in rows if row.key.method != method]  # no other states of its file
    cases = worst_cases([*mine, *others], method, study.instances)
    return Closeup(
        takeaway,
        _dependence(key, takeaway, found) if found else None,
        found,
        [(case, _schedules(f"{key}-case{n}", case)) for n, case in enumerate(cases, 1)],
        is_rule,
    )


def _marked(problem: str, rows: Sequence[Row], labels: Mapping[Key, str]) -> set[str]:
    """Return the labels of the published heuristic and of rules of one's own."""
    own = own_heuristic(problem, rows)
    return {
        labels[row.key]
        for row in rows
        if row.key.source_sha256 or (own and row.key.method == own[0])
    }


def _ranges(problem: str, found: Sequence[Line]) -> Picture:
    return Picture(
        f"{problem}-ranges",
        "",
        "",
        f"Excess of each rule in {problem}",
        "; ".join(line.words for line in found),
        lambda: range_chart(found),
    )


def _profile(
    problem: str, rows: list[Row], labels: Mapping[Key, str], marked: Container[str]
) -> Picture | None:
    """Return the heuristics' profiles, or those of all methods where there is no heuristic."""
    heuristics = [row for row in rows if not is_exact(problem, row.key.method)]
    curves = profiles(heuristics or rows, labels)
    if not any(curve.x for curve in curves):
        return None
    shown = _best(curves, marked)
    left_out = len(curves) - len(shown)
    unit = "solves" if len({row.key.seed for row in rows}) > 1 else "instances"
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


def _proofs(problem: str, rows: Sequence[Row], labels: Mapping[Key, str]) -> Picture | None:
    """Return the times to proof of all exact methods, also of those that proved nothing."""
    curves = proof_times(rows, labels)
    proven = {curve.name: curve for curve in curves}
    asked: dict[str, int] = {}
    for row in rows:
        name = labels[row.key]
        if not row.failed and (name in proven or is_exact(problem, row.key.method)):
            asked[name] = asked.get(name, 0) + 1
    if not asked:
        return None
    order = sorted(asked, key=lambda name: -len(proven[name].x) if name in proven else 0)
    shown = {name: asked[name] for name in order[:MOST_CURVES]}
    said = "; ".join(
        f"{name}: {len(curve.x)} proofs of {count}, the fastest in {seconds(curve.x[0])} s, half "
        f"of them within {seconds(curve.x[(len(curve.x) - 1) // 2])} s, the slowest in "
        f"{seconds(curve.x[-1])} s"
        if (curve := proven.get(name))
        else f"{name}: no proof of {count}"
        for name, count in shown.items()
    )
    return Picture(
        f"{problem}-proofs",
        "Time to proof",
        "How many optima each exact method has proven itself after so many seconds. ",
        f"Time to proof for {problem}",
        said,
        lambda: proof_chart([proven[name] for name in shown if name in proven], shown),
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
    result = case.row.result
    title = f"Schedules of {result.method} and of the optimum"
    said = "; ".join(
        f"{panel.title}, done last: {max(panel.lanes, key=lambda lane: lane.end_ns).device}"
        for panel in case.panels
    )
    caption = "Both schedules on one time axis; the red line is the end. "
    if case.hidden:
        caption += f"{case.hidden} devices that are done earlier are left out. "
    return Picture(key, "", caption, title, said, lambda: draw_gantt(case.panels))
