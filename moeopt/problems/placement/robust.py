"""Residents for steps that are still to come, decided on steps drawn from a forecast.

The optimum of recorded steps fits what happened to come together in them. Here the placement is a
local optimum over futures, which `draw` makes of those steps and of others, reached from those that
counts suggest; of these candidates the one is kept that is best on further futures.
"""

import numpy as np

from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from .bounds import objective_grid
from .filling import best_prefix, filled
from .instance import Instance
from .lagrangian.local_search import LocalSearch, perturbed
from .lagrangian.relaxation import Model
from .lagrangian.whole_layers import cheapest_layers
from .layer_steps import Flags, Ints
from .rankings import descending, offload_time
from .solution import held_of, solution_of

TRAIN, TEST = 0, 1
"""Streams of futures: to improve placements on, and to choose among them."""

AT_ONCE = 2**62
"""Stands for the value of a decision that is reported before there are futures to value it on."""

PERTURBATIONS = 6
"""Descents from the incumbent, some experts exchanged, after those from ranks."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report placements and what they cost on the futures that choose among them."""
    counted = filled(observed, descending(observed.tokens))
    if counted is not None:
        search.offer(counted, AT_ONCE)
    test: Instance = draw(futures.samples, TEST)

    def offer(held: Flags) -> int:
        ns = futures.value(future_ns(test, held, futures.samples))
        search.offer(solution_of(test, held), ns)
        return ns

    for order in (descending(observed.tokens), descending(test.tokens)):
        if (start := filled(observed, order)) is not None:
            offer(held_of(start, observed.layers, observed.experts))
    train: Instance = draw(futures.samples, TRAIN)
    model = Model.of(train, objective_grid(train))
    if observed.restriction == "whole-layers":
        if (best := cheapest_layers(model)) is not None:
            offer(best)
        return
    incumbent: LocalSearch | None = None
    for order in (descending(train.tokens), offload_time(train)):
        solution = best_prefix(train, order) or filled(train, order)
        if solution is None or search.stopped:
            continue
        held = held_of(solution, train.layers, train.experts)
        incumbent = _better(incumbent, _descended(model, held, search))
        offer(incumbent.held)
    rng = np.random.default_rng(search.seed)
    for _ in range(PERTURBATIONS if incumbent is not None else 0):
        if search.stopped or incumbent is None:
            return
        start_again = perturbed(incumbent.held, model.capacity, rng)
        incumbent = _better(incumbent, _descended(model, start_again, search))
        offer(incumbent.held)


def future_ns(instance: Instance, held: Flags, futures: int) -> Ints:
    """Return what each future takes, in ns, shape (futures,): as many steps of `instance` each."""
    fixed_ns = instance.layer_offload_fixed_ns
    of_step = np.zeros(len(instance.steps), dtype=np.int64)
    for layer, row in zip(instance.layer_steps, held, strict=True):
        gpu, off, count = layer.sums(layer.computed(row, fixed_ns))
        there = layer.row_of_step >= 0
        of_row = np.maximum(gpu, off + fixed_ns * (count > 0))
        of_step[there] += of_row[layer.row_of_step[there]]
    return np.array([part.sum() for part in np.array_split(of_step, futures)], dtype=np.int64)


def _descended(model: Model, held: Flags, search: Search) -> LocalSearch:
    local = LocalSearch(model, held)
    local.descend(lambda: search.stopped)
    return local


def _better(incumbent: LocalSearch | None, found: LocalSearch) -> LocalSearch:
    return found if incumbent is None or found.total_ns < incumbent.total_ns else incumbent
