"""What the decisions of a campaign come to on later loads that it has as well."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.interval import interval
from moeopt.core.objective import first_key
from moeopt.core.problem import EXACT, Phases
from moeopt.problems.holdout import joined
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import twins
from moeopt.solvers.arguments import Limits
from moeopt.study.frame import each_once, exact_of, grouped
from moeopt.study.judged import (
    NONE,
    ONE_DECISION,
    Row,
    Trial,
    decisions_of,
    judge,
    reference,
    with_shares,
)
from moeopt.study.plan import Job
from moeopt.study.references import Bracket, hindsight_jobs, hindsight_static
from moeopt.study.store import Store
from moeopt.study.table import tag_of
from moeopt.study.traits import Traits

OPTIMUM = "the optimum"
"""Method that stands for a proven optimum of the loads that were decided on."""

HINDSIGHT_S = 10.0
"""Seconds for the exact method to find and bound it, where there are several test loads."""

HINDSIGHT_WORK = Limits(work=0.25)
"""What a report takes for it instead: the same page on every machine."""


@dataclass(frozen=True)
class HeldOutRow:
    """One method's decisions on the loads they were made on, and on later ones.

    Attributes
    ----------
    method
        As tables call it; the optimum of the train loads is a method, too, and `ONE_DECISION`.
    schedule
        Who scheduled on both loads; empty where nothing is to be scheduled.
    distance
        How far the later loads lie behind, in words: what counts is how many steps are between.
    decisions, pairs
        Instances that were decided on, and how many test loads they have at that distance.
    known
        Median excess on the loads that were decided on, over the optimum there; None for
        `ONE_DECISION`, or where no optimum is known.
    later
        Median excess on the test loads, over the optimum in hindsight; a decision with several
        of them counts by their median.
    interval
        Holds the median with 95 %, as in all tables: whole traces are drawn with replacement;
        None if they are too few. For further layers and stretches of the same traces: what another
        trace brings may lie outside.
    later_max
        The largest excess on test loads.
    share
        Median over decisions of what is gained over the problem's sample rule on all test loads,
        as a share of what `ONE_DECISION` would gain, at least: where its optimum is not proven, of
        what its bound would. None if the sample rule is not among the methods, or nothing is to be
        gained.
    gap
        Median gap of the proven bracket, for `ONE_DECISION`.
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


def summary(problem: str, rows: Iterable[Row], clusters: Mapping[str, str]) -> list[HeldOutRow]:
    """Return a row for each distance, scheduler and method, the nearest and the best ones first.

    `clusters` has the trace of each train load, by its content hash.
    """
    groups = grouped(rows, lambda row: (_decade(row.distance), row.schedule, row.method))
    found = [
        (decade, _summed(problem, method, decade, schedule, of, clusters))
        for (decade, schedule, method), of in groups.items()
        if method == ONE_DECISION or any(row.excesses for row in of)
    ]

    def order(one: tuple[int, HeldOutRow]) -> tuple[object, ...]:
        decade, row = one
        first = row.method != ONE_DECISION, row.method != OPTIMUM
        return decade, row.schedule not in ("", EXACT), *first, row.later

    return [row for _, row in sorted(found, key=order)]


def _summed(
    problem: str,
    method: str,
    decade: int,
    schedule: str,
    of: Sequence[Row],
    clusters: Mapping[str, str],
) -> HeldOutRow:
    rows = [row for row in of if row.excesses]
    later = [median(row.excesses) for row in rows]
    known, shares, gaps = (
        [value for row in of if (value := getattr(row, name)) is not None]
        for name in ("known_excess", "share_low", "gap")
    )
    return HeldOutRow(
        method=method,
        distance=distance_in_words(problem, decade),
        decisions=len(of if method == ONE_DECISION else rows),
        pairs=sum(row.pairs for row in of),
        known=median(known) if known else None,
        later=median(later) if later else 0.0,
        interval=interval(later, [clusters[row.train] for row in rows]),
        later_max=max((max(row.excesses) for row in rows), default=0.0),
        schedule="" if schedule == NONE else schedule,
        share=median(shares) if shares else None,
        gap=median(gaps) if gaps else None,
    )


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


