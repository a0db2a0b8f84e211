"""How many tokens the experts of a layer will get in windows that are still to come.

Popularity is estimated as a shrunk, discounted mean of the windows seen, and what a later window
has beside it is a double Poisson count, whose variance may be above or below its mean:

    mean      m_e = N (a + S_e) / (E a + sum S),   S_e = sum over windows s of d^(age of s) l_se
    variance  V_e = f m_e u + v m_e^2 (u + h / 2),   n = (sum d^age)^2 / sum d^(2 age)
              u   = 1 + 1 / n + h (1 - d)^2 / d

h windows ahead: the last term of u is the drift of a local level whose steady state has this
discount, and popularity moves on, by half as much again with each window (`GROWTH`).

Tokens of a window are no independent draws: they come in sequences, so that the dispersion f is
above 1 in most traces; where all texts are alike and each token takes distinct experts it is below.
v is how far popularity itself varies from window to window, a the shrinkage towards equal shares,
and d the discount of older windows. d = 1 and a = 0 is the plain mean, d < 1 and a = 0 the moving
average of TriMoE Eq. 8 with alpha = 1 - d (`moeopt.sim.traces.predictor`).

The four are fitted by maximum likelihood of each window given those before it (rolling validation
inside what was observed), with a wide prior that decides where there is one window only.

The counts' distribution: B. Efron, "Double Exponential Families and Their Use in Generalized
Linear Regression", Journal of the American Statistical Association 81 (1986), 709-721. Discounting:
M. West and J. Harrison, "Bayesian Forecasting and Dynamic Models", 2nd edition, Springer 1997,
section 6.3.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize
from scipy.special import gammaln, xlogy

from moeopt.core.errors import InputError
from moeopt.core.rounding import rounded

from .trace import Ids

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

HORIZON = 8
"""How many windows ahead a forecast is fitted for, if not told."""

MAX_PAIRS = 48
"""Most pairs of an origin and a later window in the likelihood: more only take longer."""

GRID = 256
"""Points at which an expert's distribution is evaluated, over `SPREADS` standard deviations each
way; every count, where that is finer."""

SPREADS = 9.0


@dataclass(frozen=True)
class Dynamics:
    """What the next windows of a layer have in common with those before.

    Attributes
    ----------
    shrinkage
        Tokens added to every expert's: the larger, the nearer to equal shares.
    discount
        Weight of a window beside that of the one after it, above 0 and at most 1.
    dispersion
        Variance over mean of a window's count, were popularity known and constant.
    volatility
        Variance of the popularity's own moves, relative to its square.
    """

    shrinkage: float
    discount: float
    dispersion: float
    volatility: float


PRIOR = Dynamics(shrinkage=1.0, discount=0.97, dispersion=1.6, volatility=0.03)
"""What is expected of a trace before it is seen: the middle of what the three ESFT traces and
HD-MoE's say (see `docs/later.md`), rounded. Chosen with these traces in view: on them a forecast
from one window is no test of it."""

GROWTH = 0.5
"""By how much of a window's the variance of popularity grows with each further window. Of a few
windows it cannot be told, so that it is fixed; with 0 intervals cover 72 to 81 % of what comes on
the traces at hand instead of 80, and the likelihood is lower. It was chosen on these."""

PRIOR_SPREAD = np.array([1.0, 0.7, 0.5, 0.7])
"""Standard deviations of the logarithms of the four, of 1 - discount for the second."""

LIMITS = np.array([(1e-3, 1e3), (1e-4, 0.9), (0.2, 1e3), (1e-6, 10.0)])
"""Of the same four."""


@dataclass(frozen=True)
class Forecast:
    """The distribution of an expert's tokens in one of the windows to come.

    Attributes
    ----------
    mean, variance
        In tokens, shape (experts,).
    totals
        Tokens x experts per token of the windows seen, shape (windows,): later ones have the same.
    dynamics
        As fitted.
    """

    mean: Floats
    variance: Floats
    totals: Ints
    dynamics: Dynamics

    def sample(self, number: int, rng: np.random.Generator) -> Ints:
        """Return `number` windows, shape (number, experts); each has the total of one seen."""
        points, cumulated = self._table
        uniform = rng.random((number, len(self.mean)))
        drawn = np.stack(
            [np.interp(u, c, p) for u, c, p in zip(uniform.T, cumulated, points, strict=True)],
            axis=1,
        )
        totals = rng.choice(self.totals, size=number)
        return _to_total(drawn, totals, rng.random(number))

    def intervals(self, level: float = 0.8) -> tuple[Ints, Ints]:
        """Return between which counts, ends included, an expert has its tokens with this chance.

        Counts are whole: the interval is the shortest one between quantiles that has at least
        `level`; see `coverage` for what is fair to expect of it.
        """
        if not 0 < level < 1:
            raise InputError(f"level: must be between 0 and 1, not {level}")
        return self.quantile((1 - level) / 2), self.quantile((1 + level) / 2)

    def quantile(self, share: float) -> Ints:
        """Return the least count that an expert does not exceed with this chance."""
        points, cumulated = self._table
        at = [np.interp(share, c, p) for c, p in zip(cumulated, points, strict=True)]
        return np.maximum(np.ceil(rounded(at) - 0.5), 0).astype(np.int64)

    def cdf(self, counts: ArrayLike) -> Floats:
        """Return the chance that an expert has at most so many tokens, shape (..., experts)."""
        points, cumulated = self._table
        asked = np.asarray(counts, dtype=np.float64) + 0.5
        at = [np.interp(asked[..., e], points[e], cumulated[e]) for e in range(len(self.mean))]
        return np.stack(at, axis=-1)

    def log_likelihood(self, later: ArrayLike) -> float:
        """Return the mean logarithm of the chance of an expert's count in later windows.

        Parameters
        ----------
        later
            Tokens, shape (windows, experts).
        """
        counts = np.asarray(later, dtype=np.float64)
        logs = _log_density(counts, self.mean, self.variance) - self._log_norm
        return float(logs.mean())

    @cached_property
    def _log_norm(self) -> Floats:
        points, steps = self._grid
        density = np.exp(_log_density(points, self.mean[:, None], self.variance[:, None]))
        return np.asarray(np.log((density * steps[:, None]).sum(axis=1)))

    @cached_property
    def _grid(self) -> tuple[Floats, Floats]:
        """Counts at which each expert's distribution is evaluated, and how far apart they lie."""
        spread = np.sqrt(self.variance)
        low = np.maximum(np.floor(rounded(self.mean - SPREADS * spread)), 0.0)
        high = self.mean + SPREADS * spread + 20.0
        steps = np.maximum(np.ceil(rounded((high - low) / GRID)), 1.0)
        return low[:, None] + np.arange(GRID + 1) * steps[:, None], steps

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Each expert's cumulative distribution: at count + 1/2 the chance of at most the count."""
        points, steps = self._grid
        density = np.exp(_log_density(points, self.mean[:, None], self.variance[:, None]))
        cumulated = np.cumsum(density, axis=1)
        cumulated = np.concatenate([np.zeros((len(points), 1)), cumulated], axis=1)
        half = steps[:, None] / 2
        edges = np.concatenate([points[:, :1] - half, points + half], axis=1)
        return edges, rounded(cumulated / cumulated[:, -1:])


