"""One fit of a runtime's terms to many machines, each with a factor of its own."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import least_squares

from benchmarks.rooms.sim import OF_RUNTIMES, OVERLAP, TERMS, Rows, Vector, soft, term_times

NOISE = 0.1
"""Relative error of a point that nothing is to explain, within a machine."""

MACHINES = 0.2
"""Standard deviation of a machine's own factor: of its logarithm, expected beforehand."""

RUNTIMES = 0.2
"""How much a runtime's costs differ from those of all runtimes: sd of the logarithm."""


@dataclass(frozen=True)
class Together:
    """Costs fitted to the points of many machines and several runtimes.

    Attributes
    ----------
    costs
        Runtime -> (terms,) costs.
    machines
        Machine -> logarithm of the factor by which its tokens are slower than the terms say.
    common_log
        (terms,): what all runtimes share; a start for another fit.
    """

    costs: dict[str, Vector]
    machines: dict[str, float]
    common_log: Vector


def fit_together(
    rows: Rows,
    measured_us: Vector,
    labels: Sequence[tuple[str, str]],
    expected: tuple[Vector, Vector],
    start: Vector | None = None,
    overlap: float = OVERLAP,
) -> Together:
    """Fit the terms to many machines, each with a factor of its own.

    Parameters
    ----------
    rows, measured_us
        (points, terms) and (points,).
    labels
        Runtime and machine of each point.
    expected
        (terms,) logarithms of the expected costs, and how uncertain they are.
    start
        (terms,): where to begin; by default at what is expected.
    overlap
        How reads and computing overlap.

    Notes
    -----
    log time = log `token_us` + machine's factor + noise: a mixed model, whose random effect takes
    what all points of a machine have in common, so that 40 points of one machine weigh hardly more
    than 5. Terms of `OF_RUNTIMES` have an offset per runtime. Posterior mode, with the loss of
    `fit_costs` for points and machines.
    """
    expected_log, spread = expected
    runtimes = list(dict.fromkeys(runtime for runtime, _ in labels))
    machines = list(dict.fromkeys(machine for _, machine in labels))
    runtime_of = np.array([runtimes.index(runtime) for runtime, _ in labels])
    machine_of = np.array([machines.index(machine) for _, machine in labels])
    own = np.array([TERMS.index(term) for term in OF_RUNTIMES])
    terms, points = len(TERMS), len(labels)
    offsets = len(runtimes) * len(own)
    unknowns = terms + offsets + len(machines)
    target = np.log(measured_us)

    def split(x: Vector) -> tuple[Rows, Vector]:
        logs = np.tile(x[:terms], (len(runtimes), 1))
        logs[:, own] += x[terms : terms + offsets].reshape(len(runtimes), len(own))
        return logs, x[terms + offsets :]

    def both(x: Vector) -> tuple[Vector, Rows]:
        logs, factors = split(x)
        times = term_times(rows, np.exp(logs[runtime_of]), overlap)
        total = times.sum(axis=1)
        value, slope = soft((np.log(total) + factors[machine_of] - target) / NOISE)
        slope = slope / NOISE
        alike, alike_slope = soft(factors / MACHINES)
        prior = (x[:terms] - expected_log) / spread, x[terms : terms + offsets] / RUNTIMES
        jacobian = np.zeros((points + unknowns, unknowns))
        shares = times / total[:, None] * slope[:, None]
        jacobian[:points, :terms] = shares
        for number in range(len(runtimes)):
            first = terms + number * len(own)
            mine = (runtime_of == number)[:, None]
            jacobian[:points, first : first + len(own)] = shares[:, own] * mine
        jacobian[np.arange(points), terms + offsets + machine_of] = slope
        scale = [1.0 / spread, np.full(offsets, 1.0 / RUNTIMES), alike_slope / MACHINES]
        jacobian[points:] = np.diag(np.concatenate(scale))
        return np.concatenate([value, *prior, alike]), jacobian

    first = np.zeros(unknowns)
    first[:terms] = expected_log if start is None else start

    def residuals(x: Vector) -> Vector:
        return both(x)[0]

    def slopes(x: Vector) -> Rows:
        return both(x)[1]

    found = least_squares(
        residuals,
        first,
        jac=slopes,
        x_scale="jac",
        ftol=1e-6,
        xtol=1e-6,
        max_nfev=100,
    ).x
    logs, factors = split(found)
    return Together(
        costs=dict(zip(runtimes, np.exp(logs), strict=True)),
        machines=dict(zip(machines, factors.tolist(), strict=True)),
        common_log=found[:terms],
    )
