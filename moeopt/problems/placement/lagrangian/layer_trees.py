"""Branch and bound by layer at a price per slot, where rows are large.

With the slots priced the layers fall apart: the objective is at least the sum over the layers of
the least of cost + price, less the price of all slots. Each layer has its own tree: a node fixes
some experts, its bound is that of `Layer`, and it branches on the expert for which a
quadratic model says that the bound rises most on the side that resists less (strong branching at
the price of one inverse; Achterberg, Koch, Martin 2005 have its usual form). The layer whose tree
has the largest gap is next.

Proof. Nodes that are not worked on any more, since their bound is at least the cost of the layer's
best choice known, hold nothing better. So a layer costs at least the lesser of that cost and the
least bound of its open nodes; all are integers. For a price u >= 0 and experts X of sizes of at
most `most` in all, cost(X) >= cost(X) + u size(X) - u most; likewise for u <= 0 with `least`.

**Bounds of nodes** weigh the rows' two sides as an interior-point method says, layer by layer.

With the charge due in every row, at most min(f, g of all its experts), a layer at a price per slot
is bounded by the linear relaxation

    min sum of w_t z_t + q x   with   z_t >= G_t x,   z_t >= C_t - O_t x,   0 <= x <= 1,

whose dual variables are the weights th_t of the GPU in each row. They are as many as the rows; the
multipliers of `volume` are as many as the entries, and take it minutes to come as far where rows
are large. Mehrotra's centering is left out: a fixed share of the mean complementarity is aimed at
(Wright, "Primal-Dual Interior-Point Methods", SIAM 1997). The z_t are eliminated row by row, which
leaves one system in x for each step.

Proof. Whatever weights come out of the floats, `bound` is computed from them in integers: a row
costs at least max(G, O + f') with f' = min(f, g of all its experts), also where all its experts
are on the GPU, and that is at least th G + (1 - th) (O + f') for any th between 0 and 1. Summed
over the rows this is linear in x, and each open expert is taken where it gains.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.rounding import rounded
from moeopt.problems.placement.layer_steps import Flags, Floats, Ints, LayerSteps

from .local_search import FAR, MOVE_WORK, PAIRS, move_changes
from .relaxation import LARGEST, Model

ITERATIONS, CENTERING, TO_BOUNDARY = 40, 0.15, 0.95

ITERATION_WORK, PRODUCTS = 1.5e-4, 4e9
"""Units of work that an iteration takes, and multiplications in its matrices for each of them."""

CLOSE = 1e-5
"""Relative gap of the linear relaxation at which it is solved."""


OPTIMIZER = 20
"""Bits of what the interior point says that are told: it stops at a tolerance."""


@dataclass(frozen=True)
class Relaxed:
    """A layer's linear relaxation with some experts fixed.

    Attributes
    ----------
    bound
        Lower bound on the layer's cost at the price, times `Layer.scale`, in integers.
    weights
        Of the GPU's side, by row, in parts of `Layer.scale`.
    x
        How far each expert is on the GPU, from 0 to 1; fixed ones are 0 or 1.
    lead
        By expert, how much the bound is about to rise where it is fixed on the side it resists
        less; -1 for fixed ones.
    """

    bound: int
    weights: Ints
    x: Floats
    lead: Floats


class Layer:
    """A layer's rows as matrices, and a price on its slots.

    Parameters
    ----------
    of, fixed_ns
        The rows, and the charge.
    price
        Of every expert on the GPU, in ns, shape (experts,).
    scale
        Parts of a weight: sums stay in 64 bits (`layer_trees.scale_of`).
    """

    def __init__(self, of: LayerSteps, fixed_ns: int, price: Ints, scale: int) -> None:
        shape = (of.rows, len(price))
        self.gpu, self.off = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        self.gpu[of.row, of.expert], self.off[of.row, of.expert] = of.gpu_ns, of.offload_ns
        self.weight, self.price, self.scale = of.weight, price, scale
        self.off_all = self.off.sum(axis=1) + np.minimum(fixed_ns, self.gpu.sum(axis=1))
        self.unit = max(1.0, float(self.off_all.mean())) if of.rows else 1.0
        self._both = (self.gpu + self.off) / self.unit
        self._slope = (price - self.weight @ self.off) / self.unit

    def bound(self, weights: Ints, fixed: NDArray[np.int8]) -> int:
        """Return what weights prove, times `scale`.

        Parameters
        ----------
        weights
            By row, from 0 to `scale`.
        fixed
            By expert 1: on the GPU, 0: off it, -1: open.
        """
        of_off = (self.scale - weights) * self.weight
        reduced = (weights * self.weight) @ self.gpu - of_off @ self.off + self.scale * self.price
        taken = np.where(fixed < 0, np.minimum(0, reduced), np.where(fixed == 1, reduced, 0))
        return int(of_off @ self.off_all) + int(taken.sum())

    def relaxed(self, fixed: NDArray[np.int8], near: Floats, enough: int | None = None) -> Relaxed:
        """Solve the linear relaxation, from a point nearby, or until its bound is enough.

        Parameters
        ----------
        near
            Where to begin, from 0 to 1.
        enough
            A bound, times `scale`, at which nothing more is asked.
        """
        free, on = fixed < 0, fixed == 1
        x, lead = np.where(on, 1.0, 0.0), np.full(len(fixed), -1.0)
        due = self.off_all / self.unit - self._both[:, on].sum(axis=1)
        base = float((self.weight * self.off_all).sum()) / self.unit + float(self._slope[on].sum())
        stop_at = np.inf if enough is None else enough / self.scale / self.unit - base
        both = np.ascontiguousarray(self._both[:, free])
        start = np.clip(near[free], 0.1, 0.9)
        alpha, x[free], lead[free] = _interior_point(
            both, self.weight.astype(float), due, self._slope[free], start, stop_at
        )
        # What to branch on must not depend on the last digits of a matrix product.
        x[free], lead[free] = rounded(x[free], OPTIMIZER), rounded(lead[free], OPTIMIZER)
        share = rounded(np.clip(alpha / np.maximum(1, self.weight), 0, 1), OPTIMIZER)
        weights = np.rint(share * self.scale).astype(np.int64)
        return Relaxed(self.bound(weights, fixed), weights, x, lead)


def _interior_point(
    both: Floats, weight: Floats, due: Floats, slope: Floats, x: Floats, stop_at: float
) -> tuple[Floats, Floats, Floats]:
    """Minimise slope x + sum of weight max(0, both x - due) over 0 <= x <= 1.

    Row t has the slacks p = z - G x and n = z - (C - O x) with n = p - due + both x, and the
    duals alpha and weight - alpha of the two sides.

    Returns
    -------
    alpha, x, lead
        The duals with the best bound seen, the last x, and what a quadratic model says that the
        optimum rises by if an expert is fixed on the side it resists less.
    """
    if not both.size:
        return np.where(due < 0, weight, 0.0), np.where(slope < 0, 1.0, 0.0), np.zeros(len(x))
    count = 2 * (len(weight) + len(x))
    gap = due - both @ x
    p = np.maximum(gap, 0) + 0.5 * np.abs(gap).mean() + 1e-6
    n = p - gap
    alpha = weight * n / (p + n)
    mu = float((alpha * p).mean()) + 1e-9
    low, high = mu / x, mu / (1 - x)
    best, best_alpha, curvature = -np.inf, alpha, np.ones(len(x))
    diagonal = np.arange(len(x))
    for _ in range(ITERATIONS):
        spend(ITERATION_WORK + len(x) ** 2 * (len(weight) + len(x)) / PRODUCTS)
        reduced = slope + both.T @ alpha
        bound = float(np.minimum(0, reduced).sum() - alpha @ due)
        if bound > best:
            best, best_alpha = bound, alpha
        value = float(slope @ x + weight @ np.maximum(0, both @ x - due))
        base = float(abs(weight @ np.abs(due))) + abs(value)
        if value - best <= CLOSE * base or best >= stop_at:
            break
        beta = weight - alpha
        mu = float(alpha @ p + beta @ n + low @ x + high @ (1 - x)) / count
        aim = CENTERING * mu
        of_z = beta + n * alpha / p
        rest = aim - beta * n + n / p * aim - n * alpha
        stiff = alpha * beta / (p * of_z)
        shift = (aim - alpha * p) / p - alpha * rest / (p * of_z)
        matrix = (both.T * stiff) @ both
        matrix[diagonal, diagonal] += low / x + high / (1 - x)
        right = -(reduced - low + high) + (aim / x - low) - (aim / (1 - x) - high) - both.T @ shift
        try:
            inverse = np.linalg.inv(matrix)
        except np.linalg.LinAlgError:
            break
        curvature = 1 / np.maximum(1e-300, np.diag(inverse))
        step = inverse @ right
        if not np.isfinite(step).all():
            break
        moved = both @ step
        d_alpha = shift + stiff * moved
        dp = (rest - beta * moved) / of_z
        dn = dp + moved
        d_low = aim / x - low - low * step / x
        d_high = aim / (1 - x) - high + high * step / (1 - x)
        primal = _length((x, -step), (1 - x, step), (p, -dp), (n, -dn))
        dual = _length((alpha, -d_alpha), (beta, d_alpha), (low, -d_low), (high, -d_high))
        x, p = x + primal * step, p + primal * dp
        n = np.maximum(p - due + both @ x, 1e-12)
        alpha, low, high = alpha + dual * d_alpha, low + dual * d_low, high + dual * d_high
    return best_alpha, x, np.minimum((1 - x) ** 2, x**2) * curvature


def _length(*pairs: tuple[Floats, Floats]) -> float:
    """Return the step that keeps all values positive, given each and how fast it falls."""
    fastest = max(float((falls / value).max()) for value, falls in pairs)
    return min(1.0, TO_BOUNDARY / max(fastest, 1e-12))


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