def fit(loads: ArrayLike, horizon: int = HORIZON) -> Forecast:
    """Return the forecast that the windows of a layer give.

    Parameters
    ----------
    loads
        Tokens of each expert in each window, the oldest first, shape (windows, experts).
    horizon
        The windows to come that the forecast is for, the next one to this.

    Raises
    ------
    InputError
        If the shape or a number is out of range, or no window has tokens.
    """
    seen = np.asarray(loads)
    if seen.ndim != 2 or 0 in seen.shape or not np.issubdtype(seen.dtype, np.integer):
        raise InputError(f"loads: must be integers of shape (windows, experts), not {seen.shape}")
    if seen.min() < 0 or not seen.any():
        raise InputError("loads: must not be negative, nor 0 for all")
    if horizon < 1:
        raise InputError(f"horizon: must be at least 1, not {horizon}")
    windows = seen[seen.sum(axis=1) > 0].astype(np.float64)
    found = _fitted(windows, horizon)
    return forecast(windows, found, horizon)


def forecast(loads: ArrayLike, dynamics: Dynamics, horizon: int = HORIZON) -> Forecast:
    """Return the forecast of given dynamics: `fit` without fitting."""
    windows = np.asarray(loads, dtype=np.float64)
    totals = windows.sum(axis=1)
    values = _values(dynamics)
    pair = np.array([len(windows)]), np.array([(1 + horizon) / 2])
    mean, variance = _moments(windows, pair, np.array([totals.mean()]), values)
    return Forecast(rounded(mean[0]), rounded(variance[0]), totals.astype(np.int64), dynamics)


