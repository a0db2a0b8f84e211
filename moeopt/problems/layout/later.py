"""Later windows: a layout executed on them, futures drawn from those seen, a decision for them.

Method ``robust`` is a sample average approximation: of longest-first's layouts on sampled futures,
one for each number of localized experts, those whose schedules there are shortest; on an
independent sample the best schedules choose among them and longest-first on the windows seen.
`formulations/layout/spec.md`, section "Decisions for later windows", has the details.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.problem import EXACT, Run, Schedule
from moeopt.core.search import Search
from moeopt.problems.tri_domain.fixed_layout import scheduled
from moeopt.sim.traces.popularity import CostCurve, fit, forecast

from .check import loads, objective
from .heuristics import cold_counts_of, family, longest_first, lpt
from .instance import COSTS, MAX_SCENARIOS, TWO_PARTS, WITHIN, Instance, Scenario, Solution
from .paths import STRIPED
from .second_stage import as_solution, best_schedules, refined
from .systems import Layout, on_layout, with_runs
from .with_copies import COPIES


@dataclass(frozen=True)
class ExecutedLayout:
    """A layout run on the scenarios of an instance.

    Attributes
    ----------
    solution
        Valid for that instance; experts without tokens in it keep their layout.
    makespans_ns
        Of each scenario.
    objective_ns
        Their sum, weighted.
    unproven
        How many scenarios' exact schedules are not proven the best; 0 if somebody else scheduled.
    """

    solution: Solution
    makespans_ns: tuple[int, ...]
    objective_ns: int
    unproven: int


def execute_layout(
    instance: Instance, decision: Solution, schedule: Schedule = EXACT
) -> ExecutedLayout:
    """Run a layout that was decided on other windows of the same layer.

    On the windows that it was decided on, this is its in-sample value under `schedule`.

    Parameters
    ----------
    instance
        The windows to run: generated with a ``first_window`` after those of the decision.
    decision
        A solution for the earlier windows; only its layout is used. An expert that had no tokens
        then is striped, unless the decision says otherwise.
    schedule
        Decides what runs where, in each window for itself: "exact", "trimoe" or a function of a
        tri_domain instance. A layout tuned to the one can be far worse under another.

    Raises
    ------
    InputError
        If the decision is for another number of experts, or uses a DIMM that is not there; or if
        there is no such schedule.
    """
    if len(decision.resident) != instance.experts:
        raise InputError(
            f"decision: must have {instance.experts} experts, not {len(decision.resident)}"
        )
    further = [dimm for dimms in decision.copies or () for dimm in dimms]
    if any(dimm is not None and dimm >= instance.dimms for dimm in (*decision.dimm, *further)):
        raise InputError(f"decision: dimm: must be below {instance.dimms}")
    if further and instance.copies is None:
        raise InputError("decision: copies: the windows to run permit one copy of each expert")
    layout = _layout_of(decision)
    runs = [
        scheduled(on_layout(instance, layout, number), schedule, instance.gpu_base_ns or 0)
        for number in range(len(instance.scenarios))
    ]
    of_copies = [{i: (at, run.sources[i]) for i, at in run.domains.items()} for run in runs]
    place = (decision.resident, decision.dimm, decision.copies)
    pairs = zip(instance.scenarios, runs, strict=True)
    return ExecutedLayout(
        with_runs(instance, *place, of_copies),
        tuple(run.makespan_ns for run in runs),
        sum(scenario.weight * run.makespan_ns for scenario, run in pairs),
        sum(not run.proven for run in runs) if schedule == EXACT else 0,
    )


def run(instance: Instance, decision: Solution, schedule: Schedule) -> Run:
    """Return what a layout costs on the scenarios of `instance`; see `execute_layout`."""
    executed = execute_layout(instance, decision, schedule)
    return Run(executed.objective_ns, executed.unproven)


def adopted(instance: Instance, decision: Solution, schedule: Schedule) -> Solution:
    """Return a layout with schedules for the scenarios of `instance`; see `execute_layout`."""
    return execute_layout(instance, decision, schedule).solution


def windows_of(instance: Instance) -> list[Instance]:
    """Return every scenario that has tokens as an instance of its own, with its weight."""
    found = [
        instance.model_copy(update={"name": f"{instance.name[:180]} [{n}]", "scenarios": (one,)})
        for n, one in enumerate(instance.scenarios)
        if any(one.tokens)
    ]
    return found if len(instance.scenarios) > 1 else [instance]


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all scenarios: a layout costs there what it does in all together."""
    scenarios = [scenario for one in instances for scenario in one.scenarios]
    if len(scenarios) > MAX_SCENARIOS:
        raise InputError(f"{len(scenarios)} windows are more than {MAX_SCENARIOS}")
    change = {"scenarios": tuple(scenarios), "forecast_tokens": None, "provenance": None}
    return instances[0].model_copy(update=change)


