"""Hit rates of expert caches that need no simulation: LRU by stack distance, static contents.

Group access, as in the `cache` problem: a token's experts at a layer are looked up together
against what the token before it left; then all of them become most recent, in the listed order.
Every layer has a cache of its own, empty at first. Sequences follow one another in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from moeopt.core.stack_distance import stack_distances
from moeopt.sim.traces.statistics.loads import loads
from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, ratio


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
    one and ``C(M, k) / C(n, k)`` for all (CPU-GPU collaborative IV-D, there for k = 2).
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
