"""What a plan is worth beside the runtimes' defaults, on steps that were not decided on.

Both are executed on the same steps, so that their latencies are compared step by step. The interval
of the mean is that of the means of contiguous batches of steps (batch means: Law, Simulation
Modeling and Analysis, 9.5.3), drawn with replacement, as steps that follow one another are alike. A
plan that is not told apart from a default, or is ahead by half a percent at most, is not worth its
flags.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.interval import interval
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH

from .candidates import TOLERANCE
from .defaults import COUNTED, LLAMA_CPP
from .executed import Comparison

BATCHES = 20
"""Most batches; fewer steps are a batch each."""

LEAST = 5
"""Fewest steps of which an interval is stated."""

Word = Literal["faster", "even", "slower"]


@dataclass(frozen=True)
class Gain:
    """How much faster one plan is than another, as a share of the first one's time.

    Attributes
    ----------
    mean
        0.25: a quarter more tokens per second.
    low, high
        The 95 % interval; None with fewer than `LEAST` steps.
    """

    mean: float
    low: float | None
    high: float | None

    @property
    def word(self) -> Word:
        """What may be said of it."""
        if self.mean < -TOLERANCE and (self.high is None or self.high < 0):
            return "slower"
        if self.mean > TOLERANCE and (self.low is None or self.low > 0):
            return "faster"
        return "even"

    def __str__(self) -> str:
        """Return it in percent."""
        if self.low is None or self.high is None:
            return _percent(self.mean)
        interval = f"{_percent(self.low)} to {_percent(self.high)}"
        return f"{_percent(self.mean)}, 95 % interval {interval}"


@dataclass(frozen=True)
class Verdict:
    """The plan beside the default that is fastest on the other steps.

    Attributes
    ----------
    best
        That default.
    gain
        Of the plan over it.
    counting
        What counting alone brings: the gain of the default that only counts over the best one that
        does not; None if it does not fit.
    deciding
        What is gained beyond counting; None likewise, and where another runtime counts.
    elsewhere, brings
        The best default of other runtimes, by their own times, and its gain over the plan; None
        where times are of no runtime, or none of the others' defaults fits.
    """

    best: Comparison
    gain: Gain
    counting: Gain | None
    deciding: Gain | None
    elsewhere: Comparison | None = None
    brings: Gain | None = None

    @property
    def word(self) -> Word:
        """Whether the plan is faster than every default, even with the best, or slower."""
        return self.gain.word

    def to_dict(self) -> dict[str, object]:
        """Return it as JSON values."""
        default = self.best.default
        gains = {"gain": self.gain, "counting": self.counting, "deciding": self.deciding}
        gains |= {"elsewhere": self.brings}
        return {
            "plan_is": self.word,
            "best_default": self.best.plan.name,
            "flags": None if default is None else default.flags,
        } | {name: None if gain is None else vars(gain) for name, gain in gains.items()}


def verdict(comparisons: Sequence[Comparison], runtime: str | None = None) -> Verdict | None:
    """Return what the first plan is worth beside its runtime's defaults; None if none fits.

    Parameters
    ----------
    runtime
        Whose times the plan has; None: no runtime's, and every default is as good.
    """
    mine = comparisons[0]
    every = [one for one in comparisons if one.default is not None]
    family = LLAMA_CPP if runtime in WITH_GRAPH else runtime
    theirs = [one for one in every if one.default and family in (None, one.default.runtime)]
    if not theirs:
        return None
    away = min((one for one in every if one not in theirs), key=_mean_ms, default=None)
    brings = None if away is None else gain(away, mine)
    best = min(theirs, key=_mean_ms)
    counted = [one for one in theirs if one.default and one.default.strategy == COUNTED]
    others = [one for one in theirs if one not in counted]
    counting = deciding = None
    if counted and others:
        counting = gain(counted[0], min(others, key=_mean_ms))
        deciding = gain(mine, counted[0])
    return Verdict(best, gain(mine, best), counting, deciding, away, brings)


def gain(one: Comparison, other: Comparison) -> Gain:
    """Return how much faster the one is than the other on the steps not decided on."""
    mean = _mean_ms(other) / _mean_ms(one) - 1
    mine, theirs = one.later.step_ns, other.later.step_ns
    if len(mine) < LEAST:
        return Gain(mean, None, None)
    saved = _batch_means(theirs - mine) / float(np.mean(mine))
    low, high = interval(saved.tolist(), of="mean") or (None, None)
    return Gain(mean, low, high)


def _mean_ms(comparison: Comparison) -> float:
    return comparison.later.mean_ms


def _percent(share: float) -> str:
    """Return a share in percent with its sign; nothing has none."""
    return f"{round(share, 3) + 0.0:+.1%}"


def _batch_means(values: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the means of contiguous batches, as equal in length as can be."""
    batches = min(BATCHES, len(values))
    return np.array([part.mean() for part in np.array_split(values, batches)])
