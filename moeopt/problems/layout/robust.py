"""Method ``robust``: the layout for windows that are not seen yet.

Sample average approximation: of longest-first's layouts on sampled futures, one for each number of
localized experts, those whose schedules there are shortest; on an independent sample the best
schedules choose among them and longest-first on the windows seen.
`formulations/layout/spec.md`, section "Decisions for later windows", has the details.
"""

import numpy as np

from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from .check import loads, objective
from .heuristics import cold_counts_of, family, longest_first, lpt
from .instance import Instance, Solution
from .paths import STRIPED
from .second_stage import as_solution, best_schedules, refined
from .systems import Layout
from .with_copies import COPIES

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
    return Layout(np.array(solution.resident), np.array(dimm))
