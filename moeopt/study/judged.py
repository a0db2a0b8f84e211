"""Decisions executed on loads that they were not made on: a campaign's rows, judged elsewhere.

`judge` repeats a solve's row once for each of the loads on which its decision is executed, with the
cost there and against the optimum there: column `judged_on` says which loads these are,
`scheduled_by` who scheduled. `decisions_of` sums the rows of one decision. What decisions are held
against stands in `moeopt.study.references`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import pandas as pd

from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective, first_key
from moeopt.core.problem import EXACT, Schedule
from moeopt.problems.holdout import executed_on, schedule_name
from moeopt.problems.registry import get_problem
from moeopt.study.frame import excess, grouped
from moeopt.study.record import unpacked_solution
from moeopt.study.references import Bracket, share_between

ONE_DECISION = "one decision in hindsight"
"""The best single decision for all test loads, which no rule can beat."""

NONE = "-"
"""The scheduler of problems whose decisions nobody schedules."""


class Trial(NamedTuple):
    """Loads that were decided on and later ones, by content hash, and how far these lie behind."""

    train: str
    tests: tuple[str, ...]
    distance: int


JudgedRow = dict[str, Any]
"""A solve's row, judged on some loads: see `judge`."""


def judge(
    decided: pd.DataFrame,
    trials: Sequence[Trial],
    instances: Mapping[str, InstanceEnvelope],
    own: Mapping[str, Bracket],
    schedules: Sequence[Schedule],
) -> list[JudgedRow]:
    """Return a row for each decision, scheduler and load that it is executed on.

    Parameters
    ----------
    decided
        Solves with a column `label`; those with a solution are decisions.
    trials
        Whose decisions are executed on what.
    instances
        The loads, by content hash.
    own
        The brackets of the test loads' optima; those of the train loads stand in `decided`.
    schedules
        Who schedules. Where a schedule follows from a decision it is made anew on all loads, so
        that what is compared is the decision, for the scheduler that will run.

    Returns
    -------
    list of dict
        The columns of `decided`, where `objective`, `optimum`, `best_bound`, `excess` and
        `excess_at_most` are those on the loads of `judged_on`, a content hash; `failure` and
        `raw_status` say why a decision cannot be used there. Besides `scheduled_by`, `distance` and
        `unproven`: how many exact schedules are not proven the best.
    """
    asked = decided[decided.instance_hash.isin({trial.train for trial in trials})]
    of_train = grouped(asked.to_dict("records"), lambda row: str(row["instance_hash"]))
    known: dict[tuple[str, str, str], JudgedRow] = {}
    rows: list[JudgedRow] = []
    for trial in trials:
        for row in of_train.get(trial.train, []):
            solution = unpacked_solution(row["problem"], row["solution"])
            home = get_problem(row["problem"])
            for by in schedules if solution is not None else ():
                name = schedule_name(by) if home.schedulers else NONE
                place = {"scheduled_by": name, "distance": trial.distance}
                which = trial.train, str(row["label"]), name
                if which not in known:
                    # Where nothing is decided anew the solve has it: to execute it again is dear.
                    there = _there(instances[trial.train], solution, by) if home.reruns() else {}
                    known[which] = row | {"unproven": 0, "judged_on": trial.train} | there
                    known[which] |= _against(known[which], row["optimum"], row["best_bound"])
                rows.append(known[which] | place)
                for test in trial.tests:
                    there = _there(instances[test], solution, by)
                    least = own[test].cost if own[test].proven else None
                    there |= _against(there, least, own[test].bound)
                    rows.append(row | place | there | {"judged_on": test})
    return rows


def _there(
    instance: InstanceEnvelope, solution: SolutionEnvelope | None, by: Schedule
) -> JudgedRow:
    """Return what a decision costs on an instance, or why it cannot be used there."""
    if solution is None:
        return {"objective": None, "unproven": 0}
    try:
        run = executed_on(instance, solution, by)
    except InputError as error:
        said = f"does not fit the later loads: {error}"
        return {"objective": None, "unproven": 0, "failure": "input", "raw_status": said}
    return {"objective": run.objective, "unproven": run.unproven}


def _against(row: JudgedRow, optimum: Objective | None, bound: Objective | None) -> JudgedRow:
    """Return how far a row's cost is above the optimum and the bound of where it is judged."""
    cost = row["objective"]
    return {
        "optimum": optimum,
        "best_bound": bound,
        "excess": excess(cost, optimum),
        "excess_at_most": excess(cost, bound),
        "optimal": optimum is not None and cost == optimum,
    }