ALIKE = 1 - 1e-4
"""In place of the fitted discount: windows seen count alike, however old.

A discount that is fitted to a few windows is a guess, and what it discounts is most of what is
known. On 54 cells of the ESFT traces (layers 3, 5, 12, 14, 20 and 22, decided on 8 windows)
layouts cost 0.34 % less on later windows without it, with a standard error of 0.11.
"""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws windows like those of `instance`, in the order of their scenarios.

    Parameters
    ----------
    instance
        The windows seen, the oldest first; how often each counts plays no part.
    futures
        Its horizon says how many windows the forecast is for.
    seed
        The same seed draws the same windows.
    """
    seen = np.array([scenario.tokens for scenario in instance.scenarios], dtype=np.int64)
    windows = seen[seen.sum(axis=1) > 0]
    alike = replace(fit(windows, futures.horizon).dynamics, discount=ALIKE)
    expected = forecast(windows, alike, futures.horizon)
    names = COSTS + (TWO_PARTS if instance.in_two_parts else ())
    stated = {name: [getattr(s, name) for s in instance.scenarios] for name in names}
    curves = {name: CostCurve.of(seen, ns, instance.quantum_ns) for name, ns in stated.items()}

    def drawn(number: int, stream: int) -> Instance:
        tokens = expected.sample(number, np.random.default_rng([seed, stream]))
        costs = {name: curve(tokens) for name, curve in curves.items()}
        for part, whole in WITHIN if instance.in_two_parts else ():
            costs[part] = np.minimum(costs[part], costs[whole])
        lists = [tokens.tolist(), *(costs[name].tolist() for name in names)]

        def scenario(*columns: list[int]) -> Scenario:
            fields: dict[str, Any] = dict(zip(("tokens", *names), map(tuple, columns), strict=True))
            return Scenario.model_construct(weight=1, **fields)

        scenarios = tuple(starmap(scenario, zip(*lists, strict=True)))
        return drawn_from(instance, f"futures{number}", seed, stream, scenarios=scenarios)

    return drawn


TRAINING, CHECKING = 0, 1
"""Streams of futures: to decide on, and to choose among the decided ones."""

FINALISTS = 16
"""Layouts that get their best schedules."""

FEW = 8
"""Futures that layouts with copies are decided on: their schedules take a hundred times as long."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report layouts, each better on a fixed sample of futures than those before.

    Parameters
    ----------
    observed
        The windows seen.
    draw
        Draws futures.
    search
        Gets solutions of a drawn instance with the sum, or the quantile, of their makespans.
    futures
        How many futures make a sample, and what is minimised.
    """
    if observed.copies is not None:
        _decide_copies(draw, search, futures)
        return
    checked = draw(futures.samples, CHECKING)

    def offer(layout: Layout) -> None:
        device = best_schedules(checked, layout, refined(checked, layout)[0])
        solution = as_solution(checked, layout, device)
        makespans = [of.makespan_ns for of in loads(checked, solution)]
        search.offer(solution, futures.value(makespans))

    offer(_layout_of(lpt(observed)))
    drawn = draw(futures.samples, TRAINING)
    ranked: list[tuple[int, int, Layout]] = []
    for layout in family(drawn, longest_first(drawn), cold_counts_of(drawn)):
        if search.stopped:
            return
        ranked.append((futures.value(refined(drawn, layout)[1]), len(ranked), layout))
    for _, _, layout in sorted(ranked, key=lambda of: of[:2])[:FINALISTS]:
        if search.stopped:
            return
        offer(layout)


def _decide_copies(draw: Draw, search: Search, futures: Futures) -> None:
    """Offer the layouts that the rules with copies decide on a few futures, by their mean."""
    few = draw(min(futures.samples, FEW), TRAINING)
    for rule in COPIES.values():
        if search.solution is None or not search.stopped:
            found = rule(few)
            search.offer(found, objective(few, found))


def _layout_of(solution: Solution) -> Layout:
    dimm = [STRIPED if at is None else at for at in solution.dimm]
    return Layout(np.array(solution.resident), np.array(dimm), solution.copies or ())
