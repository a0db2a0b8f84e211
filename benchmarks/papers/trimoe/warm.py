"""T19, T20 and T24: what warm experts cost a GPU that fetches them, NDP units and a CPU (3.1)."""

from collections.abc import Sequence
from functools import partial
from statistics import fmean

import numpy as np

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import over_seeds
from benchmarks.papers.trimoe.ablation import LOADS
from benchmarks.papers.trimoe.setting import BATCHES, MODELS, Loads, Setting
from benchmarks.papers.trimoe.skew import COLD
from benchmarks.papers.trimoe.systems import rows
from benchmarks.rooms.sim import HOT, step_costs
from moeopt import get_machine

CLASSES = (
    f"by tokens of the step the first {HOT:.0%} of the experts are hot, the last {COLD:.0%} cold,"
    " and those between warm: the predictor's classes"
)
IN_TURN = "experts lie on the DIMMs in turn by falling tokens, and the fullest DIMM counts"
MOST_TOKENS = 256
"""Tokens per expert at which 3.2's range of rates ends here."""

A100_PEAK = 312.0

BUSY = "utilization is the share of the time in which the GPU computes"


def t19() -> Ours:
    """Return the utilization of a GPU that fetches warm experts."""
    shares = over_seeds(lambda seed: (fmean(computing(m, seed) for m in MODELS),))
    peak = fmean(of_peak(model, 0) for model in MODELS)
    note = (
        "up to 256 tokens the GPU computes at 30 % of its peak (Fig. 5a), so that the share is that"
        " of 256 tokens for every warm expert; a share of the peak, as Fig. 5a has it, would be"
        f" {peak:.3f}"
    )
    return Ours(
        shares.values,
        "assumed",
        (LOADS, CLASSES, BUSY),
        note,
        intervals=shares.intervals,
        seeds=shares.seeds,
    )


def t20() -> Ours:
    """Return how many times longer NDP units take if they have the warm experts as well."""
    found = over_seeds(lambda seed: (fmean(times_longer(m, seed) for m in MODELS),))
    others = ", ".join(
        f"{batch}: {fmean(times_longer(m, 0, batch) for m in MODELS):.1f}" for batch in BATCHES
    )
    total = over_seeds(lambda seed: (fmean(times_longer(m, seed, dimms=1) for m in MODELS),))
    return Ours(
        found.values,
        "assumed",
        (LOADS, CLASSES, IN_TURN, "batch 512, mean of three models"),
        f"by batch, of the first seed, {others}; by the work of all DIMMs together"
        f" {total.text()}; the paper says neither for which experts nor for which batch",
        intervals=found.intervals,
        seeds=found.seeds,
    )


def t24() -> Ours:
    """Return what the CPU reaches of an A100's matrix products."""
    cpu = float(get_machine("trimoe").nodes[0].only("cpu").rate_tflops(MOST_TOKENS))
    a100 = get_machine("ktransformers-a100").require("gpu").only("gpu")
    reached = float(a100.rate_tflops(MOST_TOKENS))
    note = f"{cpu:g} over {reached:g} TFLOPS; the A100's measured rate is not stated"
    return Ours(
        (cpu / reached,),
        "assumed",
        (
            f"the CPU reaches the {cpu:g} TFLOPS of 3.2, the A100 {reached / A100_PEAK:.0%} of its"
            f" {A100_PEAK:g}, the cap of TriMoE's GPU here",
        ),
        note,
    )


def times_longer(model: str, seed: int, batch: int = 512, dimms: int | None = None) -> float:
    """Return the mean over steps of the fullest DIMM's time with warm experts over that without."""
    setting = Setting(model, batch, seed=seed)
    costs = step_costs(setting.machine, setting.shape)
    span = partial(_fullest, dimms=dimms or setting.dimms)
    quotients = []
    for load in rows(setting):
        hot, warm, cold = _classes(load)
        ns = costs.path_ns("ndp", np.maximum(np.concatenate([hot, warm, cold]), 1))
        ns[np.concatenate([hot, warm, cold]) == 0] = 0
        without = len(hot) + len(warm)
        quotients.append(span(ns[len(hot) :]) / span(ns[without:]))
    return fmean(quotients)


def computing(model: str, seed: int) -> float:
    """Return the share of the time in which a GPU computes that fetches every warm expert."""
    setting = Setting(model, seed=seed)
    costs = step_costs(setting.machine, setting.shape)
    warm = _warm(setting)
    busy_s = costs.computation_s("gpu", warm)
    return float(busy_s.sum() / np.maximum(busy_s, costs.transfer_s()).sum())


def of_peak(model: str, seed: int) -> float:
    """Return the same as a share of what the GPU could compute at its peak."""
    setting = Setting(model, seed=seed)
    costs = step_costs(setting.machine, setting.shape)
    peak = (setting.machine.require("gpu").only("gpu").peak_tflops or 0.0) * 1e12
    warm = _warm(setting)
    flops = warm * setting.shape.expert_bytes  # 2 operations and 2 bytes per weight
    spent_s = np.maximum(costs.computation_s("gpu", warm), costs.transfer_s()).sum()
    return float(flops.sum() / peak / spent_s)


def _warm(setting: Setting) -> Loads:
    """Return the tokens of all warm experts that have any."""
    warm = np.concatenate([_classes(load)[1] for load in rows(setting)])
    return warm[warm > 0]


def _classes(load: Loads) -> tuple[Loads, Loads, Loads]:
    """Return the tokens of hot, warm and cold experts, each by falling tokens."""
    order = np.sort(load)[::-1]
    hot, warm = round(HOT * len(load)), round((1 - COLD) * len(load))
    return order[:hot], order[hot:warm], order[warm:]


def _fullest(ns: Sequence[int], dimms: int) -> int:
    """Return the work of the fullest DIMM if experts are dealt out in turn."""
    return max(int(np.sum(ns[first::dimms])) for first in range(dimms))
