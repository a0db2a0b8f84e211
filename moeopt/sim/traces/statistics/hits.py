"""How often a token finds the experts that it needs: reuse of the one before, and hits of caches.

LRU by stack distance and static contents need no simulation; FIFO, and Belady, who knows the
future, are replayed token by token. Group access, as in the `cache` problem: a token's experts at a
layer are looked up together against what the token before it left; then all of them become most
recent, in the listed order. Every layer has a cache of its own, empty at first, of equal sizes.
Sequences follow one another in it. Reuse: CPU-GPU collaborative, II-B, Fig. 2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from moeopt.algorithms.lru import stack_distances
from moeopt.core.errors import InputError
from moeopt.sim.traces.statistics.loads import loads
from moeopt.sim.traces.statistics.routing import Flags, Floats, Ints, Routing, ratio


@dataclass(frozen=True)
class HitRates:
    """Hit rates per layer and capacity; every array but the first is (layers, capacities).

    Attributes
    ----------
    capacities
        Experts that a layer's cache holds, shape (capacities,).
    each
        Share of the accesses that hit.
    any
        Share of the tokens of which at least one expert hits ("expert(s) hit", CPU-GPU
        collaborative IV-D, Fig. 6).
    all
        Share of the tokens all of whose experts hit ("2 experts hit").
    """

    capacities: Ints
    each: Floats
    any: Floats
    all: Floats

    def at(self, capacity: int) -> int:
        """Return the column of a capacity."""
        return int(np.flatnonzero(self.capacities == capacity)[0])


def lru_hits(routing: Routing) -> HitRates:
    """Return the hit rates of LRU at every capacity from 1 to the number of experts.

    One pass: an expert is in a cache of C iff fewer than C other experts were used since, which
    is its stack distance (Mattson et al. 1970).
    """
    return _by_distance(routing, [stack_distances(ids, routing.experts) for ids in routing.ids])


def static_hits(routing: Routing) -> HitRates:
    """Return the hit rates of holding the experts that are most used over the whole trace.

    Of equally used experts the lower id is held. The contents know the future, and never change.
    """
    distances = []
    for ids, counts in zip(routing.ids, loads(routing), strict=True):
        rank = np.empty(routing.experts, dtype=np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(routing.experts)
        distances.append(rank[ids])
    return _by_distance(routing, distances)


def random_hits(experts: int, top_k: int) -> HitRates:
    """Return the expected hit rates of random static contents at every capacity, as one layer.

    With M of n experts held: M / n of the accesses, ``1 - C(n - M, k) / C(n, k)`` for at least
    one and ``C(M, k) / C(n, k)`` for all (CPU-GPU collaborative IV-D, there for k = 2). At M = k
    it is what a token reuses of another one by chance: 0.464 and 0.036 for Mixtral, so that the
    paper's 40 to 60 % is little above chance.
    """
    capacities = np.arange(1, experts + 1)
    subsets = comb(experts, top_k)
    some = [1 - comb(experts - held, top_k) / subsets for held in capacities.tolist()]
    full = [comb(held, top_k) / subsets for held in capacities.tolist()]
    return HitRates(capacities, (capacities / experts)[None], np.array([some]), np.array([full]))


def _by_distance(routing: Routing, distances: Sequence[NDArray[np.integer]]) -> HitRates:
    """Return the hit rates if an access hits in every capacity above its distance."""
    experts = routing.experts
    each, some, full = [], [], []
    for ids, distance in zip(routing.ids, distances, strict=True):
        there = ids >= 0
        has = there.any(axis=1)
        nearest = np.where(there, distance, experts)[has].min(axis=1)
        farthest = np.where(there, distance, -1)[has].max(axis=1)
        each.append(_below(distance[there], experts))
        some.append(_below(nearest, experts))
        full.append(_below(farthest, experts))
    return HitRates(np.arange(1, experts + 1), np.array(each), np.array(some), np.array(full))


def _below(distances: NDArray[np.integer], experts: int) -> Floats:
    """Return the share of distances below 1, 2, ..., experts."""
    seen = np.bincount(distances, minlength=experts + 1)[:experts].cumsum()
    return ratio(seen, distances.size)


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


@dataclass(frozen=True)
class Reuse:
    """Reuse between consecutive tokens of a sequence, per layer; every array is (layers,).

    Attributes
    ----------
    any
        Share of tokens of which at least one expert served the token before: the paper's
        "consecutive tokens pattern".
    all
        Share of tokens all of whose experts served the token before.
    each
        Share of a token's experts that served the token before.
    twice, thrice
        Of the tokens with any reuse, the share with an expert that served the two, or three,
        tokens before.
    independent
        What `each` would be if tokens chose independently with the layer's popularity:
        sum over experts of p**2 over sum of p, p being the share of tokens that use the expert.
    """

    any: Floats
    all: Floats
    each: Floats
    twice: Floats
    thrice: Floats
    independent: Floats


def reuse(routing: Routing) -> Reuse:
    """Return the reuse between consecutive tokens of the same sequence at the same layer.

    Tokens without an expert at a layer, and tokens whose predecessor has none, do not count.
    """
    rows = np.array([_layer(ids, routing.starts) for ids in routing.ids])
    counts = loads(routing)
    used = (routing.ids >= 0).any(axis=2).sum(axis=1, keepdims=True)
    share = ratio(counts, used)
    independent = ratio((share**2).sum(axis=1), share.sum(axis=1))
    some, full, each, twice, thrice = rows.T
    return Reuse(some, full, each, twice, thrice, independent)


def _layer(ids: NDArray[np.int32], starts: Flags) -> tuple[float, ...]:
    """Return the first five figures of `Reuse` for one layer, `ids` of shape (tokens, k)."""
    there = np.asarray(ids >= 0)
    has = np.asarray(there.any(axis=1))
    pairs = np.zeros(len(ids), dtype=np.bool_)
    pairs[1:] = has[1:] & has[:-1] & ~starts[1:]
    runs = [there]
    for _ in range(3):
        runs.append(_again(ids, runs[-1], pairs))
    once, twice, thrice = (run.any(axis=1).sum() for run in runs[1:])
    fully = ((runs[1] | ~there).all(axis=1) & pairs).sum()
    accesses = there[pairs].sum()
    parts = (once, fully, runs[1].sum(), twice, thrice)
    wholes = (pairs.sum(), pairs.sum(), accesses, once, once)
    return tuple(float(ratio(part, whole)) for part, whole in zip(parts, wholes, strict=True))


def _again(ids: NDArray[np.int32], run: Flags, pairs: Flags) -> Flags:
    """Return which accesses continue a run that the token before has with the same expert."""
    now = np.zeros_like(run)
    for slot in range(ids.shape[1]):
        same = ids[1:] == np.where(run[:-1, slot], ids[:-1, slot], -2)[:, None]
        now[1:] |= same
    return now & pairs[:, None]
