"""Which experts to put on the GPU: ktransformers' strategies as measured and as predicted.

Four GPUs in tensor parallel cannot be expressed, so the level is calibrated on two points, none and
all experts on the GPU; what is compared is the order of the strategies in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.measured.crossvalidation import calibrated
from benchmarks.measured.effects import predicted
from benchmarks.measured.points import STRATEGY, MeasuredPoint, number_in
from benchmarks.rooms.core import read_object
from benchmarks.rooms.sim import as_vector, get_runtime
from moeopt import InputError

CALIBRATED_ON = "front-loading"

BY_COUNT = "frequency"

Shares = tuple[float, float]

TIE = 1e-9
"""Predicted speeds that differ by less, relatively, are equal."""


@dataclass(frozen=True)
class AtRatio:
    """The strategies at one share of experts on the GPU.

    Attributes
    ----------
    percent
        Experts on the GPU, of all.
    measured, predicted
        Strategy -> tokens/s.
    """

    percent: float
    measured: dict[str, float]
    predicted: dict[str, float]

    def pairs(self, apart: float = 0.0) -> tuple[int, int, int]:
        """Count pairs of strategies that the model orders as measured, the other way, not at all.

        Parameters
        ----------
        apart
            Pairs are left out unless their measured speeds differ by more than this, relatively.
        """
        alike = opposed = tied = 0
        for one, other in combinations(self.measured, 2):
            there = self.measured[one] / self.measured[other]
            if abs(np.log(there)) <= np.log1p(apart):
                continue
            ours = self.predicted[one] / self.predicted[other]
            if abs(ours - 1.0) < TIE:
                tied += 1
            elif (ours > 1.0) == (there > 1.0):
                alike += 1
            else:
                opposed += 1
        return alike, opposed, tied

    def over(self, one: str, other: str) -> tuple[float, float]:
        """Return by how much a strategy is faster than another, as measured and as predicted."""
        there, ours = self.measured, self.predicted
        return there[one] / there[other] - 1.0, ours[one] / ours[other] - 1.0

    def off(self, strategy: str) -> float:
        """Return predicted over measured, less 1."""
        return self.predicted[strategy] / self.measured[strategy] - 1.0

    @property
    def kendall_tau(self) -> float:
        """Kendall's tau-b of the two orders: 1 if they are alike, -1 if reversed.

        Measured speeds have no ties.
        """
        alike, opposed, tied = self.pairs()
        pairs = alike + opposed + tied
        return (alike - opposed) / float(np.sqrt(pairs * (alike + opposed) or 1))


@dataclass(frozen=True)
class Strategies:
    """All ratios.

    Attributes
    ----------
    ratios
        Ascending; without those at which all strategies are one.
    noise
        How far apart, relatively, the same setting was measured: the strategies with no expert and
        with all experts on the GPU.
    error
        Median error in size of the predicted speeds.
    source
        Where the popularity of experts comes from.
    implied
        Percent -> share of calls on the GPU with which frequency is predicted as fast as measured,
        and the one by `popularity`.
    """

    ratios: tuple[AtRatio, ...]
    noise: float
    error: float
    source: str
    implied: dict[float, tuple[float, float]]

    def median_error(self, strategy: str) -> float:
        """Return the median of predicted over measured, less 1."""
        return float(np.median([at.off(strategy) for at in self.ratios if strategy in at.measured]))

    def at(self, percent: float) -> AtRatio:
        """Return the strategies at a share of experts on the GPU."""
        return next(at for at in self.ratios if at.percent == percent)

    def gains(self, within: float) -> tuple[dict[float, Shares], dict[float, Shares]]:
        """Return frequency over uniform by percent, measured and predicted: near, and not."""
        found = {at.percent: at.over(BY_COUNT, "uniform") for at in self.ratios}
        near = {
            percent: both for percent, both in found.items() if abs(both[0] - both[1]) <= within
        }
        return near, {percent: found[percent] for percent in found if percent not in near}

    def pairs(self, apart: float = 0.0) -> tuple[int, int, int]:
        """Return the sum of all ratios' pairs: alike, opposed, tied in the model."""
        alike, opposed, tied = (
            sum(counts) for counts in zip(*(at.pairs(apart) for at in self.ratios), strict=True)
        )
        return alike, opposed, tied


