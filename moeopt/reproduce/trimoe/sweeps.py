"""What TriMoE's figures owe to numbers that the paper does not give, one parameter at a time."""

from collections.abc import Callable, Iterable
from statistics import fmean

from moeopt.reproduce.sweep import Sweep
from moeopt.reproduce.trimoe import relayout, ties
from moeopt.reproduce.trimoe.executed import execute, mean_ms
from moeopt.reproduce.trimoe.setting import MEASURED_HOST_EFFICIENCY, Setting
from moeopt.sim.plan.schema import Plan

MODELS = ("deepseek-v2", "qwen3-235b-a22b")
SAMPLES = 3

GAINS = {
    "T5 (1.75)": ("monde", "trimoe-greedy"),
    "T6 (1.28)": ("trimoe-greedy", "trimoe-refined"),
    "T7 (1.16)": ("trimoe-refined", "trimoe"),
    "product (2.60)": ("monde", "trimoe"),
    "over KTransformers": ("ktransformers", "trimoe"),
}
"""Column -> the slower and the faster system; means of two models at batch 512."""


def localized_bandwidth() -> Sweep:
    """Return what a host reads from one DIMM."""
    return _sweep(
        "Host bandwidth of one DIMM, GB/s",
        "38.4",
        "one DDR5-4800 channel; 8 x 38.4 = 307.2 and 4 x 38.4 = 153.6 as stated",
        ((f"{gb_s:g}", {"localized_gb_s": gb_s}) for gb_s in (19.2, 38.4, 76.8)),
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
        "T7 is what drift leaves to mend",
    )


def cold_share() -> Sweep:
    """Return how many experts the offline layout localizes."""
    return _sweep(
        "Share of experts that the offline layout localizes",
        "best for the mean loads",
        "4.3 says optimized, 3.1 that over 70 % are cold",
        (
            ("best", {}),
            *((f"{share:g}", {"cold_share": share}) for share in (0.5, 0.6, 0.7, 0.8)),
        ),
        "T7 keeps the best share in all rows, so that it gains what a fixed one loses",
    )


def tie_rule() -> Sweep:
    """Return which of several cheapest paths is taken."""
    rows = []
    for rule in (*ties.RULES, ties.ALWAYS_NDP):
        greedy, refined = (ties.system(rule, refined=refined) for refined in (False, True))
        gains: list[list[float]] = [[], [], []]
        for setting in _settings({}):
            base, first = mean_ms("monde", setting), execute(greedy, setting).mean_ms
            last = execute(refined, setting).mean_ms
            for column, gain in zip(gains, (base / first, first / last, base / last), strict=True):
                column.append(gain)
        rows.append((rule, tuple(map(fmean, gains))))
    return Sweep(
        "Order in which ties between cheapest paths are broken",
        "gpu, cpu, ndp",
        "4.2 does not say; a localized expert costs GPU and CPU the same read",
        ("T5 (1.75)", "T6 (1.28)", "T5 x T6 (2.24)"),
        tuple(rows),
        "the split between T5 and T6 is not identified, their product is",
    )


def relayout_policy() -> Sweep:
    """Return how migrations are chosen."""
    rows = [(policy, _over_refined(relayout.system(policy))) for policy in relayout.POLICIES]
    known = fmean(mean_ms("trimoe-refined", s) / mean_ms("trimoe", s) for s in _settings({}))
    return Sweep(
        "Policy of relayout and rebalancing",
        "known loads, no cost",
        "4.3 does not say what benefit is; the default is an upper limit",
        ("T7 (1.16)",),
        (*rows, ("known loads, no cost", (known,))),
        "the four policies see loads predicted by Eq. 8; 4 moves and 2 prefetches fit a step",
    )


def _over_refined(system: Callable[[Setting], Plan]) -> tuple[float]:
    gains = [mean_ms("trimoe-refined", s) / execute(system, s).mean_ms for s in _settings({})]
    return (fmean(gains),)


def _sweep(
    parameter: str,
    default: str,
    source: str,
    settings: Iterable[tuple[str, dict[str, float]]],
    note: str = "",
) -> Sweep:
    rows = tuple((name, _gains(changes)) for name, changes in settings)
    return Sweep(parameter, default, source, tuple(GAINS), rows, note)


def _gains(changes: dict[str, float]) -> tuple[float, ...]:
    settings = _settings(changes)
    return tuple(
        fmean(mean_ms(slow, s) / mean_ms(fast, s) for s in settings)
        for slow, fast in GAINS.values()
    )


def _settings(changes: dict[str, float]) -> list[Setting]:
    return [Setting(model, samples=SAMPLES).on(**changes) for model in MODELS]
