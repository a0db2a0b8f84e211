"""Branch and bound by layer at a price per slot, where rows are large.

With the slots priced the layers fall apart: the objective is at least the sum over the layers of
the least of cost + price, less the price of all slots. Each layer has its own tree: a node fixes
some experts, its bound is that of `row_weights`, and it branches on the expert for which a
quadratic model says that the bound rises most on the side that resists less (strong branching at
the price of one inverse; Achterberg, Koch, Martin 2005 have its usual form). The layer whose tree
has the largest gap is next.

Proof. Nodes that are not worked on any more, since their bound is at least the cost of the layer's
best choice known, hold nothing better. So a layer costs at least the lesser of that cost and the
least bound of its open nodes; all are integers. For a price u >= 0 and experts X of sizes of at
most `most` in all, cost(X) >= cost(X) + u size(X) - u most; likewise for u <= 0 with `least`.
"""

import heapq
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.problems.placement.layer_steps import Flags

from .local_search import FAR, MOVE_WORK, PAIRS, move_changes
from .relaxation import LARGEST, Model
from .row_weights import Floats, Layer, Relaxed

TABU_MOVES, TENURE = 150, (4, 12)
"""Moves of the tabu search of a layer, and for how many of them an expert that moved stays."""

LONGEST_PRICE_SEARCH = 24

MOST_NODES = 200_000
"""Nodes kept of all trees together: some 1 kB each."""


def dearest_slot(model: Model) -> int:
    """Return a price at which no expert is worth a slot, nor a place elsewhere at the negative."""
    gains = (
        np.bincount(of.expert, of.weight[of.row] * (of.gpu_ns + of.offload_ns + model.fixed_ns))
        for of in model.layers
    )
    return 1 + max(int(gain.max(initial=0)) for gain in gains)


def scale_of(model: Model) -> int:
    """Return the parts of a weight at which all sums stay in 64 bits; 0 if there are none."""
    cost = sum(
        int((of.weight[of.row] * (of.gpu_ns + of.offload_ns + model.fixed_ns)).sum())
        for of in model.layers
    )
    total = cost + dearest_slot(model) * int(model.capacity.sizes.sum())
    parts = LARGEST // (2 * total)
    return 1 << min(20, parts.bit_length() - 1) if parts else 0