def compare_strategies(
    points: Sequence[MeasuredPoint], profile: NDArray[np.float64] | None = None
) -> Strategies | None:
    """Predict the strategies after a calibration on the ends of front-loading.

    Random and uniform choices get calls as they get experts. The others need the popularity of
    experts, which was not published with the speeds: it is that of another model (popularity.json).

    Returns
    -------
    Strategies
        None if the points have no strategies, or not both ends.
    """
    own = [p for p in points if p.knob.startswith(STRATEGY) and p.machine]
    own = [p for p in own if _of(p) == _of(own[0])]
    of_front = {_percent(p): p for p in own if _strategy(p) == CALIBRATED_ON}
    if not {0.0, 100.0} < set(of_front):
        return None
    ends = [of_front[0.0], of_front[100.0]]
    runtime = get_runtime(ends[0].runtime)
    known = as_vector(runtime.costs) if profile is None else profile
    _, costs = calibrated(known, ends, runtime.interval("not calibrated").factor)
    measured: dict[float, dict[str, float]] = {}
    ours: dict[float, dict[str, float]] = {}
    for point in own:
        percent = _percent(point)
        if point.setting is None:
            point = _by_popularity(ends[0], point)
        measured.setdefault(percent, {})[_strategy(point)] = point.tokens_per_s
        ours.setdefault(percent, {})[_strategy(point)] = predicted(point, costs).tokens_per_s
    same = [measured[percent].values() for percent in (0.0, 100.0)]
    between = [percent for percent in sorted(measured) if 0.0 < percent < 100.0]
    errors = [abs(ours[p][s] / measured[p][s] - 1.0) for p in between for s in measured[p]]
    return Strategies(
        ratios=tuple(AtRatio(percent, measured[percent], ours[percent]) for percent in between),
        noise=max(max(speeds) / min(speeds) - 1.0 for speeds in same),
        error=float(np.median(errors)),
        source=str(popularity()["source"]),
        implied={_percent(p): _implied(ends[0], p, costs) for p in own if _strategy(p) == BY_COUNT},
    )


def _implied(like: MeasuredPoint, point: MeasuredPoint, costs: NDArray[np.float64]) -> Shares:
    """Return `Strategies.implied` of a point: by bisection, since more calls there are faster."""
    table, layers = popularity(), len(like.host_calls)
    low, high = 0.0, 1.0
    for _ in range(30):
        share = (low + high) / 2
        assert like.setting is not None
        placed = point.started_as(like.setting, (1.0 - share,) * layers)
        slower = predicted(placed, costs).tokens_per_s < point.tokens_per_s
        low, high = (share, high) if slower else (low, share)
    percents, shares = table["experts_on_gpu_percent"], table["share"][BY_COUNT]
    return low, float(np.interp(_percent(point), percents, shares))


def _strategy(point: MeasuredPoint) -> str:
    return point.knob.removeprefix(STRATEGY)


def _of(point: MeasuredPoint) -> tuple[str, ...]:
    return point.machine, point.model, point.bits, point.runtime


def _percent(point: MeasuredPoint) -> float:
    return number_in("knob_value", point.value)


def _by_popularity(like: MeasuredPoint, point: MeasuredPoint) -> MeasuredPoint:
    """Return a point of a strategy that needs popularity, with the same share in every layer."""
    table, strategy = popularity(), _strategy(point)
    if like.setting is None or strategy not in table["share"]:
        known = ", ".join(table["share"])
        raise InputError(f"knob: strategy {strategy!r:.40} is not known (with popularity: {known})")
    percents, shares = table["experts_on_gpu_percent"], table["share"][strategy]
    call = 1.0 - float(np.interp(_percent(point), percents, shares))
    return point.started_as(like.setting, (call,) * len(like.host_calls))


@cache
def popularity() -> dict[str, Any]:
    """Return strategy -> share of calls that experts on the GPU get, by their share of experts."""
    return read_object(Path(str(files(__package__).joinpath("popularity.json"))))
