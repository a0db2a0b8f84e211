"""One fit of a runtime's terms to many machines, each with effects of its own on GPU and host."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchmarks.rooms.sim import (
    FACTORS,
    OF_RUNTIMES,
    ON_HOST,
    TERMS,
    Rows,
    Vector,
    prior,
    soft,
    term_times,
)

RUNTIMES = ("llama.cpp", "ik_llama.cpp", "ktransformers")

OWN = np.array([TERMS.index(term) for term in OF_RUNTIMES])
"""Terms with an offset for each runtime."""

IS_FACTOR = np.isin(np.arange(len(TERMS)), [factor for factor, _ in FACTORS])

RUNTIME_SPREAD = 0.2
"""How much a runtime's costs differ from those of all runtimes: sd of the logarithm."""

NOTHING_LOG = -20.0
"""Logarithm of the cost of a term that is left out."""

MOST_STEPS = 60
SMALL_STEP = 3e-3
"""Of what is uncertain beforehand: smaller steps are none."""


@dataclass(frozen=True)
class Form:
    """A way to count, and what is expected before any point is seen.

    Attributes
    ----------
    without
        Terms left out: no cost, or a factor of 1.
    expected
        Term -> expected cost and spread, in place of those of terms.toml.
    loose
        The spreads of terms that are no factors are multiplied by this.
    machines
        Standard deviations of a machine's effects on GPU and host.
    noise
        Relative error of a point that nothing is to explain, within a machine.
    """

    name: str
    without: tuple[str, ...] = ()
    expected: tuple[tuple[str, float, float], ...] = ()
    loose: float = 1.0
    machines: tuple[float, float] = (0.15, 0.2)
    noise: float = 0.1

    def prior(self) -> tuple[Vector, Vector]:
        """Return the logarithms of the expected costs, and their spreads."""
        expected, spread = prior()
        spread = np.where(IS_FACTOR, spread, self.loose * spread)
        for name, value, wide in self.expected:
            expected[TERMS.index(name)] = np.log(value)
            spread[TERMS.index(name)] = wide
        return expected, spread

    def rows(self, rows: Rows) -> Rows:
        """Return what points need of the terms that are counted."""
        left = rows.copy()
        left[:, [TERMS.index(name) for name in self.without]] = 0.0
        return left


@dataclass(frozen=True)
class Points:
    """What points need of each term, what they took, and where.

    Attributes
    ----------
    rows, us
        (points, terms) and (points,).
    runtime, machine
        (points,): numbers of `RUNTIMES`, and of machines.
    machines
        How many machines there are, those without points included.
    """

    rows: Rows
    us: Vector
    runtime: NDArray[np.int64]
    machine: NDArray[np.int64]
    machines: int

    def of(self, kept: NDArray[np.bool_]) -> "Points":
        """Return some of the points."""
        columns = (self.rows, self.us, self.runtime, self.machine)
        return Points(*(column[kept] for column in columns), self.machines)


@dataclass(frozen=True)
class Fitted:
    """The most probable costs, and how uncertain they are.

    Attributes
    ----------
    logs
        (runtimes, terms): logarithms of the costs.
    covariance
        (runtimes, terms, terms): of each runtime's logarithms.
    effects
        (machines, 2): logarithms of factors on GPU and host; 0 of machines without points.
    unknowns
        (unknowns,): a start for another fit.
    """

    logs: Rows
    covariance: NDArray[np.float64]
    effects: Rows
    unknowns: Vector


