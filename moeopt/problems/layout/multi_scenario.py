"""Several scenarios: a bound that holds for every solution, and local search for incumbents.

Bound: wait and see (Madansky 1960). Incumbents: annealing at one number of striped experts after
the other, around the best.
"""

from moeopt.core.search import Search

from .annealing import units_per_move
from .bounds import lower_bound, on_grid
from .check import objective
from .heuristics import lpt
from .instance import Instance, Solution, is_tiny, with_idle_localized
from .rounds import in_turn
from .single_scenario import scenario_bounds

WAIT_AND_SEE_SHARE = 0.4
"""Part of the time that the scenarios by themselves may take; they mostly need little of it."""

FIRST_ROUND = 3 / 32
"""Part of the time that is left that a first round of annealing takes."""

LONGEST = 0.5
"""Units of work, or seconds, that it takes at most."""


def solve(instance: Instance, search: Search) -> None:
    """Prove the bound, then search for incumbents until rounds of annealing find no better one."""

    def keep(solution: Solution) -> None:
        solution = with_idle_localized(instance, solution)
        search.offer(solution, objective(instance, solution))

    def stopped() -> bool:
        return search.stopped or search.closed

    search.prove(on_grid(instance, lower_bound(instance)))
    alone = scenario_bounds(instance, search, WAIT_AND_SEE_SHARE * search.remaining_s)
    search.prove(on_grid(instance, sum(alone)))
    first = lpt(instance)
    keep(first)
    if is_tiny(instance):
        search.note = "CLOSED" if search.closed else "OPEN"
        return
    units = min(FIRST_ROUND * search.remaining_s, LONGEST)
    moves = int(units / units_per_move(instance))
    rounds = in_turn(instance, first, search.seed + 1, moves, stopped)
    while not stopped() and (found := next(rounds, None)) is not None:
        keep(found)
    search.note = "CLOSED" if search.closed else "OPEN"
