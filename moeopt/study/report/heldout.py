"""What decisions cost on later loads than those they were made on: pairs of instances."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any, NamedTuple

import pandas as pd

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.interval import interval
from moeopt.core.objective import Objective, first_key, relative
from moeopt.core.problem import EXACT, Phases
from moeopt.problems.holdout import executed_on, joined
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import twins
from moeopt.solvers.arguments import Limits
from moeopt.study.holdout import Bracket, hindsight_static, share_between
from moeopt.study.record import unpacked_solution
from moeopt.study.report.study import exact_of
from moeopt.study.table import tag_of

OPTIMUM = "the optimum"

HINDSIGHT = "one decision in hindsight"
"""The best single decision for all later twins of an instance, which no rule can beat."""

HINDSIGHT_S = 10.0
"""Seconds for the exact method to find and bound it, where there are several later twins."""


@dataclass(frozen=True)
class HeldOutRow:
    """One method's decisions on the loads they were made on, and on later ones.

    Attributes
    ----------
    method
        As tables call it; the optimum of the earlier loads is a method, too, and `HINDSIGHT`.
    schedule
        Who scheduled on both loads; empty where nothing is to be scheduled.
    distance
        How far the later loads lie behind, in words: what counts is how many steps are between.
    decisions, pairs
        Instances that were decided on, and how many later twins they have at that distance; the
        optima of both are proven.
    known
        Median excess on the loads that were decided on, over the optimum there; None for
        `HINDSIGHT`.
    later
        Median excess on the later loads, over the optimum in hindsight; a decision with several
        later twins counts by their median.
    interval
        Holds the median with 95 %, as in all tables: whole traces are drawn with replacement;
        None if they are too few. For further layers and stretches of the same traces: what another
        trace brings may lie outside.
    later_max
        The largest excess on later loads.
    share
        Median over decisions of what is gained over the problem's sample rule on all later twins,
        as a share of what `HINDSIGHT` would gain, at least: where its optimum is not proven, of
        what its bound would. None if the sample rule is not among the methods, or nothing is to be
        gained.
    gap
        Median gap of the proven bracket, for `HINDSIGHT`.
    """

    method: str
    distance: str
    decisions: int
    pairs: int
    known: float | None
    later: float
    interval: tuple[float, float] | None
    later_max: float
    schedule: str = ""
    share: float | None = None
    gap: float | None = None


class OnTwin(NamedTuple):
    """A decision's excess on the loads it was made on and on one later twin, over their optima.

    `cost` is what it costs on the twin, by the objective's first entry; `twin` is the content hash.
    """

    known: float
    later: float
    cost: int
    twin: str


def held_out(
    problem: str,
    solves: pd.DataFrame,
    instances: Mapping[str, InstanceEnvelope],
    best: pd.DataFrame,
    limits: Limits | None = None,
) -> list[HeldOutRow]:
    """Return a row for each distance, scheduler and method, the nearest and the best ones first.

    Where a schedule follows from a decision it is made anew on both loads, once by the best there
    is and once by TriMoE's rule: what is compared is the decision, for the scheduler that will run.
    A twin is known by its provenance: all but the stretch of loads is the same. Loads of a trace
    that reads its text twice are no twins, if their provenance says "contaminated".

    Two references stand beside each other: excess is over each twin's own optimum, and `HINDSIGHT`
    says how far above these the best single decision for all twins of an instance is.
    """
    schedulers = get_problem(problem).schedulers
    which = problem, solves, instances, best
    runs = {by: excesses(*which, by) for by in schedulers or (EXACT,)}
    optima, sample = _optima(solves), _sample_label(problem, solves)
    cluster_of = dict(zip(solves.instance_hash, tag_of(solves, "cluster"), strict=True))
    found: list[tuple[int, HeldOutRow]] = []
    for decade, exact in runs[EXACT].items():
        words = distance_in_words(problem, decade)
        by_default = EXACT if schedulers else ""
        brackets, hindsight = _hindsight(
            words, exact, instances, optima, cluster_of, by_default, limits or Limits(HINDSIGHT_S)
        )
        for by in runs:
            same = runs[by].get(decade, {})
            for label, decisions in same.items():
                name = by if schedulers else ""
                row = summary(label, words, decisions, cluster_of, name)
                found.append((decade, _with_share(row, decisions, same.get(sample, {}), brackets)))
        found.append((decade, hindsight))

    def order(one: tuple[int, HeldOutRow]) -> tuple[object, ...]:
        decade, row = one
        first = row.method != HINDSIGHT, row.method != OPTIMUM
        return decade, row.schedule not in ("", EXACT), *first, row.later

    return [row for _, row in sorted(found, key=order)]


Decisions = Mapping[str, Mapping[str, Sequence[OnTwin]]]
"""Method -> content hash of the instance that was decided on -> the decision on each later twin."""


def excesses(
    problem: str,
    solves: pd.DataFrame,
    instances: Mapping[str, InstanceEnvelope],
    best: pd.DataFrame,
    schedule: str = EXACT,
) -> dict[int, Decisions]:
    """Return by class of distance what every decision costs where it was made and later.

    Parameters
    ----------
    solves
        With a column `label`.
    best
        An optimal solve of each instance that has one, by content hash.
    """
    optima = _optima(solves)
    here = {digest: instances[digest] for digest in optima if digest in instances}
    decided = _decisions(solves, best)
    found: dict[int, dict[str, dict[str, list[OnTwin]]]] = {}
    remade = get_problem(problem).reruns()

    def known_cost(instance: InstanceEnvelope, row: Any) -> Objective | None:
        # Where nothing is decided anew the solve has it: executing a trace again is dear.
        return _cost(instance, row, schedule) if remade else row.objective

    for earlier, later, distance in twins(here):
        for label, row in decided.get(earlier, {}).items():
            costs = (known_cost(here[earlier], row), _cost(here[later], row, schedule))
            known, excess = (
                None if cost is None else relative(cost, optima[on], optima[on])
                for on, cost in zip((earlier, later), costs, strict=True)
            )
            if known is not None and excess is not None and costs[1] is not None:
                of = found.setdefault(_decade(distance), {}).setdefault(label, {})
                cost = first_key(costs[1])
                of.setdefault(earlier, []).append(OnTwin(known, excess, cost, later))
    return dict(sorted(found.items()))


def _optima(solves: pd.DataFrame) -> dict[str, Objective]:
    proven = solves[solves.optimum.notna()]
    return dict(zip(proven.instance_hash, proven.optimum, strict=True))


def _sample_label(problem: str, solves: pd.DataFrame) -> str:
    """Return what tables call the problem's sample rule; empty if it is not among the methods."""
    labels = solves.label[solves.method == get_problem(problem).sample_rule]
    return "" if labels.empty else _plain(labels.iloc[0])


