"""Tokens that are still to come: futures of an instance, ways decided on them, hold-outs.

What one stretch of tokens says about a single layer is partly chance. How much is told by its
quarters: the curve of what a layer costs by its ways, beside the mean over all layers, is compared
between them. In a future, a layer uses another layer's tokens as often as what sets it apart does
not come back: in the mean its curve is shrunk towards that of all layers (James and Stein,
Proceedings of the Fourth Berkeley Symposium 1, 1961). The order of tokens is kept: what is used
again soon is what a cache lives on.

`decide` looks for the least expected time over futures f. In each the later of two sides counts,
computing and copying. The sum is bounded from below as `bounds` does for one: with weights p_f
between a future's sides,

    sum over f of max(A_f, G_f) >= sum over f of p_f A_f + (1 - p_f) G_f,

which is a sum over layers and minimised exactly by dynamic programming over layers and slots. The
weights that favour each future's later side at the incumbent close the gap wherever one side is the
later one for good; elsewhere subgradient steps move them. Ways that attain a minimum are offered,
and the best of them is improved by moving ways between layers.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from moeopt.core.clock import checkpoint
from moeopt.core.errors import InputError
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.search import Search

from .bounds import Sides, cheapest, sides_of
from .heuristics import best_uniform, greedy_marginal
from .instance import MAX_CELLS, MAX_EXPERTS, Instance, Ints, Solution, curves_of

QUARTERS = 4
"""Parts of the observed stretch that are compared."""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws stretches like that of `instance`, as long as it, one after another.

    Parameters
    ----------
    instance
        The tokens seen.
    futures
        Not used: a future is as long as what was observed.
    seed
        The same seed draws the same stretches.
    """
    del futures
    alone = own_share(instance)
    own = np.arange(instance.layers)

    def drawn(number: int, stream: int) -> Instance:
        rng = np.random.default_rng([seed, stream])
        source = np.array([_sources(layer, len(own), alone, number, rng) for layer in own.tolist()])
        accesses = tuple(
            tuple(token[layer] for layer in of_future)
            for of_future in source.T.tolist()
            for token in instance.accesses
        )
        return drawn_from(instance, f"futures{number}", seed, stream, accesses=accesses)

    return drawn


def _sources(own: int, layers: int, alone: float, number: int, rng: np.random.Generator) -> Ints:
    """Return whose tokens a layer uses in each future, shape (futures,): all alike often."""
    exchanged = int((1 - alone) * number + rng.random())
    others = np.resize(rng.permutation(layers), exchanged)
    return rng.permutation(np.concatenate([others, np.full(number - exchanged, own)]))


def own_share(instance: Instance) -> float:
    """Return how much of what sets a layer's curve apart comes back: from 0 to 1.

    A quarter's reliability is the covariance of what is apart in two quarters over its variance
    in one; that of the whole follows by the formula of Spearman and Brown (British Journal of
    Psychology 3, 1910). 1 where there are too few tokens to tell, or one layer.
    """
    if len(instance.accesses) < 2 * QUARTERS or instance.layers < 2:
        return 1.0
    parts = np.array_split(np.arange(len(instance.accesses)), QUARTERS)
    curves = np.array(
        [
            curves_of(
                np.ascontiguousarray(instance.ids[:, at]), instance.experts, instance.costs
            ).layer_ns
            / len(at)
            for at in parts
        ]
    )
    apart = curves - curves.mean(axis=1, keepdims=True)
    products = np.tensordot(apart, apart, axes=([1, 2], [1, 2]))
    variance = float(np.trace(products)) / QUARTERS
    covariance = float(products.sum() - np.trace(products)) / (QUARTERS * (QUARTERS - 1))
    if not variance:
        return 1.0
    quarter = min(1.0, max(0.0, covariance / variance))
    return QUARTERS * quarter / (1 + (QUARTERS - 1) * quarter)


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
        total, ways = cheapest(cost, slots)
        offer(ways)
        if futures.quantile is None:
            search.prove(-(-total // SCALE))
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


ACCESSES_PER_UNIT, LAYER_WORK = 4e6, 1e-4
"""What the curves of a future take: so many accesses in a second, and each layer."""


def _sides_by_future(instance: Instance, futures: int) -> tuple[Ints, Ints]:
    """Return computing and copying of each future, shape (futures, layers, counts) each."""
    found: list[Sides] = []
    for ids in np.array_split(instance.ids, futures, axis=1):
        checkpoint(ids.size / ACCESSES_PER_UNIT + len(ids) * LAYER_WORK)
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


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all stretches, one after the other, each with experts of its own.

    What is left in a cache from an earlier stretch is never found again and goes first, so that an
    LRU cache is as good as empty: a layer takes as long as in all stretches together. Fetches of
    one stretch may hide behind the layers of another (CA-C4 holds for the sum), so that ways cost
    at most what they do in all.
    """
    first = instances[0]
    experts = len(instances) * first.experts
    if experts > MAX_EXPERTS or experts * first.layers > MAX_CELLS:
        raise InputError(f"{len(instances)} stretches of {first.experts} experts are too many")
    accesses = tuple(
        tuple(tuple(number * first.experts + expert for expert in used) for used in token)
        for number, one in enumerate(instances)
        for token in one.accesses
    )
    change = {"experts": experts, "accesses": accesses, "provenance": None}
    return first.model_copy(update=change)


def separated(instance: Instance, decision: Solution) -> Solution:
    """Return ways decided on joined stretches for one of them: more than its experts are idle."""
    ways = tuple(None if of is None else min(of, instance.experts) for of in decision.ways)
    return decision.model_copy(update={"ways": ways})
