"""What deferring and skipping experts cost in accuracy, from KTransformers' scores (6.3).

Stated are Table 2, four benchmarks of three quantised models without deferral and with the most of
it, and of Fig. 13 the two numbers that stand in the text: six of DeepSeek-V3's eight experts. The
figure's other columns are not in the text, and unknown here. A curve is monotone least squares
through what is stated for a model, 0 for no expert, straight between stated numbers of experts and
unknown beyond the last one. So between 0 and that number it says no more than a straight line does;
what the scores settle is its height, in percent of the score, and that skipping has another one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from moeopt.core.errors import InputError

from .instance import Instance

Affected = Literal["deferred", "skipped"]
"""What happens to a token's experts of least weight: they come late, or never."""

PER_WHOLE = 10**9
"""Published penalties are billionths of the score."""


@dataclass(frozen=True)
class Score:
    """A published change of accuracy.

    Attributes
    ----------
    model
        A preset's name.
    affected, experts
        What was done to how many of each token's experts, in all layers but the last.
    change
        Of the score, as a share of it: below 0 it got worse.
    source
        Where it stands.
    """

    model: str
    affected: Affected
    experts: int
    change: float
    source: str


TABLE_2: dict[str, tuple[int, tuple[float, ...], tuple[float, ...]]] = {
    "deepseek-v3": (6, (83.0, 71.2, 94.8, 83.0), (83.0, 70.2, 95.2, 82.9)),
    "deepseek-v2.5": (4, (80.5, 67.6, 93.3, 79.7), (82.5, 66.8, 92.8, 80.4)),
    "qwen2-57b-a14b": (4, (65.7, 52.4, 84.7, 83.6), (67.4, 53.4, 83.4, 82.5)),
}
"""Model -> deferred experts, and the scores without and with deferral: HumanEval, MBPP, GSM8K,
StrategyQA.
"""

SCORES: tuple[Score, ...] = (
    *(
        Score(model, "deferred", experts, fmean(after) / fmean(before) - 1, "Table 2")
        for model, (experts, before, after) in TABLE_2.items()
    ),
    Score("deepseek-v3", "deferred", 6, -0.005, "6.3 on Fig. 13"),
    Score("deepseek-v3", "skipped", 6, -0.133, "6.3 on Fig. 13"),
)
"""All that is stated."""


def lost(model: str, affected: Affected, experts: int) -> float | None:
    """Return the share of the score that a model loses, by the curve through what is stated.

    Parameters
    ----------
    experts
        Of each token, in all layers but the last.

    Returns
    -------
    float or None
        0 or more; None where nothing is stated of the model, or not of so many experts.

    Examples
    --------
    >>> from moeopt.problems.deferral.scores import lost
    >>> lost("deepseek-v3", "skipped", 6), lost("deepseek-v3", "skipped", 7)
    (0.133, None)
    """
    curve = _curve(model, affected)
    if experts == 0:
        return 0.0
    if not curve or experts > curve[-1][0]:
        return None
    numbers, losses = zip(*curve, strict=True)
    return float(np.interp(experts, numbers, losses))


def _curve(model: str, affected: Affected) -> Sequence[tuple[int, float]]:
    """Return numbers of experts with losses, from (0, 0) on; empty where nothing is stated."""
    from scipy.optimize import isotonic_regression

    stated: dict[int, list[float]] = {}
    for score in SCORES:
        if (score.model, score.affected) == (model, affected):
            stated.setdefault(score.experts, []).append(-score.change)
    if not stated:
        return ()
    numbers = sorted(stated)
    means = [fmean(stated[number]) for number in numbers]
    weights = [len(stated[number]) for number in numbers]
    losses = np.maximum(isotonic_regression(means, weights=weights).x, 0.0)
    return [(0, 0.0), *zip(numbers, losses.tolist(), strict=True)]


def published_penalty(model: str, most: int, layers: int) -> tuple[int, ...]:
    """Return the penalty of deferring 0 to `most` experts of one layer, in billionths.

    A model's loss is shared evenly by all layers but the last, which defers nothing.

    Parameters
    ----------
    most
        Largest number of experts.
    layers
        Layers with experts that the model has.

    Raises
    ------
    InputError
        If nothing is stated of the model, or not of so many experts.
    """
    losses = [lost(model, "deferred", number) for number in range(most + 1)]
    known = [loss for loss in losses if loss is not None]
    if len(known) < len(losses):
        models = ", ".join(dict.fromkeys(score.model for score in SCORES))
        if len(known) == 1:
            reason = f"published has scores of {models} alone, not of {model}"
        else:
            reason = f"published has no score of {model} with more than {len(known) - 1} deferred"
        raise InputError(f"{reason}; linear and quadratic need none", field="penalty")
    return tuple(round(loss * PER_WHOLE / max(1, layers - 1)) for loss in known)


def skipping(instance: Instance, experts: int) -> Instance:
    """Return the step in which each layer skips so many experts, and may defer none.

    "Simply discards the experts with the lowest routing scores" (6.3): what deferral is compared
    with. Its price is `lost`.

    Parameters
    ----------
    experts
        Fewer than `top_k`.

    Raises
    ------
    InputError
        If no expert would be left.
    """
    left = instance.top_k - experts
    if not 0 < left <= instance.top_k:
        raise InputError(f"must be 0 to {instance.top_k - 1}, not {experts}", field="experts")
    return instance.model_copy(
        update={"top_k": left, "min_immediate": left, "penalty": instance.penalty[:1]}
    )
