"""Compiled: who lives on the GPU at the least cost, in whole units of memory, and beside caches."""

import numpy as np

from moeopt.core.compiled import compiled

from .kernels import TOP, Ints, Steps


@compiled
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
    for cell in range(len(cost)):
        for r in range(room, -1, -1):
            best = TOP
            for state in range(len(size)):
                if size[state] <= r:
                    best = min(best, least[r - size[state]] + cost[cell, state])
            least[r] = best
    return int(least[room])


FEW_EXPERTS = 8
"""In layers of so many experts or fewer all sets of residents are tried for what a cache finds."""

BITS = np.array([number.bit_count() for number in range(1 << FEW_EXPERTS)])


@compiled
def others_since(steps: Steps, layers: int, experts: int, others: Ints) -> None:
    """Set which others of its layer were used since each entry's was, as bits; -1 if it was not.

    A cache finds what is no resident if fewer others than its ways are none either. With more than
    `FEW_EXPERTS` they are left out, as if all of them were residents.
    """
    used = np.full((layers, experts), -1)
    for row in range(len(steps.start) - 1):
        last = used[row % layers]
        for p in range(steps.start[row], steps.start[row + 1]):
            own = last[steps.expert[p]]
            others[p] = 0 if own >= 0 else -1
            for e in range(experts if own >= 0 and experts <= FEW_EXPERTS else 0):
                others[p] += (last[e] > own) << e
        for p in range(steps.start[row], steps.start[row + 1]):
            last[steps.expert[p]] = p


@compiled
def off_the_gpu(steps: Steps, cost: Ints, size: Ints, paid: Ints, away: Ints) -> None:
    """Set what experts cost that are no residents, for each cache that their layer may have.

    Parameters
    ----------
    cost, size
        Of experts in their states, shape (layers, experts, 2 x widths), without the GPU's memory,
        and bytes by width.
    paid
        What a row pays for finding an entry, shape (entries,).
    away
        Output, by layer, set of residents, ways less 1, the widest that is no resident, and expert.
    """
    layers, sets, most_ways, widths, experts = away.shape
    for layer in range(layers):
        for j in range(widths):
            for e in range(experts):
                away[layer, :, :, j, e] = cost[layer, e, _narrower(cost[layer, e], size, j)]
    for row in range(len(steps.start) - 1):
        layer = row % layers
        for p in range(steps.start[row], steps.start[row + 1]):
            others = steps.others[p]
            for residents in range(sets if others >= 0 else 0):
                for ways in range(BITS[others & ~residents], most_ways):
                    away[layer, residents, ways, :, steps.expert[p]] -= paid[p]


@compiled
def _narrower(cost: Ints, size: Ints, widest: int) -> int:
    """Return the best width of an expert that is no resident, up to the widest."""
    at = widest
    for j in range(len(size)):
        if size[j] <= size[widest] and cost[j] < cost[at]:
            at = j
    return at


@compiled
def cached_layers(
    cost: Ints, size: Ints, gpu: int, away: Ints, chosen: Ints, caches: Ints
) -> tuple[int, int]:
    """Choose each layer's residents and cache; return what they cost, and bytes on the GPU.

    Parameters
    ----------
    cost, size, gpu, away
        As in `off_the_gpu`, and the price of a byte. With one set, any experts may be residents.
    chosen, caches
        Output: each expert's state, and each layer's set and ways, (0, 0) without a cache.
    """
    layers, experts, states = cost.shape
    sets, most_ways, widths = away.shape[1:4]
    total, used = 0, 0
    there, place = np.empty(experts, dtype=np.int64), np.empty(experts, dtype=np.int64)
    for layer in range(layers):
        best, widest = 0, -1
        for e in range(experts):
            least, there[e] = TOP, TOP
            for s in range(states):
                value = cost[layer, e, s] + (gpu * size[s - widths] if s >= widths else 0)
                if s >= widths and value < there[e]:
                    there[e], place[e] = value, s
                if value < least:
                    least, chosen[layer, e] = value, s
            best += least
        caches[layer] = 0
        for residents in range(sets):
            for ways in range(most_ways):
                for j in range(widths):
                    value = gpu * (ways + 1) * size[j]
                    for e in range(experts):
                        off = away[layer, residents, ways, j, e]
                        if sets == 1:
                            value += min(off, there[e])
                        else:
                            value += there[e] if residents >> e & 1 else off
                    if value < best:
                        best, widest = value, j
                        caches[layer, 0], caches[layer, 1] = residents, ways + 1
        total += best
        residents, ways = caches[layer, 0], caches[layer, 1]
        used += ways * size[widest]
        for e in range(experts):
            if ways:
                off = away[layer, residents, ways - 1, widest, e]
                inside = residents >> e & 1 or (sets == 1 and there[e] < off)
                chosen[layer, e] = place[e] if inside else _narrower(cost[layer, e], size, widest)
            if chosen[layer, e] >= widths:
                used += size[chosen[layer, e] - widths]
    return total, used