def _fitted(windows: Floats, horizon: int) -> Dynamics:
    start = np.log(_values(PRIOR))
    if len(windows) < 2:
        return PRIOR
    origins, aheads = _pairs(len(windows), horizon)
    target = windows[origins + aheads - 1]
    totals = target.sum(axis=1)
    low, high = np.log(LIMITS[:, 0]), np.log(LIMITS[:, 1])

    def loss(logs: Floats) -> float:
        inside = np.clip(logs, low, high)
        mean, variance = _moments(windows, (origins, aheads), totals, np.exp(inside))
        fits = (_log_density(target, mean, variance) - _log_constant(mean, variance)).sum()
        far = (((logs - start) / PRIOR_SPREAD) ** 2).sum() / 2
        return float(rounded(far - fits + 1e3 * np.abs(logs - inside).sum()))

    simplex = np.vstack([start, start + np.diag(PRIOR_SPREAD)])
    options: Any = {"maxfev": 240, "xatol": 0.02, "fatol": 0.02, "initial_simplex": simplex}
    best = minimize(loss, start, method="Nelder-Mead", options=options)
    found = rounded(np.exp(np.clip(best.x, low, high)), 20)
    a, lost, dispersion, volatility = found.tolist()
    return Dynamics(a, 1 - lost, dispersion, volatility)


def _pairs(windows: int, horizon: int) -> tuple[Ints, Ints]:
    """Return origins, as numbers of windows seen, and how many windows ahead of them to look.

    Each of the last windows is forecast from 1, 2, 4, ... windows before it, as far as they go.
    """
    aheads = [1 << n for n in range(horizon.bit_length())]
    pairs = [
        (later - ahead + 1, ahead)
        for later in range(windows - 1, 0, -1)
        for ahead in aheads
        if later - ahead + 1 >= 1
    ]
    numbers = np.array(pairs[:MAX_PAIRS], dtype=np.int64)
    return numbers[:, 0], numbers[:, 1]


def _values(dynamics: Dynamics) -> Floats:
    d = dynamics
    return np.array([d.shrinkage, 1 - d.discount, d.dispersion, d.volatility])


def _moments(
    windows: Floats, pairs: tuple[Ints, Ids], totals: Floats, values: Ids
) -> tuple[Floats, Floats]:
    """Return means and variances, shape (origins, experts) each.

    Parameters
    ----------
    pairs
        Origins, as numbers of windows seen, and how many windows ahead; shape (origins,) each.
    totals
        Of the windows that are forecast, shape (origins,).
    values
        Shrinkage, 1 - discount, dispersion, volatility.
    """
    shrinkage, lost, dispersion, volatility = values
    origins, aheads = pairs
    ages = origins[:, None] - np.arange(len(windows)) - 1
    weights = np.where(ages >= 0, (1 - lost) ** np.maximum(ages, 0), 0.0)
    mean = weights @ windows + shrinkage
    mean *= (totals / mean.sum(axis=1))[:, None]
    known = (weights**2).sum(axis=1) / weights.sum(axis=1) ** 2
    unknown = 1 + known + aheads * lost**2 / (1 - lost)
    moved = volatility * mean**2 * (unknown + GROWTH * aheads)[:, None]
    return mean, dispersion * mean * unknown[:, None] + moved


