"""Ways for tokens that are still to come: the least expected time over stretches drawn.

In each future the later of two sides counts, computing and copying (`sides`). The sum over futures
is bounded from below as `lagrangian` does for one: with weights p_f between a future's sides,

    sum over f of max(A_f, G_f) >= sum over f of p_f A_f + (1 - p_f) G_f,

which is a sum over layers and minimised exactly by dynamic programming over layers and slots. The
weights that favour each future's later side at the incumbent close the gap wherever one side is the
later one for good; elsewhere subgradient steps move them. Ways that attain a minimum are offered,
and the best of them is improved by moving ways between layers.
"""

from collections.abc import Callable, Iterator

import numpy as np

from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from .curves import Ints, curves_of
from .heuristics import best_uniform, greedy_marginal
from .instance import Instance
from .lagrangian import cheapest, completions
from .sides import Sides, sides_of
from .solution import Solution

TRAIN = 0

AT_ONCE = 2**62
"""Stands for the value of a decision that is reported before there are futures to value it on."""

MOST_TOKENS = 2**15
"""Most tokens of all futures together: fewer futures are drawn where stretches are long."""

SCALE = 2**10
"""Weights are counted in these parts."""

ROUNDS = 30
"""Subgradient steps at most."""

STEPS = (4, 1)
"""Ways that a move takes from one layer and gives to another."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report ways and what the futures take with them."""
    search.offer(best_uniform(observed), AT_ONCE)
    number = max(1, min(futures.samples, MOST_TOKENS // len(observed.accesses)))
    train: Instance = draw(number, TRAIN)
    compute, copy = _sides_by_future(train, number)
    slots = sides_of(observed).slots
    rows = np.arange(observed.layers)

    def value(ways: Ints) -> int:
        sides = compute[:, rows, ways].sum(axis=1), copy[:, rows, ways].sum(axis=1)
        return futures.value(np.maximum(*sides))

    def offer(ways: Ints) -> None:
        search.offer(Solution(instance=train.name, ways=tuple(ways.tolist())), value(ways))

    for rule in (best_uniform, greedy_marginal):
        offer(np.array(rule(observed).ways, dtype=np.int64))
    weight = np.full(number, SCALE, dtype=np.int64)
    best: Ints | None = None
    for turn in range(1, ROUNDS + 1):
        if search.stopped:
            return
        cost = np.tensordot(weight, compute, 1) + np.tensordot(SCALE - weight, copy, 1)
        table = completions(cost, slots)
        ways = cheapest(cost, table)
        offer(ways)
        if futures.quantile is None:
            search.prove(-(-int(table[0, -1]) // SCALE))
        if best is None or value(ways) < value(best):
            best = ways
        behind = compute[:, rows, ways].sum(axis=1) - copy[:, rows, ways].sum(axis=1)
        wanted = np.where(behind >= 0, SCALE, 0)
        moved = weight + (wanted - weight) // turn
        if search.closed or (moved == weight).all():
            break
        weight = moved
    if best is None or search.closed:
        return
    offer(_improved(best, value, slots, compute.shape[2] - 1, search))


def _sides_by_future(instance: Instance, futures: int) -> tuple[Ints, Ints]:
    """Return computing and copying of each future, shape (futures, layers, counts) each."""
    found: list[Sides] = []
    for ids in np.array_split(instance.ids, futures, axis=1):
        curves = curves_of(np.ascontiguousarray(ids), instance.experts, instance.costs)
        found.append(Sides(curves.layer_ns, curves.fetches * instance.fetch_ns, instance.slots))
    return np.stack([of.compute_ns for of in found]), np.stack([of.copy_ns for of in found])


def _improved(
    start: Ints, value: Callable[[Ints], int], slots: int, most: int, search: Search
) -> Ints:
    """Return what moving ways between layers makes of a plan, the best move first."""
    ways, now = start.copy(), value(start)
    while not search.stopped:
        found: tuple[int, Ints] | None = None
        for step in STEPS:
            for more in _moves(ways, step, slots, most):
                if (ns := value(more)) < (now if found is None else found[0]):
                    found = ns, more
            if found is not None:
                break
        if found is None:
            return ways
        now, ways = found
    return ways


def _moves(ways: Ints, step: int, slots: int, most: int) -> Iterator[Ints]:
    """Yield plans that differ by some ways in one layer, or taken from one for another."""
    layers = range(len(ways))
    for give in (None, *layers):
        for take in (None, *layers):
            more = ways.copy()
            if give is not None:
                more[give] -= step
            if take is not None:
                more[take] += step
            if give != take and more.min() >= 0 and more.max() <= most and more.sum() <= slots:
                yield more
