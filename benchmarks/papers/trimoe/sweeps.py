"""What TriMoE's figures owe to numbers that the paper does not give, one parameter at a time."""

from collections.abc import Iterable
from statistics import fmean
from typing import get_args

from benchmarks.papers.seeds import SEEDS
from benchmarks.papers.sweep import Sweep
from benchmarks.papers.trimoe import relayout
from benchmarks.papers.trimoe.executed import speedup
from benchmarks.papers.trimoe.setting import (
    MEASURED_HOST_EFFICIENCY,
    Changes,
    OfflineLoads,
    Setting,
)
from benchmarks.rooms.relayout import ASSUMPTIONS as RELAYOUT
from benchmarks.rooms.tri_domain import ASSUMPTIONS as TRI_DOMAIN

MODELS = ("deepseek-v2", "qwen3-235b-a22b")

GAINS = {
    "T5 (1.75)": ("monde", "trimoe-greedy"),
    "T6 (1.28)": ("trimoe-greedy", "trimoe-refined"),
    "T7 (1.16)": ("trimoe-refined", "trimoe"),
    "T7u (1.16)": ("trimoe-refined", "trimoe-known"),
    "product (2.60)": ("monde", "trimoe"),
    "over KTransformers": ("ktransformers", "trimoe"),
}
"""Column -> the slower and the faster system; means of two models and the seeds at batch 512."""


def localized_bandwidth() -> Sweep:
    """Return what a host reads from one DIMM."""
    return _sweep(
        "Host bandwidth of one DIMM, GB/s",
        "38.4",
        "one DDR5-4800 channel; 8 x 38.4 = 307.2 and 4 x 38.4 = 153.6 as stated",
        ((f"{gb_s:g}", {"one_gb_s": gb_s}) for gb_s in (19.2, 38.4, 76.8)),
        "19.2 is 307.2 / 16: localized experts are then nobody's but the NDP units'",
    )


def residents() -> Sweep:
    """Return how many routed experts stay on the GPU."""
    return _sweep(
        "Routed experts per layer that stay on the GPU",
        "0",
        "4.1: all routed experts are in host DIMMs",
        ((str(count), {"residents": count}) for count in (0, 4, 8, 16)),
        "free GPU memory would hold some 15; the baselines gain most",
    )


def cpu_rate() -> Sweep:
    """Return how fast the CPU computes."""
    return _sweep(
        "CPU rate, times 10 TFLOPS at 16 tokens and 40 at 256",
        "1",
        "3.2: 10-40 TFLOPS for tens to hundreds of tokens",
        ((f"{scale:g}", {"cpu_scale": scale}) for scale in (0.5, 1.0, 2.0)),
    )


def ndp_rate() -> Sweep:
    """Return how fast the NDP units compute."""
    return _sweep(
        "NDP rate, times 256 GFLOPS per unit",
        "1",
        "Table 1, at full utilization",
        ((f"{scale:g}", {"ndp_scale": scale}) for scale in (0.5, 0.8, 1.0, 2.0)),
    )


def host_efficiency() -> Sweep:
    """Return which part of the nominal host bandwidth is reached."""
    return _sweep(
        "Share of the nominal host bandwidth that all systems reach",
        "1",
        "Table 1 is nominal; KTransformers 2.3 measures 0.716",
        (
            (f"{share:g}", {"host_efficiency": share})
            for share in (0.55, MEASURED_HOST_EFFICIENCY, 0.85, 1.0)
        ),
        "with one bandwidth for all, no value brings TriMoE 2.12 times over KTransformers",
    )


def skew() -> Sweep:
    """Return how much the popularities of experts differ."""
    return _sweep(
        "Skew of the popularity, exp(-skew x rank / experts)",
        "8.5",
        "calibrated to T16",
        ((f"{value:g}", {"skew": value}) for value in (6.0, 8.5, 12.0)),
    )


def drift() -> Sweep:
    """Return how fast popularities change."""
    return _sweep(
        "Drift of the log-popularity per step",
        "0.3",
        "assumed; the paper gives none",
        ((f"{value:g}", {"drift": value}) for value in (0.0, 0.3, 0.6, 1.0)),
        "T7 and T7u are what drift leaves to mend",
    )