class LayerTrees:
    """The trees of all layers at one price per slot.

    Attributes
    ----------
    price
        Of a slot, in ns.
    held
        The best choice known of every layer at the price, shape (layers, experts).
    weights
        The root nodes' weights of the rows, by layer, from 0 to 1.
    """

    def __init__(self, model: Model, held: Flags, scale: int, stopped: Callable[[], bool]) -> None:
        self.model, self.stopped, self.held = model, stopped, held.copy()
        self.scale = scale
        self._near = np.full(held.shape, 0.5)
        self.price = self._best_price()
        self._count = 0
        layers, roots = self._at(self.price)
        self.layers = layers
        self.weights = [root.weights / self.scale for root in roots]
        self._trees = [[self._node(root, np.full(held.shape[1], -1, np.int8))] for root in roots]
        self._best = [self._cost(number, row) for number, row in enumerate(self.held)]

    def bound_ns(self) -> int:
        """Return the bound of all layers together."""
        limit = self.model.capacity.most if self.price >= 0 else self.model.capacity.least
        total = sum(self._layer_bound(number) for number in range(len(self.layers)))
        return -(-total // self.scale) - self.price * limit

    def search(self, rng: np.random.Generator) -> None:
        """Look for better choices of every layer, by tabu search with flips and swaps."""
        for number, layer in enumerate(self.layers):
            if self.stopped():
                return
            self._best[number], self.held[number] = self._tabu(number, layer, rng)

    def grow(self, nodes: int) -> bool:
        """Work on some nodes; return False if no layer has anything left to do."""
        for _ in range(nodes):
            gaps = [
                self._best[number] * self.scale - self._layer_bound(number)
                for number in range(len(self.layers))
            ]
            number = int(np.argmax(gaps))
            if gaps[number] <= 0 or self._count > MOST_NODES:
                return False
            if self.stopped():
                return True
            self._branch(number)
        return True

    def _branch(self, number: int) -> None:
        tree, layer = self._trees[number], self.layers[number]
        _, _, fixed, near, lead = heapq.heappop(tree)
        if lead.max() < 0:  # nobody is open
            cost = self._cost(number, fixed == 1)
            if cost < self._best[number]:
                self._best[number], self.held[number] = cost, fixed == 1
            return
        expert = int(lead.argmax())
        enough = self._best[number] * self.scale
        for side in (0, 1):
            below = fixed.copy()
            below[expert] = side
            found = layer.relaxed(below, near, enough)
            if found.bound < enough:
                heapq.heappush(tree, self._node(found, below))

    def _node(
        self, found: Relaxed, fixed: NDArray[np.int8]
    ) -> tuple[int, int, Any, Floats, Floats]:
        self._count += 1
        return found.bound, self._count, fixed, found.x, found.lead

    def _layer_bound(self, number: int) -> int:
        best, tree = self._best[number] * self.scale, self._trees[number]
        return min(best, tree[0][0]) if tree else best

    def _cost(self, number: int, held: Flags) -> int:
        of = self.model.layers[number]
        return of.cost_ns(held, self.model.fixed_ns) + int(self.layers[number].price[held].sum())

    def _at(self, price: int) -> tuple[list[Layer], list[Relaxed]]:
        model = self.model
        layers = [
            Layer(of, model.fixed_ns, price * sizes, self.scale)
            for of, sizes in zip(model.layers, model.capacity.sizes, strict=True)
        ]
        nobody = np.full(self.held.shape[1], -1, dtype=np.int8)
        roots = []
        for number, layer in enumerate(layers):
            roots.append(layer.relaxed(nobody, self._near[number]))
            self._near[number] = roots[-1].x
        return layers, roots

    def _best_price(self) -> int:
        """Return the price at which the linear relaxations keep the slots, nearly."""
        capacity = self.model.capacity
        used = self._used(0)
        if capacity.least <= used <= capacity.most:
            return 0
        sign, limit = (1, capacity.most) if used > capacity.most else (-1, capacity.least)
        low, high = 0, dearest_slot(self.model)
        for _ in range(LONGEST_PRICE_SEARCH):
            if high - low <= 1 + high // 1000 or self.stopped():
                break
            middle = (low + high) // 2
            too_cheap = sign * (self._used(sign * middle) - limit) > 0
            low, high = (middle, high) if too_cheap else (low, middle)
        return sign * high

    def _used(self, price: int) -> float:
        _, roots = self._at(price)
        return float(
            sum(
                (root.x * s).sum() for root, s in zip(roots, self.model.capacity.sizes, strict=True)
            )
        )

    def _tabu(self, number: int, layer: Layer, rng: np.random.Generator) -> tuple[int, Flags]:
        of, held = self.model.layers[number], self.held[number].copy()
        experts = len(held)
        free_at = np.zeros(experts, dtype=np.int64)
        best, best_held = self._cost(number, held), held.copy()
        for move in range(TABU_MOVES):
            if self.stopped():
                break
            spend(MOVE_WORK + of.pairs / PAIRS)
            change = np.zeros(experts, dtype=np.int64)
            beyond = np.zeros((experts, experts), dtype=np.int64)
            steps = (of.weight, of.start, of.expert, of.gpu_ns, of.offload_ns)
            cost = move_changes(*steps, self.model.fixed_ns, held, change, beyond)
            change += np.where(held, -layer.price, layer.price)
            cost += int(layer.price[held].sum())
            out, into = np.flatnonzero(held), np.flatnonzero(~held)
            barred = free_at > move
            flips = np.where(barred & (cost + change >= best), FAR, change)
            swaps = change[out][:, None] + change[into] + beyond[np.ix_(out, into)]
            closed = (barred[out][:, None] | barred[into]) & (cost + swaps >= best)
            swaps = np.where(closed, FAR, swaps)
            moved = [int(flips.argmin())]
            if swaps.size and int(swaps.min()) < int(flips.min()):
                i, j = divmod(int(swaps.argmin()), len(into))
                moved = [int(out[i]), int(into[j])]
            held[moved] ^= True
            free_at[moved] = move + 1 + rng.integers(*TENURE, size=len(moved))
            reached = cost + int(min(flips.min(), swaps.min(initial=FAR)))
            if reached < best:
                best, best_held = reached, held.copy()
        return best, best_held