def fit(points: Points, form: Form, start: Vector | None = None) -> Fitted:
    """Fit the terms to many machines, each with two effects of its own.

    Parameters
    ----------
    start
        `Fitted.unknowns` of a fit to points of the same machines; by default what is expected.

    Notes
    -----
    log time = log (GPU's terms x effect on GPU + host's terms x effect on host) + noise: a mixed
    model, in which 40 points of one machine weigh hardly more than 5. Terms of `OF_RUNTIMES` have
    an offset for each runtime. Posterior mode, normal in all logarithms, with the soft absolute
    loss for points; its covariance is that of the quadratic around it.
    """
    expected, spread = form.prior()
    terms, machines = len(TERMS), points.machines
    offsets = len(RUNTIMES) * len(OWN)
    rows, target = form.rows(points.rows), np.log(points.us)
    scale = np.concatenate(
        [
            spread,
            np.full(offsets, RUNTIME_SPREAD),
            np.full(machines, form.machines[0]),
            np.full(machines, form.machines[1]),
        ]
    )
    middle = np.concatenate([expected, np.zeros(offsets + 2 * machines)])
    spread_out = _offsets(terms, offsets, len(middle))
    each = np.arange(len(target))
    gpu_at, host_at = terms + offsets + points.machine, terms + offsets + machines + points.machine

    def model(x: Vector, slopes: bool) -> tuple[Vector, Rows | None, Vector]:
        costs = np.exp(spread_out @ x)[points.runtime]
        times = term_times(rows, costs)
        times *= np.exp(np.where(ON_HOST, x[host_at][:, None], x[gpu_at][:, None]))
        total = times.sum(axis=1)
        value, slope = soft((np.log(total) - target) / form.noise)
        alike, alike_slope = soft(x[terms + offsets :] / scale[terms + offsets :])
        plain = ((x - middle) / scale)[: terms + offsets]
        residuals = np.concatenate([value, plain, alike])
        own = np.concatenate(
            [1.0 / scale[: terms + offsets], alike_slope / scale[terms + offsets :]]
        )
        if not slopes:
            return residuals, None, own
        shares = times / total[:, None]
        for factor, of in FACTORS:
            shares[:, factor] = shares[:, of].sum(axis=1) * rows[:, factor]
        by_term = np.zeros((len(target), len(middle)))
        for number in range(len(RUNTIMES)):
            mine = points.runtime == number
            by_term[mine] = shares[mine] @ spread_out[number]
        by_term[each, host_at] = shares[:, ON_HOST].sum(axis=1)
        by_term[each, gpu_at] = shares[:, ~ON_HOST & ~IS_FACTOR].sum(axis=1)
        return residuals, by_term * (slope / form.noise)[:, None], own

    x = middle.copy() if start is None else start
    residuals, jacobian, own = model(x, True)
    damping = 1e-3
    for _ in range(MOST_STEPS):
        assert jacobian is not None
        normal = jacobian.T @ jacobian + np.diag(own**2)
        down = jacobian.T @ residuals[: len(target)] + own * residuals[len(target) :]
        step = -np.linalg.solve(normal + damping * np.diag(np.diag(normal)), down)
        cost = float(residuals @ residuals)
        tried, _, _ = model(x + step, False)
        if float(tried @ tried) <= cost:
            x, damping = x + step, damping / 10
            done = float(np.abs(step / scale).max()) < SMALL_STEP
            residuals, jacobian, own = model(x, True)
            if done:
                break
        else:
            damping *= 10
            if damping > 1e6:
                break
    assert jacobian is not None
    everything = np.linalg.inv(jacobian.T @ jacobian + np.diag(own**2))
    logs = spread_out @ x
    left_out = [TERMS.index(name) for name in form.without]
    logs[:, left_out] = np.where(IS_FACTOR[left_out], 0.0, NOTHING_LOG)
    return Fitted(
        logs=logs,
        covariance=spread_out @ everything @ spread_out.transpose(0, 2, 1),
        effects=np.column_stack([x[terms + offsets : terms + offsets + machines], x[-machines:]]),
        unknowns=x,
    )


def _offsets(terms: int, offsets: int, unknowns: int) -> NDArray[np.float64]:
    """Return (runtimes, terms, unknowns): logarithms of costs from what is fitted."""
    found = np.zeros((len(RUNTIMES), terms, unknowns))
    found[:, np.arange(terms), np.arange(terms)] = 1.0
    for number in range(len(RUNTIMES)):
        first = terms + number * len(OWN)
        found[number, OWN, first + np.arange(len(OWN))] = 1.0
    return found
