"""Fitting the terms of a token's time to measured speeds."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from moeopt.sim.machines.runtimes.terms import term_times

Vector = NDArray[np.float64]
Rows = NDArray[np.float64]

NOISE = 0.1
"""Relative error of a point that nothing is to explain, within a machine."""

MACHINES = 0.2
"""Standard deviation of a machine's own factor: of its logarithm, expected beforehand."""

RUNTIMES = 0.2
"""How much a runtime's costs differ from those of all runtimes: sd of the logarithm."""


def fit_costs(
    rows: Rows, measured_us: Vector, expected_log: Vector, spread: Vector, noise: float
) -> Vector:
    """Return the most probable costs of the terms on one machine.

    Parameters
    ----------
    rows
        (points, terms): what each point needs of each term (`amounts`).
    measured_us
        (points,): measured time of a token.
    expected_log, spread
        (terms,): logarithms of the expected costs, and how uncertain they are.
    noise
        Relative error of a point that is not to be explained.

    Returns
    -------
    (terms,) array
        Costs c with measured ~ `token_us` (rows, c).

    Notes
    -----
    A posterior mode: normal in the logarithms of the costs, and in the logarithms of the times with
    a soft absolute loss (2 (sqrt(1 + r^2) - 1) of the scaled residual r), so that no single point
    decides. What the points say nothing about stays as expected.
    """
    target = np.log(measured_us)

    def both(log_costs: Vector) -> tuple[Vector, Rows]:
        times = term_times(rows, np.exp(log_costs))
        total = times.sum(axis=1)
        value, slope = soft((np.log(total) - target) / noise)
        shares = times / total[:, None] * (slope / noise)[:, None]
        residuals = np.concatenate([value, (log_costs - expected_log) / spread])
        return residuals, np.vstack([shares, np.diag(1.0 / spread)])

    def residuals(x: Vector) -> Vector:
        return both(x)[0]

    def jacobian(x: Vector) -> Rows:
        return both(x)[1]

    found = least_squares(residuals, expected_log, jac=jacobian, method="trf", x_scale=spread)
    return np.asarray(np.exp(found.x))


def soft(scaled: Vector) -> tuple[Vector, Vector]:
    """Return residuals whose squares are the soft absolute loss, and their derivatives."""
    root = np.sqrt(1.0 + scaled**2)
    value = np.sign(scaled) * np.sqrt(2.0 * (root - 1.0))
    steep = np.abs(scaled) > 1e-6
    slope = np.where(steep, np.abs(scaled) / root / np.where(steep, np.abs(value), 1.0), 1.0)
    return value, slope
