"""Quantities that depend on the tokens per expert: rates of a device, measured times."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, field_error
from moeopt.core.rounding import rounded
from moeopt.sim.machines.about import about

Point = tuple[
    Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)],
    Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)],
]

Width = Annotated[float, Field(strict=True, ge=0.5, le=64, allow_inf_nan=False)]


def _rising(points: tuple[Point, ...]) -> tuple[Point, ...]:
    for row in range(1, len(points)):
        if points[row][0] <= points[row - 1][0]:
            raise field_error([row, 0], "must be above the tokens of the point before")
    return points


class Curve(Frozen):
    """A rate that depends on the tokens per expert: straight between points, flat outside.

    Parameters
    ----------
    scale
        Whether the straight lines are drawn on linear or on log-log axes.
    points
        (tokens, value), tokens rising.
    """

    scale: Literal["linear", "log-log"]
    points: Annotated[tuple[Point, ...], Field(min_length=1, max_length=10_000)]

    _tokens_rise = field_validator("points")(_rising)

    @field_validator("points")
    @classmethod
    def _rates_are_positive(
        cls, points: tuple[Point, ...], info: ValidationInfo
    ) -> tuple[Point, ...]:
        log = info.data.get("scale") == "log-log"
        from_zero = not log and points[0][0] == 0 and len(points) > 1
        for row, (tokens, value) in enumerate(points):
            if log and tokens == 0:
                raise field_error([row, 0], "must be above 0 on log-log axes")
            if value == 0 and (row > 0 or not from_zero):
                raise field_error([row, 1], "must be above 0, except at 0 tokens on linear axes")
        return points

    def scaled(self, share: float) -> Self:
        """Return the curve with values so many times as large."""
        points = tuple((tokens, value * share) for tokens, value in self.points)
        return self.model_copy(update={"points": points})

    def __call__(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the value at each token count."""
        x, y = np.array(self.points, dtype=float).T
        at = np.asarray(tokens, dtype=float)
        if len(self.points) == 1:  # nothing is interpolated
            return np.full(at.shape, self.points[0][1])
        if self.scale == "linear":
            return rounded(np.interp(at, x, y))
        log = np.interp(np.log(np.maximum(at, 1e-9)), np.log(x), np.log(y))
        return rounded(np.exp(log))


class TimeTable(Frozen):
    """Measured times of one expert of a model: computing it on a device, or moving its weights.

    Straight between the measured token counts, flat below the first; above the last the last slope
    goes on, unless it falls.
    """

    model: str = about("model shape whose experts were measured")
    at: tuple[str, str] = about(
        "device and what computes there (`gpu0`, `gpu`), with the weights in its memory; or the two"
        " ends of a link over which the weights move"
    )
    points: Annotated[tuple[Point, ...], Field(min_length=2, max_length=10_000)] = about(
        "[tokens, time] of one expert, tokens rising", unit="tokens, ns", find="`moeopt profile`"
    )
    source: str = about("machine, date and command of the measurement")
    threads: Annotated[int, Field(strict=True, ge=1, le=65536)] | None = about(
        "CPU threads that computed", unit="threads", absent="not stated", default=None
    )
    bits_per_weight: Width | None = about(
        "width of the weights", unit="bits", absent="the model's own", default=None
    )

    @property
    def key(self) -> tuple[object, ...]:
        """What no second table of a machine may have."""
        return self.model, self.at, self.threads, self.bits_per_weight

    @property
    def is_link(self) -> bool:
        """Whether it is about moving weights."""
        return self.at[1] not in ("gpu", "cpu", "ndp")

    _tokens_rise = field_validator("points")(_rising)

    def __call__(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the time in ns at each token count, never below 0."""
        x, y = np.array(self.points, dtype=float).T
        at = np.asarray(tokens, dtype=float)
        slope = max((y[-1] - y[-2]) / (x[-1] - x[-2]), 0.0)
        beyond = np.maximum(at - x[-1], 0) * slope
        return rounded(np.maximum(np.interp(at, x, y) + beyond, 0.0))