def _log_density(counts: Floats, mean: Floats, variance: Floats) -> Floats:
    """Return log f of the double Poisson distribution without its constant; Efron (2.10).

    theta = mean / variance; log f = log(theta)/2 - theta mean + theta l (1 + log mean - log l)
    + log(l^l e^-l / l!).
    """
    theta = mean / variance
    own = xlogy(counts, counts) - counts
    return np.asarray(
        0.5 * np.log(theta)
        + theta * (counts * np.log(mean) - mean - own)
        + own
        - gammaln(counts + 1)
    )


def _log_constant(mean: Floats, variance: Floats) -> Floats:
    """Return the logarithm of the sum of f over all counts, approximately; Efron (2.9)."""
    theta = mean / variance
    more = (1 - theta) / (12 * mean * theta) * (1 + 1 / (mean * theta))
    return np.asarray(np.log1p(np.maximum(more, -0.5)))


def _to_total(drawn: Floats, totals: Ints, start: Floats) -> Ints:
    """Return whole counts with the given sums, by systematic rounding of what was drawn."""
    positive = np.maximum(drawn, 0.0)
    sums = positive.sum(axis=1)
    positive[sums == 0] = 1.0
    scaled = positive * (totals / positive.sum(axis=1))[:, None]
    ends = np.floor(rounded(np.cumsum(scaled, axis=1) + start[:, None]) + 1e-9)
    ends[:, -1] = totals
    counts: Ints = np.diff(ends, axis=1, prepend=0.0).astype(np.int64)
    return np.maximum(counts, 0)


@dataclass(frozen=True)
class CostCurve:
    """A cost in ns by tokens, for all experts of a layer.

    Attributes
    ----------
    tokens, ns
        The points, by rising tokens, shape (points,).
    factor
        Of each expert, shape (experts,): 1 where the cost depends on tokens alone.
    quantum_ns
        Costs are whole multiples of this.
    """

    tokens: Floats
    ns: Floats
    factor: Floats
    quantum_ns: int

    @classmethod
    def of(cls, tokens: ArrayLike, ns: ArrayLike, quantum_ns: int | None = None) -> "CostCurve":
        """Return the curve through what an instance states.

        Where experts with equally many tokens have different costs, the curve is their mean, and
        each expert's factor the ratio of its own costs to it.

        Parameters
        ----------
        tokens, ns
            Shape (windows, experts); entries without tokens mean nothing.
        """
        counts, costs = np.asarray(tokens, np.int64), np.asarray(ns, np.float64)
        active = counts > 0
        points, which, times = np.unique(counts[active], return_inverse=True, return_counts=True)
        mean = np.bincount(which, costs[active]) / times
        factor = np.ones(counts.shape[1])
        if np.any(mean[which] != costs[active]):
            expert = np.nonzero(active)[1]
            own = np.bincount(expert, costs[active], len(factor))
            of_curve = np.bincount(expert, mean[which], len(factor))
            factor = np.divide(own, of_curve, out=factor, where=of_curve > 0)
        return cls(points.astype(np.float64), mean, factor, quantum_ns or 1)

    def __call__(self, tokens: ArrayLike) -> Ints:
        """Return costs in ns, shape (..., experts) as `tokens`; 0 where there are none."""
        counts = np.asarray(tokens, np.float64)
        x, y = self.tokens, self.ns
        costs = np.interp(counts, x, y)
        rising = np.interp(x[-1] / 2, x, y), np.interp(2 * x[0], x, y)
        above = max(0.0, y[-1] - rising[0]) / (x[-1] - max(x[-1] / 2, x[0])) if len(x) > 1 else 0.0
        below = max(0.0, rising[1] - y[0]) / (min(2 * x[0], x[-1]) - x[0]) if len(x) > 1 else 0.0
        costs += above * np.maximum(counts - x[-1], 0) - below * np.maximum(x[0] - counts, 0)
        quanta = np.rint(rounded(np.maximum(costs, 0) * self.factor / self.quantum_ns))
        return np.where(counts > 0, quanta.astype(np.int64) * self.quantum_ns, 0)