@dataclass(frozen=True)
class Row:
    """One method's decision under one scheduler.

    Attributes
    ----------
    method
        As tables call it; decided on the train loads alone.
    schedule
        Who scheduled it, on all loads; "-" if there is nothing to be scheduled.
    known
        What it costs on the train loads, by the objective's first entry.
    later
        What it costs on all test loads together; None if it cannot be used on one of them.
    excess
        How far that is above the sum of their own optima; above its bound where that sum is
        not proven, so never more than this.
    worst
        The same of the worst test load.
    share_low, share_high
        What the decision brings over the sample rule's, as a share of what the best decision in
        hindsight would have brought: between these two, as its bracket has it; equal if it is
        closed. Negative if it is worse than the sample rule; None where nothing is to be had.
    seconds
        For deciding.
    status
        Of the solve: "optimal" is a proven optimum of the train loads.
    unproven
        How many of the test loads' exact schedules are not proven the best.
    reason
        Why there are no figures, if there are none.
    train, distance
        The train loads' content hash, and how far the test loads lie behind.
    known_excess
        How far `known` is above the train loads' optimum; None if that is not known.
    excesses, pairs
        Of each test load that it can be used on, and how many these are; of the best single
        decision the excess on all together.
    gap
        Of its proven bracket, for `ONE_DECISION`.
    """

    method: str
    schedule: str
    known: int | None = None
    later: int | None = None
    excess: float | None = None
    worst: float | None = None
    share_low: float | None = None
    share_high: float | None = None
    seconds: float = 0.0
    status: str = "failed"
    unproven: int = 0
    reason: str = ""
    train: str = ""
    distance: int = 0
    known_excess: float | None = None
    excesses: tuple[float, ...] = ()
    pairs: int = 0
    gap: float | None = None


UNPRINTED = ("train", "distance", "known_excess", "excesses", "pairs", "gap")
"""Fields of `Row` that JSON does not repeat: the references say them, or `excess` and `worst`."""


def decisions_of(judged: Iterable[JudgedRow]) -> list[Row]:
    """Return the decisions of judged rows, in order, without shares."""
    by = ("instance_hash", "distance", "label", "scheduled_by")
    return [_decision(rows) for rows in grouped(judged, lambda r: tuple(map(r.get, by))).values()]


def _decision(rows: Sequence[JudgedRow]) -> Row:
    here, *there = rows
    excesses = tuple(r["excess_at_most"] for r in there if r["excess_at_most"] is not None)
    found = Row(
        here["label"],
        here["scheduled_by"],
        known=None if here["objective"] is None else first_key(here["objective"]),
        worst=max(excesses, default=None),
        seconds=here["seconds"],
        status=here["status"],
        train=here["instance_hash"],
        distance=here["distance"],
        known_excess=here["excess"],
        excesses=excesses,
        pairs=len(excesses),
    )
    for row in (row for row in there if row["objective"] is None):
        return replace(found, status="failed", reason=row["raw_status"])
    cost, least = (sum(first_key(r[name]) for r in there) for name in ("objective", "best_bound"))
    unproven = sum(row["unproven"] for row in there)
    return replace(found, later=cost, excess=excess(cost, least), unproven=unproven)


def with_shares(rows: Sequence[Row], sample: str, best: Bracket) -> list[Row]:
    """Return one trial's rows with their shares of what hindsight would gain over `sample`."""
    base = {row.schedule: row.later for row in rows if row.method == sample}
    found = []
    for row in rows:
        least = base.get(row.schedule)
        low, high = None, None
        if row.later is not None and least is not None:
            low, high = share_between(row.later, least, best) or (None, None)
        found.append(replace(row, share_low=low, share_high=high))
    return found


def reference(trial: Trial, own: Bracket, best: Bracket, scheduled: bool) -> Row:
    """Return the row of the best single decision for a trial's test loads."""
    above = best.cost / own.bound - 1 if best.cost is not None and own.bound else None
    return Row(
        ONE_DECISION,
        EXACT if scheduled else NONE,
        later=best.cost,
        excess=above,
        gap=best.gap or 0.0,
        train=trial.train,
        distance=trial.distance,
        pairs=len(trial.tests),
        excesses=() if above is None else (above,),
    )
