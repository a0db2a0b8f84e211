"""What the report says about one problem: tables, figures and worst cases."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from moeopt.study.pictures import draw_gantt
from moeopt.study.plan import Key
from moeopt.study.report.analysis import Curve, Dependence, dependences, profiles, proof_times
from moeopt.study.report.heldout import HeldOut, held_out
from moeopt.study.report.papers import is_exact, own_heuristic
from moeopt.study.report.plots import dependence_chart, inline, profile_chart, proof_chart
from moeopt.study.report.restrictions import Price, prices
from moeopt.study.report.study import Study, as_one_family
from moeopt.study.report.words import Takeaway, seconds, takeaways
from moeopt.study.report.worst import Case, worst_cases
from moeopt.study.rows import Row
from moeopt.study.table import Summary, percent, summarise

MOST_CURVES = 8
"""A chart with more cannot be read; the published heuristic is always among them."""


@dataclass(frozen=True)
class Picture:
    """A figure, its heading, and a sentence under it."""

    heading: str
    svg: Markup
    caption: str


@dataclass(frozen=True)
class Section:
    """Everything about one problem; what there is nothing about is None or empty."""

    takeaway: Takeaway
    overall: Sequence[Summary]
    families: Mapping[str, Sequence[Summary]]
    profile: Picture | None
    proofs: Picture | None
    dependence: Picture | None
    fields: Sequence[Dependence]
    cases: Sequence[tuple[Case, Picture | None]]
    prices: Sequence[Price]
    held_out: Sequence[HeldOut]


def sections(study: Study) -> list[Section]:
    """Return a section for each problem of a study."""
    overall = _by_problem(summarise(as_one_family(_once(study))))
    families = _by_problem(summarise(study.rows))
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
    own = own_heuristic(problem, rows)
    mine = [row for row in rows if own and row.key.method == own[0]]
    found = dependences(mine, study.instances)
    families: dict[str, list[Summary]] = {}
    for summary in summaries:
        families.setdefault(summary.family, []).append(summary)
    cases = worst_cases(rows, own[0], study.instances) if own else []
    return Section(
        takeaway,
        overall,
        families,
        _profile(study, problem, rows, labels),
        _proofs(problem, rows, labels),
        _dependence(problem, own[0], found) if own and found else None,
        found,
        [(case, _schedules(f"{problem}-case{n}", case)) for n, case in enumerate(cases, 1)],
        prices(problem, rows, study.instances),
        held_out(problem, rows, study.instances, labels),
    )


def _once(study: Study) -> list[Row]:
    return [row for rows in study.problems.values() for row in rows]


def _by_problem(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    found: dict[str, list[Summary]] = {}
    for summary in summaries:
        found.setdefault(summary.problem, []).append(summary)
    return found


def _profile(
    study: Study, problem: str, rows: list[Row], labels: Mapping[Key, str]
) -> Picture | None:
    """Return the heuristics' profiles, or those of all methods where there is no heuristic."""
    heuristics = [row for row in rows if not is_exact(problem, row.key.method)]
    failed = [key for key, _ in study.failures]
    curves = profiles(heuristics or rows, labels, failed)
    if not any(curve.x for curve in curves):
        return None
    own = own_heuristic(problem, rows)
    thick = {labels[row.key] for row in heuristics if own and row.key.method == own[0]}
    shown = _best(curves, thick)
    left_out = len(curves) - len(shown)
    unit = "solves" if len({row.key.seed for row in rows}) > 1 else "instances"
    caption = (
        f"Share of {unit} with a proven optimum on which a method costs at most so many times the "
        "optimum: the higher and the further left, the better. "
    )
    if left_out:
        caption += f"{left_out} more methods are in the table only. "
    said = "; ".join(
        f"{curve.name}: optimal on {percent(curve.at(1.0))}, within 1.1 times the optimum on "
        f"{percent(curve.at(1.1))}, within 2 times on {percent(curve.at(2.0))}"
        for curve in shown
    )
    title = f"Performance profiles for {problem}"
    svg = inline(
        lambda: profile_chart(shown, thick, unit),
        f"{problem}-profile",
        title,
        said,
    )
    return Picture("How often, how close", svg, caption)


def _best(curves: Sequence[Curve], own: Container[str]) -> list[Curve]:
    """Return the curves that lie highest on the whole, the published heuristic's first."""
    order = sorted(
        curves, key=lambda c: (c.name not in own, -sum(c.at(1 + i / 20) for i in range(21)))
    )
    return order[:MOST_CURVES]


def _proofs(problem: str, rows: Sequence[Row], labels: Mapping[Key, str]) -> Picture | None:
    curves = proof_times(rows, labels)
    if not curves:
        return None
    shown = sorted(curves, key=lambda curve: -len(curve.x))[:MOST_CURVES]
    said = "; ".join(
        f"{curve.name}: {len(curve.x)} proofs, the fastest in {seconds(curve.x[0])} s, half of "
        f"them within {seconds(curve.x[(len(curve.x) - 1) // 2])} s, the slowest in "
        f"{seconds(curve.x[-1])} s"
        for curve in shown
    )
    svg = inline(
        lambda: proof_chart(shown), f"{problem}-proofs", f"Time to proof for {problem}", said
    )
    caption = "How many optima each exact method has proven itself after so many seconds. "
    return Picture("Time to proof", svg, caption)


def _dependence(problem: str, method: str, found: Sequence[Dependence]) -> Picture:
    said = "; ".join(
        f"{one.name}: " + ", ".join(f"at {v} median {percent(m)}" for v, _, m, _ in one.table)
        for one in found
    )
    title = f"Excess of {method} in {problem} against {', '.join(one.name for one in found)}"
    svg = inline(lambda: dependence_chart(found), f"{problem}-fields", title, said)
    caption = f"Excess of {method} over the optimum: a dot per solve, the line joins medians. "
    return Picture("What the excess depends on", svg, caption)


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
    return Picture("", inline(lambda: draw_gantt(case.panels), key, title, said), caption)
