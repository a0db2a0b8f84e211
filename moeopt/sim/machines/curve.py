"""Quantities that depend on the tokens per expert: rates of a device, measured times."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, field_error
from moeopt.core.rounding import rounded

Device = Literal["gpu", "cpu", "ndp", "pcie"]
"""What a time table can be about."""

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

    def __call__(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the value at each token count."""
        x, y = np.array(self.points, dtype=float).T
        at = np.asarray(tokens, dtype=float)
        if self.scale == "linear":
            return rounded(np.interp(at, x, y))
        log = np.interp(np.log(np.maximum(at, 1e-9)), np.log(x), np.log(y))
        return rounded(np.exp(log))


class TimeTable(Frozen):
    """Measured times of one expert of a model on one kind of device.

    Straight between the measured token counts, flat below the first; above the last the last slope
    goes on, unless it falls.

    Parameters
    ----------
    model
        Name of the model shape whose experts were measured.
    device
        What was measured: computation on the "gpu" with the weights in its memory, on the "cpu" or
        on an "ndp" unit, or the transfer of the weights to the GPU over "pcie".
    points
        (tokens, ns), tokens rising, at least two.
    source
        Machine, date and command of the measurement.
    threads
        CPU threads that computed, where a machine was measured with several numbers of them.
    bits_per_weight
        Width of the weights, if not the model's own 8 x `bytes_per_weight`.
    """

    model: str
    device: Device
    points: Annotated[tuple[Point, ...], Field(min_length=2, max_length=10_000)]
    source: str
    threads: Annotated[int, Field(strict=True, ge=1, le=65536)] | None = None
    bits_per_weight: Width | None = None

    _tokens_rise = field_validator("points")(_rising)

    def __call__(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the time in ns at each token count, never below 0."""
        x, y = np.array(self.points, dtype=float).T
        at = np.asarray(tokens, dtype=float)
        slope = max((y[-1] - y[-2]) / (x[-1] - x[-2]), 0.0)
        beyond = np.maximum(at - x[-1], 0) * slope
        return rounded(np.maximum(np.interp(at, x, y) + beyond, 0.0))
