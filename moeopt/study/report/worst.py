"""Where a heuristic loses most: its schedule, the optimum's, and what they decide differently."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moeopt.core.clock import by_work
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.objective import entries
from moeopt.core.view import Lane
from moeopt.problems.execute import critical_lanes
from moeopt.problems.registry import get_problem
from moeopt.solvers.explain import Binding, bind
from moeopt.study.pictures import Panel, joined
from moeopt.study.report.words import amount
from moeopt.study.rows import Row, as_known
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

    row: Row
    best: Row
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
        now, least = entries(self.binding.objective)[0], entries(self.best.result.objective or 0)[0]
        found = [
            (change.what, now - entries(change.objective)[0]) for change in self.binding.changes
        ]
        return [
            (what, percent(gain / (now - least))) for what, gain in found if gain > 0 < now - least
        ]


def worst_cases(
    rows: Sequence[Row], method: str, instances: Mapping[str, InstanceEnvelope]
) -> list[Case]:
    """Return a method's worst instances, one of each family, of which both solutions are known."""
    best: dict[str, Row] = {}
    for row in rows:
        if row.optimal and row.result.solution is not None:
            best.setdefault(row.key.instance, row)
    for row in rows:
        if row.known is not None and row.known.objective == row.optimum:
            best.setdefault(row.key.instance, as_known(row, row.known))
    candidates = [
        row
        for row in rows
        if row.key.method == method
        and row.excess
        and row.result.solution is not None
        and row.key.instance in best
        and row.key.instance in instances
    ]
    cases: dict[str, Case] = {}
    for row in sorted(candidates, key=lambda row: -(row.excess or 0)):
        if len(cases) < CASES and row.family not in cases:
            instance = instances[row.key.instance]
            cases[row.family] = _case(row, best[row.key.instance], instance)
    return list(cases.values())


def _case(row: Row, best: Row, instance: InstanceEnvelope) -> Case:
    ours, theirs = row.result.solution, best.result.solution
    found = differences(row.result.problem, instance, ours, theirs)
    panels, hidden = _panels(row, best, instance)
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


def _panels(row: Row, best: Row, instance: InstanceEnvelope) -> tuple[list[Panel], int]:
    schedules = []
    for result in (row.result, best.result):
        lanes = _lanes(instance, result.solution)
        if lanes is None:
            return [], 0
        schedules.append([Lane(lane.device, tuple(joined(lane.bars))) for lane in lanes])
    shown = _latest(schedules)
    hidden = len(schedules[0]) - len(shown)
    schedules = [[lanes[at] for at in shown] for lanes in schedules]
    if max(sum(len(lane.bars) for lane in lanes) for lanes in schedules) > MOST_BARS:
        return [], 0
    of = row.result.problem
    titles = (
        f"{row.key.method}: {amount(of, row.result.objective)} (+{percent(row.excess)})",
        f"the optimum: {amount(of, best.result.objective)}",
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
