"""Hit rates of caches that must be replayed token by token: FIFO, and Belady, who knows the future.

The accesses are those of `hits`: by token and layer, looked up together; equal sizes; a cache of
its own for every layer, empty at first.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.traces.statistics.hits import HitRates
from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, ratio

NEVER = 2**40
"""A next use that does not come."""


def fifo_hits(routing: Routing, capacities: list[int]) -> HitRates:
    """Return the hit rates of first-in-first-out caches.

    Missing experts enter in the listed order and push out whoever entered first; a hit changes
    nothing. Of n experts that ever entered, those in the cache are the last C, so that the number
    under which an expert entered tells whether it is in.

    Parameters
    ----------
    routing
        The trace.
    capacities
        Experts that a layer's cache holds, at least 1 each.

    Raises
    ------
    InputError
        If a capacity is below 1.
    """
    held = _held(capacities)
    count = _Counter(routing, len(capacities))
    entered = np.full((len(capacities), routing.layers, routing.experts + 1), -NEVER)
    number = np.zeros((len(capacities), routing.layers, 1), dtype=np.int64)
    rows = np.arange(routing.layers)[:, None]
    for there, slots in count.tokens:
        since = entered[:, rows, slots]
        hit = (since >= number - held) & there
        miss = there & ~hit
        place = miss.cumsum(axis=2)
        entered[:, rows, slots] = np.where(miss, number + place - 1, since)
        number += place[:, :, -1:]
        count.add(hit, there)
    return count.rates(capacities)


def belady_hits(routing: Routing, capacities: list[int], demand: bool = True) -> HitRates:
    """Return the hit rates of the best replacement for experts of equal size (Belady 1966).

    Parameters
    ----------
    routing
        The trace.
    capacities
        Experts that a layer's cache holds, at least 1 each.
    demand
        True: a token's experts all enter the cache, as in LRU, and push out those whose next use
        is farthest; if there is no room for all, those used again soonest stay. False: anything
        held or just used may stay, so that a fetched expert need not push out another one. That
        is the most that any retention policy can reach.

    Raises
    ------
    InputError
        If a capacity is below 1.
    """
    held = _held(capacities)
    count = _Counter(routing, len(capacities))
    following = _next_uses(routing)
    inside = np.zeros((len(capacities), routing.layers, routing.experts + 1), dtype=np.bool_)
    use = np.full((routing.layers, routing.experts + 1), NEVER, dtype=np.int64)
    rows = np.arange(routing.layers)[:, None]
    for token, (there, slots) in enumerate(count.tokens):
        count.add(inside[:, rows, slots] & there, there)
        inside[:, rows, slots] = True
        inside[:, :, -1] = False
        use[rows, slots] = following[token]
        urgency = use.copy()
        if demand:
            urgency[rows, slots] -= 2 * NEVER
        order = np.argsort(urgency, axis=1, kind="stable")
        kept = inside[:, rows, order]
        kept &= kept.cumsum(axis=2) <= held
        inside[:, rows, order] = kept
    return count.rates(capacities)


class _Counter:
    """The tokens of a trace one by one, and the hits among their accesses.

    `tokens` yields, for each token, which slots hold an expert and the expert of each slot, both
    (layers, k); an empty slot points to one more expert, which no one asks for.
    """

    def __init__(self, routing: Routing, capacities: int) -> None:
        ids = routing.ids.transpose(1, 0, 2)
        there = ids >= 0
        self.tokens = list(zip(there, np.where(there, ids, routing.experts), strict=True))
        shape = (capacities, routing.layers)
        self._each, self._any, self._all = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        self._accesses = there.sum(axis=(0, 2))
        self._with_experts = there.any(axis=2).sum(axis=0)

    def add(self, hit: NDArray[np.bool_], there: NDArray[np.bool_]) -> None:
        """Count the hits of one token, shape (capacities, layers, k)."""
        found = hit.sum(axis=2)
        wanted = there.sum(axis=1)
        self._each += found
        self._any += found > 0
        self._all += (found == wanted) & (wanted > 0)

    def rates(self, capacities: list[int]) -> HitRates:
        """Return the shares of all that was counted."""

        def shares(hits: Ints, of: Ints) -> Floats:
            return ratio(hits, of).T

        return HitRates(
            np.array(capacities),
            shares(self._each, self._accesses),
            shares(self._any, self._with_experts),
            shares(self._all, self._with_experts),
        )


def _held(capacities: list[int]) -> Ints:
    for capacity in capacities:
        if capacity < 1:
            raise InputError(f"capacity: must be at least 1, not {capacity}")
    return np.array(capacities, dtype=np.int64)[:, None, None]


def _next_uses(routing: Routing) -> Ints:
    """Return for every access the token at which its expert is used next, (tokens, layers, k)."""
    layers, tokens, top_k = routing.ids.shape
    following = np.full((layers, tokens, top_k), NEVER, dtype=np.int64)
    for layer, ids in enumerate(routing.ids):
        token, slot = np.nonzero(ids >= 0)
        order = np.lexsort((token, ids[token, slot]))
        token, slot = token[order], slot[order]
        same = ids[token[:-1], slot[:-1]] == ids[token[1:], slot[1:]]
        following[layer, token[:-1][same], slot[:-1][same]] = token[1:][same]
    return following.transpose(1, 0, 2)
