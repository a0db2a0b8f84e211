"""Local search over placements: drop, add and swap moves.

The change of every move is exact, but for large rows with free dispatch (`dispatched_changes`). The
descent makes the best move until none improves.

Where experts on the GPU may be computed on the other side, a row of few experts is solved for all
sets of them at once: cost[x], the later side if the GPU computes exactly x, is brought down to the
least over all subsets, expert by expert. Larger rows are dispatched greedily: while the GPU is
later, it gives away the expert with the least offload time for its GPU time that does not make the
other side as late.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from moeopt.core.clock import spend
from moeopt.core.compiled import compiled, inner, part
from moeopt.core.rounding import least
from moeopt.problems.placement.layer_steps import Flags, Ints

from .kernels import FEW
from .relaxation import Model

FAR = 2**61
"""The change of a move that must not be made."""

LISTED = 48
"""Best adds and drops that are paired across layers."""

PAIRS, DISPATCHED, MOVE_WORK = 4e8, 4e7, 2e-4
"""Pairs of entries whose swaps a core looks at in a second, with free dispatch, and units of work
that a move takes besides: some dozen calls of NumPy."""


class Move(NamedTuple):
    """What the total changes by, in ns, and the experts that change sides: (layer, expert)."""

    change_ns: int
    experts: tuple[tuple[int, int], ...]


class LocalSearch:
    """A placement, and what each move would change.

    Attributes
    ----------
    held
        Flags of shape (layers, experts).
    total_ns
        Its objective; with free dispatch, and rows of many experts, not less than that.
    """

    def __init__(self, model: Model, held: Flags) -> None:
        self.model, self.held = model, held.copy()
        self.used = int(model.capacity.sizes[held].sum())
        shape = held.shape
        self._change = np.zeros(shape, dtype=np.int64)
        self._swaps: list[dict[int, Move]] = [{} for _ in range(shape[0])]
        self._layer_ns = [0] * shape[0]
        for layer in range(shape[0]):
            self._evaluate(layer)

    @property
    def total_ns(self) -> int:
        """The objective."""
        return sum(self._layer_ns)

    def descend(self, stopped: Callable[[], bool]) -> None:
        """Make the best move until none makes the total shorter."""
        while not stopped():
            best = min(self._moves(), key=lambda move: move.change_ns, default=Move(0, ()))
            if best.change_ns >= 0:
                return
            self.make(best.experts)

    def make(self, experts: tuple[tuple[int, int], ...]) -> None:
        """Move experts to their other side."""
        for layer, expert in experts:
            size = int(self.model.capacity.sizes[layer, expert])
            self.used += -size if self.held[layer, expert] else size
            self.held[layer, expert] ^= True
        for layer in {layer for layer, _ in experts}:
            self._evaluate(layer)

    def _moves(self) -> list[Move]:
        """Return the best swap within a layer, add, drop, and swap between two layers."""
        spend(MOVE_WORK)
        capacity = self.model.capacity
        swaps = [
            move
            for of_layer in self._swaps
            for more, move in of_layer.items()
            if capacity.least <= self.used + more <= capacity.most
        ]
        swap = min(swaps, key=lambda move: move.change_ns, default=Move(0, ()))
        if capacity.restriction == "equal-counts":
            return [swap]
        adds = np.where(self.held, FAR, self._change)
        drops = np.where(self.held, self._change, FAR)
        add = np.where(capacity.sizes <= capacity.most - self.used, adds, FAR)
        drop = np.where(capacity.sizes <= self.used - capacity.least, drops, FAR)
        return [swap, _single(add), _single(drop), self._pair(adds, drops)]

    def _pair(self, adds: Ints, drops: Ints) -> Move:
        """Return the best swap between two layers, among the best adds and drops."""
        capacity, experts = self.model.capacity, self.held.shape[1]
        into, out = _best(adds), _best(drops)
        change = adds.ravel()[into][:, None] + drops.ravel()[out]
        sizes = capacity.sizes.ravel()
        used = self.used + sizes[into][:, None] - sizes[out]
        wrong = (used > capacity.most) | (used < capacity.least)
        wrong |= (into // experts)[:, None] == out // experts
        change = np.where(wrong, FAR, change)
        i, j = np.unravel_index(int(change.argmin()), change.shape)
        pair = (divmod(int(into[i]), experts), divmod(int(out[j]), experts))
        return Move(int(change[i, j]), pair)

    def _evaluate(self, layer: int) -> None:
        """Compute a layer's cost, its adds and drops, and its best swaps, by slots more taken."""
        of, held, capacity = self.model.layers[layer], self.held[layer], self.model.capacity
        spend(MOVE_WORK + of.pairs / (DISPATCHED if of.free_dispatch else PAIRS))
        experts = len(held)
        change = np.zeros(experts, dtype=np.int64)
        beyond = np.zeros((experts, experts), dtype=np.int64)
        steps = (of.weight, of.start, of.expert, of.gpu_ns, of.offload_ns, self.model.fixed_ns)
        if of.free_dispatch:
            room = np.empty(1 << FEW, dtype=np.int64), held[of.expert]
            total = dispatched_changes(*steps, of.cheapest_away_first, held, change, beyond, *room)
        else:
            total = move_changes(*steps, held, change, beyond)
        self._change[layer] = change
        self._layer_ns[layer] = total
        self._swaps[layer] = {}
        out, into = np.flatnonzero(held), np.flatnonzero(~held)
        if len(out) and len(into):
            swap = change[out][:, None] + change[into] + beyond[np.ix_(out, into)]
            more = capacity.sizes[layer, into] - capacity.sizes[layer, out][:, None]
            for size in np.unique(more).tolist():
                of_size = np.where(more == size, swap, FAR)
                i, j = np.unravel_index(int(of_size.argmin()), swap.shape)
                pair = ((layer, int(out[i])), (layer, int(into[j])))
                self._swaps[layer][size] = Move(int(swap[i, j]), pair)


