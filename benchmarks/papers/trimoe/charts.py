"""Fig. 8 and 9 from our model: the ablation, and latency over NDP units and CPU rates.

The ablation and the systems are of one seed, the curves are means over all.
"""

import numpy as np

from benchmarks.papers.charts import Chart, Curve
from benchmarks.papers.seeds import SEEDS
from benchmarks.papers.trimoe.ablation import STAGES
from benchmarks.papers.trimoe.executed import mean_ms, speedup
from benchmarks.papers.trimoe.sensitivity import (
    CPU_SCALES,
    FINE_NDP_COUNTS,
    cpu_curve,
    mean_curve,
    ndp_curve,
)
from benchmarks.papers.trimoe.setting import FEW, MODELS, Setting
from benchmarks.papers.trimoe.speedups import baselines_ms
from benchmarks.rooms.sim import Path, get_model, step_costs
from moeopt import get_machine

ADDED = (1.0, 1.75, 1.75 * 1.28, 1.75 * 1.28 * 1.16)
"""5.3: what Fig. 8 adds up to."""

MIDDLE = 512

LARGEST = "deepseek-v2"
"""The model with the largest experts."""

TOKENS_OF_AN_EXPERT = tuple(2**power for power in range(11))

PATHS: dict[str, Path] = {
    "GPU, resident": "gpu_hit",
    "GPU, fetched": "gpu_miss_striped",
    "CPU, striped": "cpu_striped",
    "NDP unit": "ndp",
}
"""Paths whose rates cross: where each is the fastest is TriMoE's classes."""


def charts() -> tuple[Chart, ...]:
    """Return the ablation, both sensitivities, all systems beside the optimum, and the rates."""
    return (ablation(), ndp_units(), cpu_rates(), systems(), roofline())


def roofline() -> Curve:
    """Return Fig. 5(b): what an expert reaches on each path, by its tokens.

    A token is two operations on each weight: tokens stand for operations per byte.
    """
    costs = step_costs(get_machine("trimoe"), get_model(LARGEST))
    tokens = np.array(TOKENS_OF_AN_EXPERT)
    operations = tokens * float(costs.model.flops_per_token)
    series = {}
    for name, path in PATHS.items():
        seconds = costs.path_ns(path, tokens, 1) / 1e9
        series[name] = tuple((operations / seconds / 1e12).tolist())
    return Curve(
        f"TFLOPS of an expert of {LARGEST}",
        "TriMoE Fig. 5(b)",
        "tokens of the expert",
        "TFLOPS",
        tuple(f"{count}" for count in TOKENS_OF_AN_EXPERT),
        series,
    )


def ablation() -> Curve:
    """Return Fig. 8: speedup over GPU-NDP as parts are added."""
    names = ("GPU-NDP", "+ CPU", "+ refinement", "+ relayout", "the optimum")
    series = {}
    for model in MODELS:
        gains = [speedup("monde", system, Setting(model)) for system in STAGES]
        few = Setting(model, samples=FEW)
        series[model] = (*gains, speedup("monde", "optimum", few))
    return Curve(
        "Ablation at batch 512",
        "TriMoE Fig. 8",
        "parts of TriMoE",
        "times faster than GPU-NDP",
        names,
        series,
        {"published": (*ADDED, None)},
        kind="bar",
    )


def ndp_units() -> Curve:
    """Return Fig. 9(a): latency over the number of NDP units; published is the knee."""
    series = {
        model: tuple(mean_curve(ndp_curve(model, seed, at=FINE_NDP_COUNTS) for seed in SEEDS))
        for model in MODELS
    }
    return Curve(
        "NDP units",
        "TriMoE Fig. 9(a)",
        "DIMMs with NDP",
        "latency of the MoE layer in ms",
        FINE_NDP_COUNTS,
        series,
        marked_x=(16,),
    )


def cpu_rates() -> Curve:
    """Return Fig. 9(b): latency over the CPU's rate; published is the knee."""
    return Curve(
        "CPU rate",
        "TriMoE Fig. 9(b)",
        "times AMX",
        "latency of the MoE layer in ms",
        CPU_SCALES,
        {model: tuple(mean_curve(cpu_curve(model, seed) for seed in SEEDS)) for model in MODELS},
        marked_x=(0.5,),
    )


def systems() -> Curve:
    """Return the MoE layer's latency under every system; Klotski is some five times the others."""
    names = ("ktransformers", "monde", "trimoe", "optimum")
    series = {}
    for model in MODELS:
        setting = Setting(model, MIDDLE)
        few = setting.on(samples=FEW)
        base = baselines_ms(setting)
        best = mean_ms("trimoe", setting) / speedup("trimoe", "optimum", few)
        series[model] = (base["ktransformers"], base["monde"], mean_ms("trimoe", setting), best)
    return Curve(
        "Best baselines, TriMoE, and the optimum of the same machine, batch 512",
        "TriMoE Fig. 6",
        "system",
        "latency of the MoE layer in ms",
        names,
        series,
        kind="bar",
    )
