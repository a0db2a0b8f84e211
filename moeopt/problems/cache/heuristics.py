"""The paper's uniform ways, and rules that give each layer its own number."""

import numpy as np

from moeopt.core.clock import spend

from .bounds import sides_of
from .instance import Instance, Ints, Solution


def uniform_ways(instance: Instance, ways: str = "twice top-k") -> Solution:
    """M ways on the first floor(S / M) layers (CPU-GPU collaborative III-B).

    The paper leaves M to the user and shows 4 ways on 14 layers for a model with top-2 routing.

    Parameters
    ----------
    ways
        "twice top-k": M is twice the experts of a token, as in that example, if the layers have as
        many; "top-k": those of a token; "all layers": floor(S / layers).
    """
    top_k = instance.ids.shape[2]
    each = {
        "twice top-k": 2 * top_k,
        "top-k": top_k,
        "all layers": instance.slots // instance.layers,
    }
    return _solution(instance, uniform(instance, min(each[ways], instance.experts)))


def best_uniform(instance: Instance) -> Solution:
    """Try every M from 0 to the experts, each on the first floor(S / M) layers, and take the best.

    The paper tries a few by hand. At a tie the smallest M, on the most layers.
    """
    sides = sides_of(instance)
    tried = [uniform(instance, ways) for ways in range(instance.experts + 1)]
    return _solution(instance, min(tried, key=sides.trace_ns))


def proportional(instance: Instance) -> Solution:
    """Slots in proportion to what each layer misses if all have the same share.

    A common rule for partitioned caches, here with the layer's own trace. Assumed: the share is
    floor(S / layers); quotas are rounded by largest remainder (ties: the first layer), no layer
    gets more than it has experts, and what is left over is shared again in the same way.
    """
    share = min(instance.slots // instance.layers, instance.experts)
    curves = instance.curves
    weight = curves.hits[:, -1] + curves.fetches[:, -1] - curves.hits[:, share]
    ways = np.zeros(instance.layers, dtype=np.int64)
    left = sides_of(instance).slots
    while left:
        open_ = ways < instance.experts
        weight = np.where(open_, weight, 0)
        if not weight.any():
            break
        quota = [left * w for w in weight.tolist()]
        total = int(weight.sum())
        given = np.array([q // total for q in quota])
        remainder = np.array([q % total for q in quota])
        first = np.argsort(-remainder, kind="stable")[: left - int(given.sum())]
        given[first] += 1
        given = np.minimum(given, instance.experts - ways)
        ways += given
        left -= int(given.sum())
    return _solution(instance, ways)


def greedy_marginal(instance: Instance) -> Solution:
    """From no ways on, the move of one layer to more ways that saves most time per slot.

    Moves go from w to any larger number: the first way costs all fetches, so that a step of one way
    can be a loss where two are a gain. It ends when no move that fits shortens the trace. Ties: the
    first layer, the fewest ways.
    """
    sides = sides_of(instance)
    rows, counts = np.arange(instance.layers), np.arange(instance.experts + 1)
    ways = np.zeros(instance.layers, dtype=np.int64)
    while True:
        spend(5e-5 + sides.compute_ns.size / 1e8)
        now = sides.trace_ns(ways)
        added = counts - ways[:, None]
        compute = _totals(sides.compute_ns, rows, ways)
        copy = _totals(sides.copy_ns, rows, ways)
        saved = now - np.maximum(compute, copy)
        fits = (added > 0) & (added <= sides.slots - ways.sum()) & (saved > 0)
        if not fits.any():
            return _solution(instance, ways)
        per_slot = np.where(fits, saved / np.maximum(added, 1), -1.0)
        layer, count = np.unravel_index(int(per_slot.argmax()), per_slot.shape)
        ways[layer] = count


def uniform(instance: Instance, ways: int) -> Ints:
    """Return the paper's cache of an index of layers with `ways` each; the other layers have none.

    With 0 ways no layer has a cache.
    """
    indexes = min(instance.layers, instance.slots // ways) if ways else 0
    return np.where(np.arange(instance.layers) < indexes, ways, 0)


def _totals(cost: Ints, rows: Ints, ways: Ints) -> Ints:
    """Return the sum over the layers if one layer gets another number, for each of them."""
    own = cost[rows, ways]
    totals: Ints = own.sum() + cost - own[:, None]
    return totals


def _solution(instance: Instance, ways: Ints) -> Solution:
    return Solution(instance=instance.name, ways=tuple(ways.tolist()))


WARM_START = greedy_marginal
"""The heuristic whose solution the exact methods start from."""