def held_out(
    problem: str,
    solves: pd.DataFrame,
    best: pd.DataFrame,
    store: Store,
    traits: Mapping[str, Traits],
    limits: Limits = Limits(HINDSIGHT_S),  # noqa: B008 - immutable
) -> list[HeldOutRow]:
    """Return what the decisions of a campaign come to on later loads that it has as well.

    A twin is known by its provenance: all but the stretch of loads is the same. Loads of a trace
    that reads its text twice are no twins, if their provenance says "contaminated".

    Parameters
    ----------
    solves
        With a column `label`.
    best
        An optimal solve of each instance that has one.
    store, traits
        Where the solves' instances are, and what it says of them.
    limits
        For the best single decision for several test loads; these solves are the store's, too.
    """
    optima = _optima(solves)
    trials = _trials(optima, traits)
    if not trials:
        return []
    needed = {digest: None for trial in trials for digest in (trial.train, *trial.tests)}
    instances = {digest: store.instance(digest) for digest in needed}
    home = get_problem(problem)
    own = {digest: Bracket(cost, cost) for digest, cost in optima.items()}
    judged = judge(_decided(solves, best), trials, instances, own, home.schedulers or (EXACT,))
    used = {row["judged_on"] for row in judged if row["excess_at_most"] is not None}
    of = grouped(
        decisions_of(row for row in judged if row["judged_on"] in {*used, row["instance_hash"]}),
        lambda row: (row.train, row.distance),
    )
    rows: list[Row] = []
    for trial in trials:
        tests = tuple(test for test in trial.tests if test in used)
        mine = of.get((trial.train, trial.distance), [])
        if any(row.excesses for row in mine):
            windows = [instances[test] for test in tests]
            least = sum(optima[test] for test in tests)
            total = Bracket(least, least)
            one = _one_decision(windows, total, mine, limits, store)
            mine = with_shares(mine, _sample_label(problem, solves), one)
            said = reference(trial._replace(tests=tests), total, one, bool(home.schedulers))
            rows += [said, *mine]
    clusters = dict(zip(solves.instance_hash, tag_of(solves, "cluster"), strict=True))
    return summary(problem, rows, clusters)


def asked_in_hindsight(solves: pd.DataFrame, store: Store) -> Iterator[Job]:
    """Yield the solves that a report of a campaign asks for beside its own, problem by problem."""
    traits = store.traits()
    for _, of in each_once(solves).groupby("problem", sort=False):
        for trial in _trials(_optima(of), traits):
            if len(trial.tests) > 1:
                try:
                    whole = joined([store.instance(test) for test in trial.tests])
                except InputError:  # there is no instance of all of them
                    continue
                yield from hindsight_jobs(whole, HINDSIGHT_WORK)


def _optima(solves: pd.DataFrame) -> dict[str, int]:
    proven = solves[solves.optimum.notna()]
    return dict(zip(proven.instance_hash, map(first_key, proven.optimum), strict=True))


def _trials(optima: Mapping[str, int], traits: Mapping[str, Traits]) -> list[Trial]:
    """Return loads whose optima are known with the later ones, those of a distance together."""
    found: dict[tuple[int, str], list[tuple[str, int]]] = {}
    said = {digest: traits[digest].moment for digest in optima if digest in traits}
    for earlier, later, distance in twins({d: one for d, one in said.items() if one is not None}):
        found.setdefault((_decade(distance), earlier), []).append((later, distance))
    return [
        Trial(train, tuple(test for test, _ in of), min(distance for _, distance in of))
        for (_, train), of in found.items()
    ]


def _one_decision(
    windows: Sequence[InstanceEnvelope],
    own: Bracket,
    rows: Sequence[Row],
    limits: Limits,
    store: Store,
) -> Bracket:
    """Return the bracket of the best single decision, by what is known where none can be made."""
    costs = [row.later for row in rows if row.later is not None]
    try:
        return hindsight_static(joined(windows), windows, own, costs, limits, store.solved)
    except InputError:  # there is no instance of all of them
        return Bracket(min(costs, default=None), own.bound)


def _decided(solves: pd.DataFrame, best: pd.DataFrame) -> pd.DataFrame:
    """Return the decisions of heuristics, the last of each label, and an optimal one of each."""
    heuristics = solves[solves.solution.notna() & ~exact_of(solves)]
    labelled = heuristics.assign(label=heuristics.label.map(_plain))
    both = pd.concat([best.reset_index(drop=True).assign(label=OPTIMUM), labelled])
    return both.drop_duplicates(["instance_hash", "label"], keep="last")


def _sample_label(problem: str, solves: pd.DataFrame) -> str:
    """Return what tables call the problem's sample rule; empty if it is not among the methods."""
    labels = solves.label[solves.method == get_problem(problem).sample_rule]
    return "" if labels.empty else _plain(labels.iloc[0])


def _plain(label: str) -> str:
    """Return a label without "hindsight": what is so here knows nothing of later loads."""
    return label.removesuffix(" (hindsight)")
