"""Fitting the terms of a token's time to measured speeds."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Vector = NDArray[np.float64]


def fit_costs(
    rows: NDArray[np.float64],
    measured_us: Vector,
    expected_log: Vector,
    spread: Vector,
    noise: float,
    weights: Vector | None = None,
) -> Vector:
    """Return the most probable costs of the terms.

    Parameters
    ----------
    rows
        (points, terms): what each point needs of each term (`amounts`).
    measured_us
        (points,): measured time of a token.
    expected_log, spread
        (terms,): logarithms of the expected costs, and how uncertain they are.
    noise
        Relative error of a point that is not to be explained, e.g. 0.12 between machines.
    weights
        (points,): e.g. less for points of one machine that say the same; by default 1.

    Returns
    -------
    (terms,) array
        Costs c with measured ~ rows @ c.

    Notes
    -----
    A posterior mode: normal in the logarithms of the costs, and in the logarithms of the times with
    a soft absolute loss (2 (sqrt(1 + r^2) - 1) of the scaled residual r), so that no single point
    decides. What the points say nothing about stays as expected.
    """
    target = np.log(measured_us)
    share = np.ones(len(target)) if weights is None else np.sqrt(weights)

    def residuals(log_costs: Vector) -> Vector:
        scaled = (np.log(rows @ np.exp(log_costs)) - target) / noise
        robust = np.sign(scaled) * np.sqrt(2.0 * (np.sqrt(1.0 + scaled**2) - 1.0))
        return np.concatenate([share * robust, (log_costs - expected_log) / spread])

    found = least_squares(residuals, expected_log, method="trf", x_scale=spread)
    return np.asarray(np.exp(found.x))


def group_weights(groups: Sequence[str]) -> Vector:
    """Return a weight per point: a group of n points weighs as much as the root of n points."""
    counts = {name: groups.count(name) for name in groups}
    return np.array([counts[name] ** -0.5 for name in groups])
