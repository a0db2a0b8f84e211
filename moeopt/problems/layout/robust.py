"""Method ``robust``: the layout for windows that are not seen yet.

Sample average approximation: the layout whose expected makespan over sampled futures is least, each
future with its own schedule. A layout fits the sample it is tuned to, so several are made from
different starts, and the one that does best on an independent sample is taken, scheduled exactly;
longest-first is always among them. `formulations/layout/spec.md`, section "Decisions for later
windows", has the details.
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import go_by
from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from . import bound_and_pack
from .check import loads, objective
from .expected.sample import Sample, layout_at, place_of
from .heuristics import lpt
from .instance import Instance
from .local_search.state import decision_of
from .second_stage import Layout, as_solution, best_schedules, refined
from .solution import Solution
from .with_copies import COPIES

TRAINING, CHECKING = 4, 2
"""Streams of `Futures.samples` futures each: to decide on, and to choose among the decided ones."""

OBSERVED = 32
"""Each observed window counts as so many futures that are decided on.

What the forecast does not know stands in it: which experts are busy together."""

STARTS = 3
"""Layouts that annealing starts from."""

APART = 3
"""Two starts differ by more than the number of DIMMs over this in how many experts they localize.

Layouts with one localized expert per DIMM, two and so on lie in different valleys."""

EVALUATIONS = 2**26
"""Schedules times experts that an annealing makes: a second or so."""

FEWEST, MOST = 2**18, 2**14
"""Schedules of an annealing at least, and at most for each expert."""

FEW = 8
"""Futures that layouts with copies are decided on: their schedules take a hundred times as long."""

SMALL = 64
"""With no more experts times futures the sampled problem is solved exactly."""


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
    checked = [draw(futures.samples, TRAINING + n) for n in range(CHECKING)]
    offer = _Offer(checked, search, futures)
    drawn = [draw(futures.samples, n) for n in range(TRAINING)]
    sample = Sample([*drawn, *[observed] * OBSERVED])
    family = sample.longest_first()
    value = [sample.value(place, futures) for place in family]
    ranked = [family[n] for n in np.argsort(value, kind="stable")]
    offer(layout_at(ranked[0]))
    if search.stopped:
        return
    published = decision_of(lpt(observed))[0]
    offer(published)
    starts = _apart([*ranked, place_of(published)], sample.dimms // APART)
    evaluations = max(EVALUATIONS // sample.experts, FEWEST)
    evaluations = min(evaluations, MOST * sample.experts)

    def improve(number: int) -> NDArray[np.int64]:
        seed = search.seed * STARTS + number
        return sample.improved(starts[number], futures, seed, evaluations, lambda: search.stopped)

    workers = max(search.workers, 1)
    with ThreadPoolExecutor(workers, initializer=go_by, initargs=(search.clock,)) as pool:
        for place in pool.map(improve, range(len(starts))):
            offer(layout_at(place))
    few = checked[0]
    if few.experts * len(few.scenarios) <= SMALL and futures.quantile is None:
        exactly = Search(search.remaining_s, search.seed)
        bound_and_pack.solve(few, exactly)
        if exactly.solution is not None:
            offer(decision_of(exactly.solution)[0])


def _decide_copies(draw: Draw, search: Search, futures: Futures) -> None:
    """Offer the layouts that the rules with copies decide on a few futures, by their mean."""
    few = draw(min(futures.samples, FEW), TRAINING)
    for rule in COPIES.values():
        if search.solution is None or not search.stopped:
            found = rule(few)
            search.offer(found, objective(few, found))


def _apart(places: list[NDArray[np.int64]], distance: int) -> list[NDArray[np.int64]]:
    """Return the first layouts whose numbers of localized experts are more than so far apart."""
    chosen: list[NDArray[np.int64]] = []
    for place in places:
        count = int((place >= 0).sum())
        if all(abs(count - int((other >= 0).sum())) > distance for other in chosen):
            chosen.append(place)
    return chosen[:STARTS]


class _Offer:
    """Gives layouts their best schedules on the checking sample, and offers them."""

    def __init__(self, checked: list[Instance], search: Search, futures: Futures) -> None:
        self.checked, self.search, self.futures = checked, search, futures

    def __call__(self, layout: Layout) -> None:
        solutions = [_scheduled(instance, layout) for instance in self.checked]
        makespans = [
            of.makespan_ns
            for instance, solution in zip(self.checked, solutions, strict=True)
            for of in loads(instance, solution)
        ]
        self.search.offer(solutions[0], self.futures.value(makespans))


def _scheduled(instance: Instance, layout: Layout) -> Solution:
    """Return a layout with the best schedule of each window, as far as they are found."""
    device = best_schedules(instance, layout, refined(instance, layout)[0])
    return as_solution(instance, layout, device)