def _best(change: Ints) -> Ints:
    """Return the flat places of the least changes."""
    return least(change.ravel(), LISTED)


def _single(change: Ints) -> Move:
    place = int(change.argmin())
    expert: tuple[int, int] = divmod(place, change.shape[1])
    return Move(int(change.ravel()[place]), (expert,))


@compiled
def move_changes(
    weight: Ints,
    start: Ints,
    expert: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    held: Flags,
    change: Ints,
    swap: Ints,
) -> int:
    """Return the layer's cost, and compute its change under each move; outputs begin as 0.

    Compiled; arrays as in `LayerSteps`.

    Parameters
    ----------
    change
        Output, shape (experts,): one expert added to the GPU, or dropped from it.
    swap
        Output, shape (experts, experts): what the swap of a, which is held, for b, which is not,
        changes by beyond the sum of dropping a and adding b.
    """
    total = 0
    for row in range(len(weight)):
        first, end = start[row], start[row + 1]
        gpu, off, count = 0, 0, 0
        for i in range(first, end):
            if held[expert[i]]:
                gpu += gpu_ns[i]
            else:
                off += offload_ns[i]
                count += 1
        now = max(gpu, off + (fixed_ns if count else 0))
        total += weight[row] * now
        for i in range(first, end):
            a = expert[i]
            if held[a]:
                moved = max(gpu - gpu_ns[i], off + offload_ns[i] + fixed_ns)
                change[a] += weight[row] * (moved - now)
                for j in range(first, end):
                    b = expert[j]
                    if not held[b]:
                        added = max(
                            gpu + gpu_ns[j], off - offload_ns[j] + (fixed_ns if count > 1 else 0)
                        )
                        both = max(
                            gpu - gpu_ns[i] + gpu_ns[j],
                            off + offload_ns[i] - offload_ns[j] + fixed_ns,
                        )
                        swap[a, b] += weight[row] * (both - moved - added + now)
            else:
                added = max(gpu + gpu_ns[i], off - offload_ns[i] + (fixed_ns if count > 1 else 0))
                change[a] += weight[row] * (added - now)
    return total


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
    cost: Ints,
    on: Flags,
) -> int:
    """Return the layer's cost, and compute its change under each move; outputs begin as 0.

    Parameters
    ----------
    order
        `LayerSteps.cheapest_away_first`.
    change, swap
        As in `local_search.move_changes`.
    cost
        For own use, shape (2**FEW,).
    on
        By entry, whether the expert is held; what changes here is set back.
    """
    total = 0
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


@part
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


@inner
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
