"""Layouts with several copies of an expert: blind rules, annealing, and a bracket.

Proof. With one scenario a layout needs one copy of each expert, the one that it is run from; so the
least makespan of a scenario by itself, over layouts of one copy each without a limit of memory, is
a lower bound on its makespan under any layout with copies, and the weighted sum of these is one on
the objective: wait and see. The lemma stands in `formulations/layout/spec.md`, section "Copies".
"""

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from moeopt.core.clock import out_of_time
from moeopt.core.search import Search
from moeopt.problems.tri_domain.heuristics import quick_schedule

from .bounds import lower_bound, on_grid
from .check import objective, violations
from .copies import Flags, Ints, add_while_they_fit, fields_of, fits
from .instance import Instance, Solution, is_tiny
from .paths import STRIPED
from .systems import (
    Layout,
    Rule,
    best_schedule,
    by_falling_load,
    executed,
    expected_ndp_ns,
    forecast_of,
)

CUTS = 16
"""Numbers of hot experts that `copies_by_load` compares, evenly spaced."""

FINALISTS = 4
"""So many of them get their best schedules."""

WAIT_AND_SEE_SHARE = 0.3
"""Part of the time for the scenarios by themselves."""

ANNEALING_SHARE = 0.6
"""Part of what is left then for annealing; the rest is for CP-SAT."""

HOT, COLD = 1e-3, 5e-6
"""Temperatures relative to the objective, first and last."""

MOVES = 0.7, 0.8, 0.9
"""Shares of moves: see `annealing.Moves`."""

SHORT_ROUND, ROUND = 3000, 6000
"""Moves for each expert in a round of the heuristic, and of the search."""

PATIENCE = 2
"""Rounds without success after which it is given up."""

_Cut = tuple[int, Solution, tuple[Flags, Flags]]
"""Objective, solution, and the layout that it schedules."""


def dual_copies(instance: Instance) -> Solution:
    """Stripe every expert, and localize a second copy on the DIMM of its number modulo their count.

    No loads are known; residents are the hottest of the forecast. As many second copies as fit, in
    order of their numbers; where one copy is permitted all are striped. The best schedules of the
    real loads.
    """
    experts = np.arange(instance.experts)
    return _blind(instance, np.zeros_like(experts), 1 + experts % instance.dimms)


def two_localized(instance: Instance) -> Solution:
    """Localize every expert on the DIMM of its number modulo their count, and on the one after it.

    As `dual_copies` otherwise: what does not fit is striped, or has one copy.
    """
    first = np.arange(instance.experts) % instance.dimms
    second = (first + 1) % instance.dimms
    return _blind(instance, 1 + first, 1 + second)


def copies_by_load(instance: Instance) -> Solution:
    """Stripe hot experts, localize cold ones, and do both with those between, whose place matters.

    By the forecast, or without one by the loads. How many are hot is what gives the best objective
    among `CUTS` evenly spaced numbers; as many of the following experts lie in both ways as fit,
    the rest are localized. Longest expected NDP work first, each goes to the DIMM with least of it
    among those with fewest experts. Memory left over holds second localized copies, half the DIMMs
    on. Residents are the hottest. The best schedules of the real loads. Where a limit cuts in, the
    best of what is made by then, at least of one number.
    """

    def made(cuts: Iterable[tuple[Flags, Flags]], rule: Rule) -> list[_Cut]:
        found: list[_Cut] = []
        for cut in cuts:
            if found and out_of_time():
                break
            solution = scheduled(instance, *cut, rule)
            found.append((objective(instance, solution), solution, cut))
        return sorted(found, key=lambda of: of[0])

    quickly = made(_cuts(instance), quick_schedule)
    if out_of_time():
        return quickly[0][1]
    return made([cut for _, _, cut in quickly[:FINALISTS]], best_schedule)[0][1]


