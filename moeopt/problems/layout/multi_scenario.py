"""Several scenarios: bounds that hold for every solution, and local search for incumbents.

Bounds: wait and see (Madansky 1960), then what one layout for all costs (`shared_layout`).
Incumbents: annealing at one number of striped experts after the other, around the best.
"""

from collections.abc import Iterator

from moeopt.core.search import Search

from .annealing import units_per_move
from .bounds import lower_bound, on_grid, unit_of
from .check import objective
from .heuristics import lpt
from .instance import Instance, Solution, with_idle_localized
from .rounds import in_turn
from .shared_layout import SharedLayout
from .single_scenario import scenario_bounds

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""

FIRST_SHARE, FIRST_MOST = 0.75, 7.0
"""Part of the time left for incumbents before the bound for all windows, and the most units."""

BOUND_SHARE = 0.8
"""Part of the time that is left then for that bound, before more of both."""

ROUNDS = 8
"""First rounds of annealing that would fit into this part."""

LONGEST = 0.5
"""Units of work, or seconds, that a first round takes at most."""


def solve(instance: Instance, search: Search) -> None:
    """Search for bounds and for incumbents in turn."""
    search.prove(on_grid(instance, lower_bound(instance)))
    share_s = WAIT_AND_SEE_SHARE * search.remaining_s
    alone = scenario_bounds(instance, search, share_s)
    search.prove(on_grid(instance, sum(alone)))
    until_s = search.remaining_s - min(FIRST_SHARE * search.remaining_s, FIRST_MOST)
    incumbents = _Incumbents(instance, search, until_s)
    incumbents.improve(until_s)
    shared = _shared(instance, search, alone)
    for until_s in (search.remaining_s * (1 - BOUND_SHARE), 0.0):
        while search.remaining_s > until_s and not search.closed:
            if (bound := next(shared, None)) is None:
                break
            search.prove(on_grid(instance, bound))
        incumbents.improve(0.0)
    search.note = "CLOSED" if search.closed else "OPEN"


def _shared(instance: Instance, search: Search, alone: list[int]) -> Iterator[int]:
    """Yield higher and higher bounds for a layout that all scenarios share."""
    unit = unit_of(instance)
    least = [-(-a // (s.weight * unit)) for a, s in zip(alone, instance.scenarios, strict=True)]
    upper = objective(instance, search.solution) // unit
    return (unit * bound for bound in SharedLayout(instance, least, upper).bounds())


class _Incumbents:
    """Rounds of annealing; what is better goes to the search."""

    def __init__(self, instance: Instance, search: Search, until_s: float) -> None:
        self.instance, self.search, self.until_s = instance, search, until_s
        first = lpt(instance)
        self._keep(first)
        units = min((search.remaining_s - until_s) / ROUNDS, LONGEST)
        moves = int(units / units_per_move(instance))
        self.rounds = in_turn(instance, first, search.seed + 1, moves, self._stopped)

    def improve(self, until_s: float) -> None:
        """Go on until `until_s` seconds are left, all is proven, or nothing is found any more."""
        self.until_s = until_s
        while not self._stopped() and (found := next(self.rounds, None)) is not None:
            self._keep(found)

    def _stopped(self) -> bool:
        return self.search.remaining_s <= self.until_s or self.search.closed

    def _keep(self, solution: Solution) -> None:
        solution = with_idle_localized(self.instance, solution)
        self.search.offer(solution, objective(self.instance, solution))
