"""Widths for usage that is still to come: the optimum of the expected losses.

A loss is linear in how often its expert is chosen, so that the mean over futures is a problem of
the same kind, with the futures' losses summed, and its exact dynamic program gives the stochastic
optimum. For a quantile that optimum, and the one that fits what was observed, are compared.
"""

from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from . import dynamic_program
from .check import objective
from .heuristics import greedy_marginal
from .instance import Instance
from .solution import Solution

AT_ONCE = 2**62
"""Stands for the value of a decision that is reported before there are futures to value it on."""

TRAIN, SINGLE = 0, 1
"""Streams of futures: the first is summed; for a quantile, one stream each from the second on."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report widths and what they lose in the futures."""
    if (first := greedy_marginal(observed)) is not None:
        search.offer(first, AT_ONCE)
    train: Instance = draw(futures.samples, TRAIN)
    single: list[Instance] = []
    if futures.quantile is not None:
        single = [draw(1, SINGLE + number) for number in range(futures.samples)]

    def offer(widths: Solution) -> None:
        def lost(instance: Instance) -> int:
            return objective(instance, widths.model_copy(update={"instance": instance.name}))

        value = futures.value([lost(one) for one in single]) if single else lost(train)
        search.offer(widths.model_copy(update={"instance": train.name}), value)

    for instance in (train, observed):
        if (start := greedy_marginal(instance)) is not None:
            offer(start)
    for instance in (train, observed) if single else (train,):
        inner = Search(search.remaining_s, search.seed)
        dynamic_program.solve(instance, inner)
        if inner.infeasible:
            search.infeasible = True
            return
        if inner.solution is not None:
            offer(inner.solution)
        if not single and isinstance(inner.bound, int):
            search.prove(inner.bound)
