"""Two effects of a machine, on GPU and host, and those of a model on it: how large each is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from benchmarks.measured.points import MeasuredPoint
from benchmarks.rooms.sim import ON_HOST, TERMS, amounts, term_times, token_us
from moeopt import InputError

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Held:
    """A prediction of a point that was held out.

    Attributes
    ----------
    tokens_per_s
        Predicted.
    factor
        Of the 80 % interval around it, where it has one of its own.
    """

    point: MeasuredPoint
    tokens_per_s: float
    factor: float = 1.0

    @property
    def inside(self) -> bool:
        """Whether what was measured lies in the interval."""
        return abs(self.log_error) <= np.log(self.factor)

    @property
    def log_error(self) -> float:
        """Logarithm of predicted over measured."""
        return float(np.log(self.tokens_per_s / self.point.tokens_per_s))

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.tokens_per_s / self.point.tokens_per_s - 1.0


def needs(point: MeasuredPoint) -> Vector:
    """Return what a point needs of the terms."""
    if point.setting is None:
        raise InputError(f"{point.machine} {point.knob} {point.value}: cannot be expressed")
    found = amounts(point.setting, point.host_calls)
    found[BETWEEN_GPUS] = point.between_gpus
    return found


BETWEEN_GPUS = [TERMS.index("later_layer_us"), TERMS.index("gpu_hop_us")]


def predicted(point: MeasuredPoint, costs: Vector) -> Held:
    """Predict a point by the costs of the terms."""
    return Held(point, 1e6 / float(token_us(needs(point), costs)))


BEFORE = 0.15
"""Standard deviation expected of each effect before any point is seen, within a factor of e."""

NOISE = 0.05
"""The same of a point's own error."""

TAILS = 4.0
"""Degrees of freedom of Student's law of a machine's points: three machines are off by a factor."""


HALF = 0.6745
"""Half of a normal law lies within so many standard deviations."""


@dataclass(frozen=True)
class Effects:
    """Standard deviations of logarithms of a token's time.

    Attributes
    ----------
    machine, model
        (2,): of what a machine, and a model on it, does to the time on GPU and on host.
    noise
        Of a point's own.
    """

    machine: Vector
    model: Vector
    noise: float

    @classmethod
    def of(cls, points: Sequence[MeasuredPoint], costs: dict[str, Vector]) -> Self:
        """Return the most probable ones, from what costs by runtime leave of some points."""
        groups = {}
        for name in dict.fromkeys(point.machine for point in points):
            own = [point for point in points if point.machine == name]
            shares, left = zip(*(_left(point, costs[point.runtime]) for point in own), strict=True)
            groups[name] = np.array(shares), np.array(left), [point.model for point in own]
        before = np.log([BEFORE] * 4 + [NOISE])

        def unlikely(logs: Vector) -> float:
            """Return minus the logarithm of the probability, but for a constant."""
            effects, cost = cls._from(logs), 0.5 * float(((logs - before) ** 2).sum())
            for shares, left, models in groups.values():
                root = np.linalg.cholesky(effects.covariance(shares, models))
                squares = float((np.linalg.solve(root, left) ** 2).sum())
                cost += (TAILS + len(left)) / 2 * np.log1p(squares / TAILS)
                cost += float(np.log(np.diag(root)).sum())
            return cost

        return cls._from(minimize(unlikely, before, method="L-BFGS-B").x)

    @classmethod
    def _from(cls, logs: Vector) -> Self:
        found = np.exp(logs)
        return cls(found[:2], found[2:4], float(found[4]))

    def covariance(self, shares: Vector, models: Sequence[str]) -> Vector:
        """Return the covariance of a machine's points, by their shares on GPU and host."""
        names = np.array(models)
        alike = names[:, None] == names[None, :]
        machine = (shares * self.machine**2) @ shares.T
        model = (shares * self.model**2) @ shares.T * alike
        return np.asarray(machine + model + self.noise**2 * np.eye(len(names)))

    def known_from(self, points: Sequence[MeasuredPoint], costs: Vector) -> tuple[Vector, Vector]:
        """Return a machine's two effects after some points of it, and their covariance."""
        shares, left = (np.array(x) for x in zip(*(_left(p, costs) for p in points), strict=True))
        covariance = self.covariance(shares, [point.model for point in points])
        gain = self.machine[:, None] ** 2 * np.linalg.solve(covariance, shares).T
        return gain @ left, np.diag(self.machine**2) - gain @ shares * self.machine**2

    def predicted(
        self, points: Sequence[MeasuredPoint], known: Sequence[MeasuredPoint], costs: Vector
    ) -> list[Held]:
        """Predict points of a machine by its effects, from known points of other models there."""
        machine, _ = self.known_from(known, costs)
        speeds = [predicted(point, costs).tokens_per_s for point in points]
        slower = [float(np.exp(_left(point, costs)[0] @ machine)) for point in points]
        return [Held(p, v / s) for p, v, s in zip(points, speeds, slower, strict=True)]

    def expected_errors(
        self, points: Sequence[MeasuredPoint], known: Sequence[MeasuredPoint], costs: Vector
    ) -> list[float]:
        """Return the size below which half of the errors should be, point by point.

        Without `known` the machine is known exactly.
        """
        own = self.known_from(known, costs)[1] if known else np.zeros((2, 2))
        shares = [_left(point, costs)[0] for point in points]
        spread = own + np.diag(self.model**2)
        return [HALF * float(np.sqrt(s @ spread @ s + self.noise**2)) for s in shares]


def _left(point: MeasuredPoint, costs: Vector) -> tuple[Vector, float]:
    """Return the shares of a token's time on GPU and host, and the logarithm that costs leave."""
    times = term_times(needs(point), costs)
    total = float(times.sum())
    host = float(times[ON_HOST].sum()) / total
    return np.array([1.0 - host, host]), float(np.log(1e6 / point.tokens_per_s / total))
