"""Who lives on the GPU at the least cost, in whole units of memory, and beside caches."""

from itertools import pairwise

import numpy as np

from moeopt.algorithms.lru import LruCache
from moeopt.core.compiled import compiled, inner
from moeopt.problems.joint.instance import Rows

from .kernels import TOP, Ints, Steps


def least_within(cost: Ints, size: Ints, room: int) -> int:
    """Return the least cost of all experts in some states whose sizes fit into the room.

    A dynamic program: each expert takes one state, and `least[r]` is the least of those so far
    that take r at most.

    Parameters
    ----------
    cost, size
        Of each expert in each state, shape (cells, states), and of states, both below `TOP`.
    """
    least = np.zeros(room + 1, dtype=np.int64)
    fits = np.flatnonzero(size <= room)
    for costs in cost[:, fits].tolist():
        before, least = least, np.full(room + 1, TOP)
        for taken, more in zip(size[fits].tolist(), costs, strict=True):
            after = least[taken:]
            np.minimum(after, before[: room + 1 - taken] + more, out=after)
    return int(least[room])


FEW_EXPERTS = 8
"""In layers of so many experts or fewer all sets of residents are tried for what a cache finds."""

BITS = np.array([number.bit_count() for number in range(1 << FEW_EXPERTS)])


def others_since(rows: Rows, layers: int, experts: int) -> Ints:
    """Return which others of its layer were used since each entry's was, as bits; -1 if it was not.

    A cache finds what is no resident if fewer others than its ways are none either. With more than
    `FEW_EXPERTS` they are left out, as if all of them were residents.
    """
    others = np.zeros(rows.entries, dtype=np.int64)
    if experts > FEW_EXPERTS:
        _, first = np.unique(rows.row % layers * experts + rows.expert, return_index=True)
        others[first] = -1
        return others
    caches = [LruCache(experts) for _ in range(layers)]
    for row, (begin, end) in enumerate(pairwise(rows.start.tolist())):
        cache, asked = caches[row % layers], rows.expert[begin:end].tolist()
        newer, bits = {}, 0
        for expert in reversed(cache.content()):
            newer[expert] = bits
            bits |= 1 << expert
        others[begin:end] = [newer.get(expert, -1) for expert in asked]
        cache.access(asked)
    return others


@compiled
def cached_layers(
    steps: Steps, cost: Ints, size: Ints, paid: Ints, most: Ints, least: Ints, chosen: Ints
) -> None:
    """Choose all layers' residents and caches within the GPU's memory, at the least cost.

    A dynamic program over layers and units of memory; in each over residents and their widths.

    Parameters
    ----------
    cost, size
        Of experts in their states, shape (layers, experts, 2 x widths), without the GPU's memory,
        and units of memory by width.
    paid
        What a row pays for finding an entry, then what it is paid if its layer holds none of its
        experts, shape (entries + rows,).
    most
        Ways and units of memory, shape (2,).
    least
        Output: of the first layers in so many units, shape (layers + 1, units + 1).
    chosen
        Output: each expert's state, then set and ways of the layer's cache, (0, 0) without one;
        shape (layers, experts + 2).
    """
    (layers, experts, _), widths, room = cost.shape, len(size), most[1]
    sets, units = 1 << experts, 0
    for j in range(widths):
        units = max(units, min(room, (experts + most[0]) * size[j]))
    beside = np.zeros((layers, sets, most[0] + 1), dtype=np.int64)
    for row in range(len(steps.start) - 1):
        for residents in range(sets):
            alone = most[0] + 1
            for p in range(steps.start[row], steps.start[row + 1]):
                if residents >> steps.expert[p] & 1:
                    alone = 0
                elif steps.others[p] >= 0:
                    ways = BITS[steps.others[p] & ~residents] + 1
                    alone = min(alone, ways)
                    for more in range(ways, most[0] + 1):
                        beside[row % layers, residents, more] -= paid[p]
            for ways in range(alone):
                beside[row % layers, residents, ways] += paid[len(steps.expert) + row]
    held, own = np.empty((sets, units + 1), dtype=np.int64), np.empty(units + 1, dtype=np.int64)
    columns = np.zeros((layers, units + 1, 3), dtype=np.int64)
    taken = np.zeros((layers, room + 1), dtype=np.int64)
    for layer in range(layers):
        _residents(cost[layer], size, held)
        for m in range(units + 1):
            own[m] = TOP
        for residents in range(sets):
            for j in range(widths):
                away = 0
                for e in range(experts):
                    if not residents >> e & 1:
                        away += cost[layer, e, _narrower(cost[layer, e], size, j)]
                for ways in range(most[0] + 1):
                    value, taking = away + beside[layer, residents, ways], ways * size[j]
                    for m in range(taking, units + 1):
                        if held[residents, m - taking] < min(TOP, own[m] - value):
                            own[m] = held[residents, m - taking] + value
                            columns[layer, m, 0], columns[layer, m, 1] = residents, ways
                            columns[layer, m, 2] = j
        for r in range(room + 1):
            least[layer + 1, r] = TOP
            for m in range(min(r, units) + 1):
                if least[layer, r - m] + own[m] < least[layer + 1, r]:
                    least[layer + 1, r], taken[layer, r] = least[layer, r - m] + own[m], m
    for layer in range(layers - 1, -1, -1):
        m = taken[layer, room]
        room -= m
        residents, ways, widest = columns[layer, m]
        chosen[layer, experts], chosen[layer, experts + 1] = residents, ways
        m -= ways * size[widest]
        _residents(cost[layer], size, held)
        for e in range(experts - 1, -1, -1):
            chosen[layer, e] = _narrower(cost[layer, e], size, widest)
            if residents >> e & 1:
                left, at = residents - (1 << e), m
                for j in range(widths):
                    value = cost[layer, e, widths + j]
                    if size[j] <= m and held[left, m - size[j]] + value == held[residents, m]:
                        chosen[layer, e], at = widths + j, m - size[j]
                residents, m = left, at


@inner
def _narrower(cost: Ints, size: Ints, widest: int) -> int:
    """Return the best width of an expert that is no resident, up to the widest."""
    at = widest
    for j in range(len(size)):
        if size[j] <= size[widest] and cost[j] < cost[at]:
            at = j
    return at


@inner
def _residents(cost: Ints, size: Ints, held: Ints) -> None:
    """Set what sets of a layer's residents cost in so many units; `TOP`: they need more."""
    for m in range(held.shape[1]):
        held[0, m] = 0
    for e in range(len(cost)):
        for before in range(1 << e):
            for m in range(held.shape[1]):
                best = TOP
                for j in range(len(size)):
                    if size[j] <= m and held[before, m - size[j]] < TOP:
                        best = min(best, held[before, m - size[j]] + cost[e, len(size) + j])
                held[before + (1 << e), m] = best
