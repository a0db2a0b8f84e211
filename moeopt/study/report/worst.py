"""Where a heuristic loses most: its schedule, the optimum's, and what they decide differently."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from moeopt.core.clock import by_work
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.objective import entries
from moeopt.core.view import Lane
from moeopt.problems.execute import critical_lanes
from moeopt.problems.pictures import Panel, joined
from moeopt.problems.registry import get_problem
from moeopt.solvers.explain import Binding, bind
from moeopt.study.record import unpacked_solution
from moeopt.study.report.words import amount
from moeopt.study.table import percent

CASES, NAMED = 2, 10
"""Most cases of a problem, and most differing decisions that are written out."""

CHANGES_WORK = 0.02
"""Work on single changes of a case: two thousand of them."""

MOST_LANES, MOST_BARS = 24, 1500
"""Most lanes that are drawn of a schedule, and most bars of a schedule that is drawn."""


@dataclass(frozen=True)
class Case:
    """One instance on which a heuristic is far from the optimum.

    `row` is the heuristic's solve, `best` one that reaches the optimum. `decisions` has (what, the
    heuristic's choice, the optimum's) for the most important that differ, `others` counts the rest.
    `panels` are both schedules, none where there are none or they are too large to be read; of each
    the `hidden` devices that are done earliest are left out. `binding` says where the heuristic's
    critical path lies, and what single changes of its decision would bring, if it has one.
    """

    row: Any
    best: Any
    decisions: Sequence[tuple[str, str, str]]
    others: int
    panels: Sequence[Panel]
    hidden: int = 0
    binding: Binding | None = None

    @property
    def busiest(self) -> str:
        """The devices on the critical path, those with the largest parts first."""
        devices = {} if self.binding is None else self.binding.devices
        total = sum(devices.values())
        shares = [(name, part / total) for name, part in devices.items() if part]
        return ", ".join(f"{name} {percent(share)}" for name, share in shares[:3])

    @property
    def gains(self) -> list[tuple[str, str]]:
        """Single changes that help, with the part of the loss that each takes away."""
        if self.binding is None:
            return []
        now, least = entries(self.binding.objective)[0], entries(self.best.objective or 0)[0]
        found = [
            (change.what, now - entries(change.objective)[0]) for change in self.binding.changes
        ]
        return [
            (what, percent(gain / (now - least))) for what, gain in found if gain > 0 < now - least
        ]


def worst_cases(
    mine: pd.DataFrame, best: pd.DataFrame, read: Callable[[str], InstanceEnvelope]
) -> list[Case]:
    """Return a method's worst instances, one of each family, of which both solutions are known.

    Parameters
    ----------
    mine
        The method's solves.
    best
        An optimal solve of each instance, by content hash: `Study.optima`.
    read
        Returns the instance of a content hash.
    """
    known = mine.solution.notna() & mine.instance_hash.isin(best.index) & (mine.excess > 0)
    candidates = mine[known].sort_values("excess", ascending=False, kind="stable")
    worst = candidates.drop_duplicates("family").head(CASES)
    optimal = {row.instance_hash: row for row in best.itertuples()}
    return [
        _case(row, optimal[row.instance_hash], read(row.instance_hash))
        for row in worst.itertuples()
    ]


def _case(row: Any, best: Any, instance: InstanceEnvelope) -> Case:
    ours, theirs = (unpacked_solution(row.problem, of.solution) for of in (row, best))
    found = differences(row.problem, instance, ours, theirs)
    panels, hidden = _panels(row, best, instance, (ours, theirs))
    binding = None
    if ours is not None:
        with by_work():  # the same changes on every machine
            binding = bind(instance, ours, CHANGES_WORK)
    return Case(row, best, found[:NAMED], max(0, len(found) - NAMED), panels, hidden, binding)


def differences(
    problem: str, instance: object, ours: object, best: object
) -> list[tuple[str, str, str]]:
    """Return (what, ours, best) for each decision that differs, what matters most first."""
    found = get_problem(problem).differences(instance, ours, best)
    return [(what, a, b) for _, what, a, b in sorted(found, key=lambda one: -one[0])]


def _panels(
    row: Any,
    best: Any,
    instance: InstanceEnvelope,
    solutions: Sequence[SolutionEnvelope | None],
) -> tuple[list[Panel], int]:
    schedules = []
    for solution in solutions:
        lanes = _lanes(instance, solution)
        if lanes is None:
            return [], 0
        schedules.append([Lane(lane.device, tuple(joined(lane.bars))) for lane in lanes])
    shown = _latest(schedules)
    hidden = len(schedules[0]) - len(shown)
    schedules = [[lanes[at] for at in shown] for lanes in schedules]
    if max(sum(len(lane.bars) for lane in lanes) for lanes in schedules) > MOST_BARS:
        return [], 0
    titles = (
        f"{row.method}: {amount(row.problem, row.objective)} (+{percent(row.excess)})",
        f"the optimum: {amount(row.problem, best.objective)}",
    )
    return [Panel(*panel) for panel in zip(titles, schedules, strict=True)], hidden


def _lanes(instance: InstanceEnvelope, solution: SolutionEnvelope | None) -> Sequence[Lane] | None:
    """Return a schedule's lanes; bars that are sums have no slack to be marked."""
    problem = get_problem(instance.problem)
    if solution is None or not problem.has("lanes"):
        return None
    if problem.lanes_are_sums:
        return tuple(problem.lanes(instance, solution))
    drawn = critical_lanes(instance, solution)
    return None if drawn is None else drawn.lanes


def _latest(schedules: Sequence[Sequence[Lane]]) -> list[int]:
    """Return which lanes to draw, in order: those that are done last in either schedule."""
    ends = [max(lane.end_ns for lane in lanes) for lanes in zip(*schedules, strict=True)]
    latest = sorted(range(len(ends)), key=lambda at: -ends[at])[:MOST_LANES]
    return sorted(latest)
