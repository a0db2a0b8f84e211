"""What local search's moves change where experts on the GPU may be computed on the other side.

A row of few experts is solved for all sets of them at once: cost[x], the later side if the GPU
computes exactly x, is brought down to the least over all subsets, expert by expert. Larger rows are
dispatched greedily: while the GPU is later, it gives away the expert with the least offload time
for its GPU time that does not make the other side as late.
"""

import numpy as np

from moeopt.core.compiled import compiled
from moeopt.problems.placement.layer_steps import Flags, Ints

from .kernels import FEW


@compiled
def dispatched_changes(
    weight: Ints,
    start: Ints,
    expert: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    order: Ints,
    held: Flags,
    change: Ints,
    swap: Ints,
) -> int:
    """Return the layer's cost, and compute its change under each move; outputs begin as 0.

    Parameters
    ----------
    order
        `LayerSteps.cheapest_away_first`.
    change, swap
        As in `local_search.move_changes`.
    """
    total = 0
    cost = np.empty(1 << FEW, dtype=np.int64)
    on = np.zeros(len(expert), dtype=np.bool_)
    for i in range(len(expert)):
        on[i] = held[expert[i]]
    for row in range(len(weight)):
        first, end = start[row], start[row + 1]
        few = end - first <= FEW
        x = 0
        if few:
            _costs_of_sets(first, end, gpu_ns, offload_ns, fixed_ns, cost)
            for i in range(first, end):
                x |= on[i] << (i - first)
            now = cost[x]
        else:
            now = _greedy(first, end, gpu_ns, offload_ns, fixed_ns, order, on)
        total += weight[row] * now
        for i in range(first, end):
            a = expert[i]
            on[i] = not on[i]
            x ^= 1 << (i - first) if few else 0
            moved = cost[x] if few else _greedy(first, end, gpu_ns, offload_ns, fixed_ns, order, on)
            change[a] += weight[row] * (moved - now)
            if held[a]:
                for j in range(first, end):
                    if not held[expert[j]]:
                        on[j] = True
                        if few:
                            both = cost[x | 1 << (j - first)]
                        else:
                            both = _greedy(first, end, gpu_ns, offload_ns, fixed_ns, order, on)
                        on[j] = False
                        swap[a, expert[j]] += weight[row] * (both - moved)
            else:
                for j in range(first, end):
                    if held[expert[j]]:
                        swap[expert[j], a] -= weight[row] * (moved - now)
            on[i] = not on[i]
            x ^= 1 << (i - first) if few else 0
    return total


@compiled
def _costs_of_sets(
    first: int, end: int, gpu_ns: Ints, offload_ns: Ints, fixed_ns: int, cost: Ints
) -> None:
    """Compute the row's cost for every set of its experts on the GPU, dispatched best."""
    count = end - first
    for subset in range(1 << count):
        gpu, off = 0, fixed_ns if subset + 1 < 1 << count else 0
        for bit in range(count):
            if subset >> bit & 1:
                gpu += gpu_ns[first + bit]
            else:
                off += offload_ns[first + bit]
        cost[subset] = max(gpu, off)
    for bit in range(count):
        for subset in range(1 << count):
            if subset >> bit & 1:
                cost[subset] = min(cost[subset], cost[subset ^ 1 << bit])


@compiled
def _greedy(
    first: int,
    end: int,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    order: Ints,
    on: Flags,
) -> int:
    """Return what a row takes if the GPU gives away greedily."""
    gpu, off, away = 0, 0, False
    for i in range(first, end):
        if on[i]:
            gpu += gpu_ns[i]
        else:
            off += offload_ns[i]
            away = True
    kept = max(gpu, off + (fixed_ns if away else 0))
    if kept > gpu:
        return kept
    off += fixed_ns
    for place in range(first, end):
        i = order[place]
        if on[i] and off + offload_ns[i] < gpu:
            gpu -= gpu_ns[i]
            off += offload_ns[i]
    return min(kept, max(gpu, off))