def _cuts(instance: Instance) -> Iterator[tuple[Flags, Flags]]:
    """Yield the layouts of `copies_by_load`: who is resident, and where each expert lies."""
    load, work, dimms = forecast_of(instance), expected_ndp_ns(instance), instance.dimms
    active = instance.path_times.active.any(axis=0)
    hot = sorted(np.flatnonzero(active).tolist(), key=lambda row: (-load[row], row))
    resident = np.zeros(instance.experts, dtype=np.bool_)
    resident[hot[: instance.hbm_slots]] = True
    for cut in sorted({round(part * len(hot) / CUTS) for part in range(CUTS + 1)}):
        lies = np.zeros((instance.experts, 1 + dimms), dtype=np.bool_)
        lies[:, 0] = True
        cold = sorted(hot[cut:], key=lambda row: -work[row])
        home = np.zeros(instance.experts, dtype=np.int64)
        busy = np.zeros((2, dimms))  # by DIMM: how many experts, and how long for
        for row in cold:
            home[row] = int(np.lexsort((busy[1], busy[0]))[0])
            busy[:, home[row]] += 1, work[row]
            lies[row, [0, 1 + home[row]]] = False, True
        if not fits(instance, lies):
            continue
        both = [(row, 0) for row in hot[cut:]]
        second = [(row, 1 + int(home[row] + dimms // 2) % dimms) for row in hot[cut:]]
        list(add_while_they_fit(instance, lies, [*both, *second]))
        yield resident, lies


COPIES: dict[str, Callable[..., Solution]] = {
    "dual-copies": dual_copies,
    "two-localized": two_localized,
    "copies-by-load": copies_by_load,
}
"""The first two know nothing of the loads."""


def scheduled(
    instance: Instance, resident: Flags, lies: Flags, rule: Rule = best_schedule
) -> Solution:
    """Return a layout with copies, each scenario with the best schedule that is found.

    Parameters
    ----------
    resident, lies
        Who is in the GPU's memory, and where each expert lies, as in `copies.places_of`.
    rule
        Makes the schedules.
    """
    dimm, others = fields_of(lies)
    copies = others if instance.copies is not None else ()
    places = np.array([STRIPED if at is None else at for at in dimm], dtype=np.int64)
    return executed(instance, Layout(resident, places, copies), rule)


def improved(instance: Instance) -> Solution:
    """Return the layout that annealing finds from the best of the rules, hindsight."""
    search = Search(limit_s=float("inf"))
    for rule in COPIES.values():
        solution = rule(instance)
        search.offer(solution, objective(instance, solution))
    anneal(instance, search, 1, SHORT_ROUND)
    found: Solution = search.solution
    return found


def solve(instance: Instance, search: Search) -> None:
    """Prove wait and see, and anneal for an incumbent; CP-SAT goes on with what is open."""
    from .single_scenario import scenario_bounds

    search.prove(on_grid(instance, lower_bound(instance)))
    striped = np.zeros((instance.experts, 1 + instance.dimms), dtype=np.bool_)
    striped[:, 0] = True
    nobody = np.zeros(instance.experts, dtype=np.bool_)
    first = scheduled(instance, nobody, striped, quick_schedule)  # something at once
    search.offer(first, objective(instance, first))
    for rule in COPIES.values():
        if not search.stopped:
            solution = rule(instance)
            search.offer(solution, objective(instance, solution))
    alone = instance.model_copy(update={"copies": None})
    share_s = WAIT_AND_SEE_SHARE * search.remaining_s
    search.prove(on_grid(instance, sum(scenario_bounds(alone, search, share_s))))
    until_s = (1 - ANNEALING_SHARE) * search.remaining_s
    failures = PATIENCE if is_tiny(instance) else 0
    while failures < PATIENCE and search.remaining_s > until_s and not search.closed:
        before = search.objective
        anneal(instance, search, search.seed + 1 + failures, ROUND, until_s)
        failures = 0 if search.objective != before else failures + 1
    search.note = "CLOSED" if search.closed else "OPEN"


def anneal(instance: Instance, search: Search, seed: int, moves: int, until_s: float = 0.0) -> None:
    """Anneal once from the incumbent, or from `dual_copies`, and offer what is found.

    Parameters
    ----------
    seed
        Of the random numbers, at least 1.
    moves
        Moves for each expert.
    until_s
        It ends when so many seconds are left.
    """
    from .annealing import Moves, annealed, cooling, rules_of, state_of  # imports compiled loops

    start = search.solution or dual_copies(instance)
    search.offer(start, objective(instance, start))
    rules = rules_of(instance)
    best = annealed(
        instance,
        rules,
        state_of(instance, rules, start),
        seed,
        Moves(*MOVES),
        cooling(HOT, COLD, moves * instance.experts),
        lambda: search.remaining_s <= until_s,
    )
    found = scheduled(instance, best.lies[:, -1], best.lies[:, :-1])
    if not violations(instance, found):
        search.offer(found, objective(instance, found))


def _blind(instance: Instance, first: Ints, second: Ints) -> Solution:
    """Return the best schedules on a layout with as many of the wished copies as fit.

    Parameters
    ----------
    first, second
        The place of each expert's copies, as columns of `copies.places_of`; shape (experts,).
    """
    active = instance.path_times.active.any(axis=0)
    lies = np.zeros((instance.experts, 1 + instance.dimms), dtype=np.bool_)
    lies[:, 0] = True
    for row in np.flatnonzero(active).tolist():
        if (place := int(first[row])) != 0:
            lies[row, [0, place]] = False, True
            if not fits(instance, lies):
                lies[row, [0, place]] = True, False
    wanted = [(row, int(second[row])) for row in np.flatnonzero(active).tolist()]
    list(add_while_they_fit(instance, lies, wanted))
    return scheduled(instance, by_falling_load(instance)[1], lies)
