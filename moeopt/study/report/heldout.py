"""What decisions cost on later loads than those they were made on: pairs of instances."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from moeopt.errors import InputError
from moeopt.numeric.intervals import median_interval
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.info import Phases
from moeopt.problems.objective import Objective, relative
from moeopt.problems.registry import get_problem
from moeopt.sim.fixed_layout import EXACT
from moeopt.sim.holdout.run import executed_on
from moeopt.sim.holdout.twins import Place, family_of, length_of, place_of
from moeopt.study.plan import Key
from moeopt.study.report.study import is_exact
from moeopt.study.rows import Row

OPTIMUM = "the optimum"


@dataclass(frozen=True)
class HeldOut:
    """One method's decisions on the loads they were made on, and on later ones.

    Attributes
    ----------
    method
        As tables call it; the optimum of the earlier loads is a method, too.
    distance
        How far the later loads lie behind, in words: what counts is how many steps are between.
    decisions, pairs
        Instances that were decided on, and how many later twins they have at that distance; the
        optima of both are proven.
    known
        Median excess on the loads that were decided on, over the optimum there.
    later
        Median excess on the later loads, over the optimum in hindsight; a decision with several
        later twins counts by their median.
    interval
        Holds the median with 95 % confidence if decisions are independent, by order statistics;
        None if they are too few. For further layers and stretches of the same traces: what another
        trace brings may lie outside.
    later_max
        The largest excess on later loads.
    """

    method: str
    distance: str
    decisions: int
    pairs: int
    known: float
    later: float
    interval: tuple[float, float] | None
    later_max: float


def held_out(
    problem: str,
    rows: Sequence[Row],
    instances: Mapping[str, InstanceEnvelope],
    labels: Mapping[Key, str],
) -> list[HeldOut]:
    """Return a row for each distance and method, the nearest and the best ones first.

    Where a schedule follows from a decision it is made anew, the best there is, on both loads: what
    is compared is the decision. A twin is known by its provenance: all but the stretch of loads is
    the same. Loads of a trace that reads its text twice are no twins, if their provenance says
    "contaminated".
    """
    found = [
        (which, summary(which[1], distance_in_words(problem, which[0]), list(decisions.values())))
        for which, decisions in excesses(problem, rows, instances, labels).items()
    ]
    found.sort(key=lambda one: (one[0][0], one[1].method != OPTIMUM, one[1].later))
    return [one for _, one in found]


Excesses = Mapping[tuple[int, str], Mapping[str, Sequence[tuple[float, float]]]]
"""By class of distance and method: content hash of the instance that was decided on -> known and
later excess, for each later twin."""


def excesses(
    problem: str,
    rows: Sequence[Row],
    instances: Mapping[str, InstanceEnvelope],
    labels: Mapping[Key, str],
) -> Excesses:
    """Return what every decision costs where it was made and later; see `held_out`."""
    optima = {row.key.instance: row.optimum for row in rows if row.optimum is not None}
    here = {digest: instances[digest] for digest in optima if digest in instances}
    decided = _decisions(problem, rows, labels)
    found: dict[tuple[int, str], dict[str, list[tuple[float, float]]]] = {}
    for earlier, later, distance in _pairs(here):
        for label, row in decided.get(earlier, {}).items():
            pair = [_excess(here[on], optima[on], row) for on in (earlier, later)]
            if pair[0] is not None and pair[1] is not None:
                of = found.setdefault((_decade(distance), label), {})
                of.setdefault(earlier, []).append((pair[0], pair[1]))
    return found


def _decisions(
    problem: str, rows: Sequence[Row], labels: Mapping[Key, str]
) -> dict[str, dict[str, Row]]:
    """Return by instance and label the solves with a solution, one of the optimal ones as such."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.result.solution is None:
            continue
        of = found.setdefault(row.key.instance, {})
        if row.optimal:
            of.setdefault(OPTIMUM, row)
        if not is_exact(problem, row.key.method):
            # What is hindsight on the loads themselves knows nothing of those that come later.
            of[labels[row.key].removesuffix(" (hindsight)")] = row
    return found


def _pairs(instances: Mapping[str, InstanceEnvelope]) -> Iterator[tuple[str, str, int]]:
    """Yield every instance with each of its later twins, as content hashes, and their distance.

    Only twins of as many steps, tokens or windows: otherwise rows would mix what is comparable.
    """
    twins: dict[tuple[str, str], list[tuple[Place, str]]] = {}
    for digest, instance in instances.items():
        family, place = family_of(instance), place_of(instance)
        if family is not None and place is not None:
            length = str(length_of(instance))
            twins.setdefault((family, length), []).append((place, digest))
    for group in twins.values():
        for before, earlier in group:
            for after, later in group:
                if (distance := before.until(after)) is not None:
                    yield earlier, later, distance


def _decade(distance: int) -> int:
    """Return 0 for adjacent loads, 1 for 1 to 9 steps between, 2 for 10 to 99 and so on."""
    return len(str(distance)) if distance else 0


def distance_in_words(problem: str, decade: int) -> str:
    """Return a decade of distances as tables say it, with the problem's unit of time."""
    holdout = get_problem(problem).info.holdout
    if isinstance(holdout, Phases):
        return holdout.order[-1]
    if not decade or holdout is None:
        return "next"
    return f"{10 ** (decade - 1):,}-{10**decade - 1:,} {holdout.length} on"


def _excess(instance: InstanceEnvelope, optimum: Objective | None, row: Row) -> float | None:
    """Return the excess of a solve's decision on an instance; None if it does not fit there."""
    if row.result.solution is None or optimum is None:
        return None
    try:
        objective = executed_on(instance, row.result.solution, EXACT).objective
    except InputError:
        return None
    return relative(objective, optimum, optimum)


def summary(
    label: str, distance: str, decisions: Sequence[Sequence[tuple[float, float]]]
) -> HeldOut:
    """Return the row of some decisions, each with its known and later excess by later twin."""
    known = [pairs[0][0] for pairs in decisions]
    every = [[later for _, later in pairs] for pairs in decisions]
    later = [median(of) for of in every]
    return HeldOut(
        method=label,
        distance=distance,
        decisions=len(decisions),
        pairs=sum(map(len, decisions)),
        known=median(known),
        later=median(later),
        interval=median_interval(later),
        later_max=max(map(max, every)),
    )