def _plain(label: str) -> str:
    """Return a label without "hindsight": what is so here knows nothing of later loads."""
    return label.removesuffix(" (hindsight)")


def _hindsight(
    words: str,
    of: Decisions,
    instances: Mapping[str, InstanceEnvelope],
    optima: Mapping[str, Objective],
    cluster_of: Mapping[str, str],
    schedule: str,
    limits: Limits,
) -> tuple[dict[str, Bracket], HeldOutRow]:
    """Return the best single decision for the later twins of each instance, and the row of it."""
    twins_of: dict[str, dict[str, None]] = {}
    for decisions in of.values():
        for earlier, runs in decisions.items():
            twins_of.setdefault(earlier, {}).update(dict.fromkeys(one.twin for one in runs))
    best: dict[str, Bracket] = {}
    above: list[float] = []
    known_clusters: list[str] = []
    for earlier, later in twins_of.items():
        total = sum(first_key(optima[twin]) for twin in later)
        seen = [decisions[earlier] for decisions in of.values() if earlier in decisions]
        known = [sum(one.cost for one in runs) for runs in seen if len(runs) == len(later)]
        windows, own = [instances[twin] for twin in later], Bracket(total, total)
        try:
            found = hindsight_static(joined(windows), windows, own, known, limits)
        except InputError:  # no instance of several: what is known without it
            found = Bracket(min(known, default=None), total)
        best[earlier] = found
        if found.cost is not None and total:
            above.append(found.cost / total - 1)
            known_clusters.append(cluster_of[earlier])
    return best, HeldOutRow(
        method=HINDSIGHT,
        distance=words,
        decisions=len(best),
        pairs=sum(map(len, twins_of.values())),
        known=None,
        later=median(above) if above else 0.0,
        interval=interval(above, known_clusters),
        later_max=max(above, default=0.0),
        schedule=schedule,
        gap=median(bracket.gap or 0.0 for bracket in best.values()),
    )


