"""Several scenarios: bounds that hold for every solution, and local search for incumbents.

Bounds: wait and see (Madansky 1960), then what one layout for all costs (`shared_layout`).
Incumbents: iterated local search from the best heuristic, from the best of the layouts that the
scenarios have by themselves, and on from the incumbent.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moeopt.core.search import Search

from .bounds import lower_bound, objective_grid
from .check import objective
from .heuristics import best_of_rules
from .instance import Instance, with_idle_localized
from .local_search.descent import DESCENTS, EVALUATIONS, iterated
from .local_search.state import (
    SearchState,
    costs_of,
    decision_of,
    objective_of,
    state_of,
    unit_of,
)
from .paths import IDLE, STRIPED, Device
from .second_stage import Layout, as_solution, best_schedules
from .shared_layout import SharedLayout
from .single_scenario import scenario_bounds

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""

FIRST_SHARE = 0.5
"""Part of the time left for incumbents before the bound for all windows."""

BOUND_SHARE = 0.5
"""Part of the time that is left then for that bound, before more of both."""

PATIENCE = 4
"""Rounds of local search without success after which it is given up."""

Ints = NDArray[np.int64]


@dataclass
class Bounds:
    """What is proven: weighted bounds of the scenarios by themselves, and of all together."""

    alone: list[int] = field(default_factory=list)
    together: int = 0


def solve(instance: Instance, search: Search) -> Bounds:
    """Search for bounds and for incumbents in turn; return the bounds, for studies."""
    found, layouts = Bounds(), list[Layout]()
    _prove(instance, search, lower_bound(instance))
    share_s = WAIT_AND_SEE_SHARE * search.remaining_s
    found.alone = scenario_bounds(instance, search, share_s, layouts)
    _prove(instance, search, sum(found.alone))
    incumbents = _Incumbents(instance, search, layouts)
    incumbents.improve(search.remaining_s * (1 - FIRST_SHARE))
    shared = _shared(instance, search, found.alone)
    for until_s in (search.remaining_s * (1 - BOUND_SHARE), 0.0):
        while search.remaining_s > until_s and not search.closed:
            if (bound := next(shared, None)) is None:
                break
            found.together = bound
            _prove(instance, search, bound)
        incumbents.improve(0.0)
    search.note = "CLOSED" if search.closed else "OPEN"
    return found


def _shared(instance: Instance, search: Search, alone: list[int]) -> Iterator[int]:
    """Yield higher and higher bounds for a layout that all scenarios share."""
    unit = unit_of(instance)
    least = [-(-a // (s.weight * unit)) for a, s in zip(alone, instance.scenarios, strict=True)]
    upper = objective(instance, search.solution) // unit
    return (unit * bound for bound in SharedLayout(instance, least, upper).bounds())


def _prove(instance: Instance, search: Search, bound: int) -> None:
    grid = objective_grid(instance)
    search.prove(-(-bound // grid) * grid)


class _Incumbents:
    """Rounds of iterated local search; what is better goes to the search.

    Attributes
    ----------
    best
        The best state so far.
    """

    def __init__(self, instance: Instance, search: Search, layouts: list[Layout]) -> None:
        self.instance, self.search = instance, search
        self.costs = costs_of(instance)
        self.experts = np.flatnonzero(instance.path_times.active.any(axis=0))
        first = state_of(instance, self.costs, *decision_of(best_of_rules(instance)))
        own = [self._scheduled(layout, first_devices(instance, layout)) for layout in layouts]
        self.best, self.value = first, float("inf")
        self._keep(first)
        self.starts = [first]
        if own:
            self.starts.insert(0, min(own, key=lambda state: objective_of(self.costs, state)))
        self.rounds = self.failures = 0

    def improve(self, until_s: float) -> None:
        """Go on until `until_s` seconds are left, all is proven, or nothing is found any more."""

        def stopped() -> bool:
            return self.search.remaining_s <= until_s or self.search.closed

        while not stopped() and self.failures < PATIENCE:
            start = self.starts[self.rounds] if self.rounds < len(self.starts) else self.best
            rng = np.random.default_rng([self.search.seed, self.rounds])
            budget = EVALUATIONS // len(self.instance.scenarios)
            found = iterated(self.costs, start, self.experts, rng, budget, DESCENTS, 0.0, stopped)
            self.rounds += 1
            self.failures = 0 if self._keep(found) else self.failures + 1

    def _scheduled(self, layout: Layout, device: Ints) -> SearchState:
        """Return a layout's state with its best schedules."""
        device = best_schedules(self.instance, layout, device)
        return state_of(self.instance, self.costs, layout, device)

    def _keep(self, state: SearchState) -> bool:
        """Offer a state with its best schedules; return whether it is better than any before."""
        layout = Layout(state.resident, state.dimm)
        state = self._scheduled(layout, state.device)
        solution = as_solution(self.instance, layout, state.device)
        solution = with_idle_localized(self.instance, solution)
        self.search.offer(solution, objective(self.instance, solution))
        value = objective_of(self.costs, state)
        better = value < self.value
        if better:
            self.best, self.value = state, value
        return better


def first_devices(instance: Instance, layout: Layout) -> Ints:
    """Return schedules: the GPU runs its hits, NDP what is localized, the CPU the rest."""
    device = np.where(layout.dimm == STRIPED, Device.CPU, Device.NDP)
    device = np.where(layout.resident, Device.GPU, device)
    return np.where(instance.path_times.active, device, IDLE).astype(np.int64)