def cold_share() -> Sweep:
    """Return how many experts the offline layout localizes."""
    return _sweep(
        "Share of experts that the offline layout localizes",
        "best on the earlier steps",
        "4.3 says optimized, 3.1 that over 70 % are cold",
        (
            ("best", {}),
            *((f"{share:g}", {"cold_share": share}) for share in (0.5, 0.6, 0.7, 0.8)),
        ),
        "T7u has the best share in all rows, so that it gains what a fixed one loses",
    )


def offline_loads() -> Sweep:
    """Return what the offline layout's share of cold experts is optimised on."""
    return _sweep(
        "What the offline layout's share of localized experts is optimised on",
        Setting.offline_loads,
        "4.3 says offline trace analysis: its steps one by one, not their mean",
        ((value, {"offline_loads": value}) for value in get_args(OfflineLoads)),
        "the split between T5 and T6 moves with it, their product hardly",
    )


def tie_order() -> Sweep:
    """Return which of several cheapest paths is taken first."""
    return _assumption(
        "tie_order",
        "Order in which ties between cheapest paths are broken",
        "the split between T5 and T6 is not identified, their product is",
    )


def refinement() -> Sweep:
    """Return which experts of the bottleneck device may move."""
    return _assumption("refinement", "Candidates of the bottleneck-aware refinement")


def relayout_policy() -> Sweep:
    """Return how migrations are chosen, in one window and in two."""
    rows = tuple(
        (policy, tuple(_relayout(policy, {"windows": windows}) for windows in ("one", "two")))
        for policy in relayout.POLICIES
    )
    known = _gain("trimoe-refined", "trimoe-known", {})
    return Sweep(
        "Policy of relayout and rebalancing",
        Setting.migrations,
        "4.3 at its default assumptions; benefit-makespan is the kinder reading of benefit",
        ("T7 (1.16), one window", "T7 (1.16), two windows"),
        (*rows, ("known loads, no cost (T7u)", (known, known))),
        "the four policies see loads predicted by Eq. 8",
    )


def link_sum() -> Sweep:
    """Return whether moves between different DIMMs wait for each other."""
    assumed = next(s for s in RELAYOUT if s.name == "link_sum")
    policies = ("rebalance-only", "benefit-greedy")
    return Sweep(
        assumed.question.rstrip("?"),
        assumed.default,
        f"{assumed.source}: {assumed.why}".rstrip("."),
        tuple(f"T7 (1.16), {policy}" for policy in policies),
        tuple(
            (f"{value}: {words}", tuple(_relayout(p, {"link_sum": value}) for p in policies))
            for value, words in assumed.values.items()
        ),
    )


def _relayout(policy: str, changes: Changes) -> float:
    return _gain("trimoe-refined", "trimoe", {"migrations": policy, **changes})


def _assumption(name: str, parameter: str, note: str = "") -> Sweep:
    """Return a sweep over the values of an assumption of TriMoE's scheduler."""
    assumed = next(s for s in TRI_DOMAIN if s.name == name)
    rows = ((f"{value}: {words}", {name: value}) for value, words in assumed.values.items())
    return _sweep(parameter, getattr(Setting, name), f"{assumed.source}: {assumed.why}", rows, note)


def _sweep(
    parameter: str,
    default: str,
    source: str,
    settings: Iterable[tuple[str, Changes]],
    note: str = "",
) -> Sweep:
    rows = tuple(
        (name, tuple(_gain(slow, fast, changes) for slow, fast in GAINS.values()))
        for name, changes in settings
    )
    return Sweep(parameter, default, source.rstrip("."), tuple(GAINS), rows, note)


def _gain(slow: str, fast: str, changes: Changes) -> float:
    """Return the mean over models and seeds of a speedup, one layer of each."""
    settings = (
        Setting(model, samples=1, seed=seed).on(**changes) for model in MODELS for seed in SEEDS
    )
    return fmean(speedup(slow, fast, setting) for setting in settings)