def _with_share(
    row: HeldOutRow,
    decisions: Mapping[str, Sequence[OnTwin]],
    base: Mapping[str, Sequence[OnTwin]],
    best: Mapping[str, Bracket],
) -> HeldOutRow:
    """Return a row with its median share of what hindsight would gain over the sample rule."""
    shares = []
    for earlier, runs in decisions.items():
        sample = base.get(earlier, ())
        if [one.twin for one in sample] == [one.twin for one in runs]:
            cost, least = (sum(one.cost for one in of) for of in (runs, sample))
            ends = share_between(cost, least, best[earlier])
            shares += [] if ends is None else [ends[0]]
    return replace(row, share=median(shares) if shares else None)


def _decisions(solves: pd.DataFrame, best: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return by instance and label the solves with a solution, one of the optimal ones as such."""
    found: dict[str, dict[str, Any]] = {}
    for row in best.itertuples(index=False):
        found[row.instance_hash] = {OPTIMUM: row}
    heuristics = solves[solves.solution.notna() & ~exact_of(solves)]
    for row in heuristics.itertuples(index=False):
        found.setdefault(row.instance_hash, {})[_plain(row.label)] = row
    return found


def _decade(distance: int) -> int:
    """Return 0 for adjacent loads, 1 for 1 to 9 steps between, 2 for 10 to 99 and so on."""
    return len(str(distance)) if distance else 0


def distance_in_words(problem: str, decade: int) -> str:
    """Return a decade of distances as tables say it, with the problem's unit of time."""
    holdout = get_problem(problem).holdout
    if isinstance(holdout, Phases):
        return holdout.order[-1]
    if not decade or holdout is None:
        return "next"
    return f"{10 ** (decade - 1):,}-{10**decade - 1:,} {holdout.length} on"


def _cost(instance: InstanceEnvelope, row: Any, schedule: str) -> Objective | None:
    """Return what a solve's decision costs on an instance; None if it does not fit there."""
    solution = unpacked_solution(row.problem, row.solution)
    if solution is None:
        return None
    try:
        return executed_on(instance, solution, schedule).objective
    except InputError:
        return None


def summary(
    label: str,
    distance: str,
    decisions: Mapping[str, Sequence[OnTwin]],
    cluster_of: Mapping[str, str],
    schedule: str = "",
) -> HeldOutRow:
    """Return the row of some decisions, each with its known and later excess by later twin.

    `cluster_of` has the trace of the instance that was decided on, by its content hash.
    """
    known = [runs[0].known for runs in decisions.values()]
    every = [[one.later for one in runs] for runs in decisions.values()]
    clusters = [cluster_of[earlier] for earlier in decisions]
    later = [median(of) for of in every]
    return HeldOutRow(
        method=label,
        distance=distance,
        decisions=len(decisions),
        pairs=sum(map(len, decisions.values())),
        known=median(known),
        later=median(later),
        interval=interval(later, clusters),
        later_max=max(map(max, every)),
        schedule=schedule,
    )
