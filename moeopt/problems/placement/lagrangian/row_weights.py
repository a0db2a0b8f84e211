"""The weights of the rows' two sides that give the best bound: an interior-point method by layer.

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

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend
from moeopt.core.rounding import rounded
from moeopt.problems.placement.layer_steps import Ints, LayerSteps

Floats = NDArray[np.float64]

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
        # What to branch on must not hang on the last digits of a matrix product.
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
