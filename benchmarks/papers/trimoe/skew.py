"""T16 and T17: which part of the experts takes which part of the tokens (3.1, Fig. 3)."""

from functools import cache

import numpy as np

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import over_seeds
from benchmarks.papers.trimoe.setting import Setting
from benchmarks.rooms.sim import HOT

COLD = 0.7
"""Share of the experts that is cold (3.1)."""

SHAPES = ("deepseek-v2", "qwen3-235b-a22b")
"""160 experts, 6 per token, and 128, 8 per token, as GLM-4.5-Air has them."""

TOKENS = 2**13

HOTTEST = 0.03
"""Share of the experts that is hot; the paper has "a small number of hot experts" (1)."""

WARM = 1 - COLD - HOTTEST

LAW = "popularity falls exponentially with rank; its one parameter, 8.5, is calibrated to T16"


def t16() -> Ours:
    """Return what cold experts are and take: the parameter of our routing, put back in."""
    found = over_seeds(lambda seed: (COLD, _mean_share(seed, 1 - COLD, 1.0)))
    note = (
        "no real trace at hand is as skewed: in steps of 256 and 512 tokens the coldest 70 % take"
        " 0.40-0.48 in ESFT (DeepSeek-V2-Lite) and 0.64-0.65 in HD-MoE (Mixtral-8x7B)"
    )
    return Ours(found.values, "input", (LAW,), note, intervals=found.intervals, seeds=found.seeds)


def t17() -> Ours:
    """Return what warm experts are and take: those between the hottest 3 to 5 % and the cold."""
    warm = over_seeds(lambda seed: (_mean_share(seed, HOT, 1 - COLD),))
    found = over_seeds(lambda seed: (WARM, _mean_share(seed, HOTTEST, 1 - COLD)))
    cut = f"the hottest {HOTTEST:.0%} are hot, a cut chosen to fit, and the next {WARM:.0%} warm"
    return Ours(
        found.values,
        "selected",
        (LAW, cut),
        f"with {HOT:.0%} hot ones, the predictor's classes, warm ones take {warm.values[0]:.2f}",
        intervals=found.intervals,
        seeds=found.seeds,
    )


def _mean_share(seed: int, first: float, last: float) -> float:
    return float(np.mean([share(model, seed, first, last) for model in SHAPES]))


def share(model: str, seed: int, first: float, last: float) -> float:
    """Return the share of the tokens that experts between two shares of the ranks take."""
    taken = _by_rank(model, seed)
    begin, end = round(first * len(taken)), round(last * len(taken))
    return float(taken[begin:end].sum() / taken.sum())


@cache
def _by_rank(model: str, seed: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw one large step and return its tokens by rank, hottest first."""
    setting = Setting(model, batch=TOKENS, samples=1, warm_up=1, steps=0, seed=seed)
    return np.sort(setting.loads[0, 0])[::-1]
