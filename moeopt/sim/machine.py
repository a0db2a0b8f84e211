"""Machines: what computes, what stores and what connects them, in units that stand in the names."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.problems.envelope import Frozen, field_error

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
Point = tuple[
    Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)],
    Annotated[float, Field(strict=True, ge=0, le=1e12, allow_inf_nan=False)],
]


class Curve(Frozen):
    """A quantity that depends on the tokens per expert: straight between points, flat outside.

    Parameters
    ----------
    scale
        Whether the straight lines are drawn on linear or on log-log axes.
    points
        (tokens, value), tokens rising.
    """

    scale: Literal["linear", "log-log"]
    points: Annotated[tuple[Point, ...], Field(min_length=1, max_length=10_000)]

    @field_validator("points")
    @classmethod
    def _tokens_rise(cls, points: tuple[Point, ...]) -> tuple[Point, ...]:
        for row in range(1, len(points)):
            if points[row][0] <= points[row - 1][0]:
                raise field_error([row, 0], "must be above the tokens of the point before")
        return points

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
            return np.asarray(np.interp(at, x, y))
        log = np.interp(np.log(np.maximum(at, 1e-9)), np.log(x), np.log(y))
        return np.asarray(np.exp(log))


class Gpu(Frozen):
    """A GPU; `utilization` is the fraction of its peak reached at a number of tokens per expert."""

    name: str
    peak_tflops: Positive
    hbm_gb_s: Positive
    hbm_gb: Positive
    utilization: Curve


class Cpu(Frozen):
    """A CPU; `tflops` is what its kernels reach at a number of tokens per expert."""

    name: str
    tflops: Curve


class Dram(Frozen):
    """Host memory: reading a striped expert uses all DIMMs, a localized one only its own."""

    dimms: Annotated[int, Field(strict=True, ge=1, le=1024)]
    striped_gb_s: Positive
    localized_gb_s: Positive


class Ndp(Frozen):
    """The near-data-processing unit of one DIMM."""

    gflops: Positive
    internal_gb_s: Positive


class Machine(Frozen):
    """A machine, with the source of every number in `sources` (field path -> where it stands)."""

    name: str
    gpu: Gpu
    cpu: Cpu
    dram: Dram
    ndp: Ndp
    pcie_gb_s: Positive
    sources: dict[str, str]
