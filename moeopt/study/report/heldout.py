"""What decisions cost on later loads than those they were made on: pairs of instances."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.info import Phases, Stretch
from moeopt.problems.objective import Objective, relative
from moeopt.problems.registry import get_problem
from moeopt.problems.tri_domain.instance import Instance as Layer
from moeopt.problems.tri_domain.solution import Solution as Schedule
from moeopt.sim.holdout.run import run_on
from moeopt.solvers.run import solve
from moeopt.study.plan import Key
from moeopt.study.report.study import is_exact
from moeopt.study.rows import Row

OPTIMUM = "the optimum"

SCHEDULE_LIMIT_S = 10.0
"""For a schedule on fixed loads and layout, which takes milliseconds."""


@dataclass(frozen=True)
class HeldOut:
    """One method's decisions on the loads they were made on, and on later ones.

    Attributes
    ----------
    method
        As tables call it; the optimum of the earlier loads is a method, too.
    pairs
        Instances with a later twin where both optima are proven.
    known
        Median excess on the loads that were decided on, over the optimum there.
    later, later_max
        Median and largest excess on the later loads, over the optimum in hindsight.
    """

    method: str
    pairs: int
    known: float
    later: float
    later_max: float


def held_out(
    problem: str,
    rows: Sequence[Row],
    instances: Mapping[str, InstanceEnvelope],
    labels: Mapping[Key, str],
) -> list[HeldOut]:
    """Return a row for the optimum and for every heuristic, best ones first.

    Where a schedule follows from a decision it is made anew, the best there is, on both loads: what
    is compared is the decision. A twin is known by its provenance: all but the stretch of loads is
    the same.
    """
    optima = {row.key.instance: row.optimum for row in rows if row.optimum is not None}
    here = {digest: instances[digest] for digest in optima if digest in instances}
    decided = _decisions(problem, rows, labels)
    excesses: dict[str, list[tuple[float, float]]] = {}
    for earlier, later in _pairs(problem, here):
        for label, row in decided.get(earlier, {}).items():
            pair = [_excess(here[on], optima[on], row) for on in (earlier, later)]
            if pair[0] is not None and pair[1] is not None:
                excesses.setdefault(label, []).append((pair[0], pair[1]))
    found = [_summary(label, pairs) for label, pairs in excesses.items()]
    return sorted(found, key=lambda one: (one.method != OPTIMUM, one.later))


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
            of[labels[row.key]] = row
    return found


def _pairs(problem: str, instances: Mapping[str, InstanceEnvelope]) -> Iterator[tuple[str, str]]:
    """Yield every instance with each of its later twins, as content hashes."""
    holdout = get_problem(problem).info.holdout
    if holdout is None:
        return
    twins: dict[str, list[tuple[int, int, str]]] = {}
    for digest, instance in instances.items():
        provenance = instance.provenance or {}
        options = provenance.get("options")
        if isinstance(options, dict) and (place := _place(holdout, options)) is not None:
            twins.setdefault(_rest(holdout, provenance, options), []).append((*place, digest))
    for group in twins.values():
        for _, end, earlier in group:
            yield from ((earlier, later) for begin, _, later in group if end <= begin)


def _place(holdout: Stretch | Phases, options: Mapping[str, Any]) -> tuple[int, int] | None:
    """Return where an instance's loads begin and end; None where it does not say so."""
    if isinstance(holdout, Phases):
        value, order = options.get(holdout.option), holdout.order
        return (order.index(value), order.index(value) + 1) if value in order else None
    first, length = options.get(holdout.first), options.get(holdout.length)
    if isinstance(first, int) and isinstance(length, int):
        return first, first + length
    return None


def _rest(
    holdout: Stretch | Phases, provenance: Mapping[str, Any], options: Mapping[str, Any]
) -> str:
    """Return what twins agree in: all but where the loads begin and what people are told."""
    moves = holdout.option if isinstance(holdout, Phases) else holdout.first
    same = {name: value for name, value in options.items() if name != moves}
    rest = {k: v for k, v in provenance.items() if k not in ("options", "family", "origin")}
    return json.dumps([same, rest], sort_keys=True, default=str)


def _excess(instance: InstanceEnvelope, optimum: Objective | None, row: Row) -> float | None:
    """Return the excess of a solve's decision on an instance; None if it does not fit there."""
    if row.result.solution is None or optimum is None:
        return None
    try:
        objective = run_on(instance, row.result.solution, _scheduled)
    except InputError:
        return None
    return relative(objective, optimum, optimum)


def _scheduled(layer: Layer) -> Schedule:
    solution = solve(layer, "threshold", time_limit_s=SCHEDULE_LIMIT_S).solution
    if not isinstance(solution, Schedule):
        raise InputError(f"{layer.name}: no schedule within {SCHEDULE_LIMIT_S} s")
    return solution


def _summary(label: str, pairs: Sequence[tuple[float, float]]) -> HeldOut:
    known, later = zip(*pairs, strict=True)
    return HeldOut(label, len(pairs), median(known), median(later), max(later))
