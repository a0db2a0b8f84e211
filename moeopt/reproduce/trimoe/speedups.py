"""T3, T4 and T12: TriMoE over the best baseline, in large and small batches."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean

from moeopt.reproduce.figure import Ours
from moeopt.reproduce.trimoe.ablation import COLD, LOADS, UPPER
from moeopt.reproduce.trimoe.executed import mean_ms, optimum_gain, speedup
from moeopt.reproduce.trimoe.setting import BATCHES, MEASURED_HOST_EFFICIENCY, MODELS, Setting

MIDDLE = 512
"""The batch at which the optimum is computed for T3 and T4."""

SMALL_BATCHES = (128, 64, 32)
"""Of 5.5, in its order."""

MEASURED = (
    f"KTransformers ran on the real CPU, whose memory gives {MEASURED_HOST_EFFICIENCY:.3f} of its"
    " nominal bandwidth (220 of 307.2 GB/s, KTransformers 2.3), and TriMoE in a simulator, at"
    " nominal bandwidth; a guess about the authors' method, chosen because it fits"
)
BASELINES = (
    "the best baseline is the fastest of Klotski, Enhanced KTransformers and MoNDE, batch by batch"
)


def t3() -> Ours:
    """Return the least of the three models' speedups."""
    return _extreme(min, "least")


def t4() -> Ours:
    """Return the greatest of the three models' speedups."""
    return _extreme(max, "greatest")


def t12() -> Ours:
    """Qwen3-235B at the batches 128, 64 and 32."""
    settings = [Setting("qwen3-235b-a22b", batch) for batch in SMALL_BATCHES]
    alike = " / ".join(f"{over_best(s, measured=False):.2f}" for s in settings)
    names = ", ".join(f"{s.batch}: {best_baseline(s, measured=True)}" for s in settings)
    return Ours(
        tuple(over_best(s, measured=True) for s in settings),
        "selected",
        (LOADS, BASELINES, MEASURED, COLD, UPPER),
        f"best baselines: {names}; with one bandwidth for all systems {alike}",
        baseline=(1.0, 1.0, 1.0),
        optimum=tuple(over_best(s, measured=True) * optimum_gain("trimoe", s) for s in settings),
    )


def _extreme(choose: Callable[[Iterable[float]], float], word: str) -> Ours:
    alike = [mean_over_batches(model, measured=False) for model in MODELS]
    ours = {model: mean_over_batches(model, measured=True) for model in MODELS}
    best = [ours[m] * optimum_gain("trimoe", Setting(m, MIDDLE)) for m in MODELS]
    over_monde = [
        fmean(speedup("monde", "trimoe", Setting(m, batch)) for batch in BATCHES) for m in MODELS
    ]
    models = ", ".join(f"{model} {value:.2f}" for model, value in ours.items())
    return Ours(
        (choose(ours.values()),),
        "selected",
        (LOADS, BASELINES, MEASURED, COLD, UPPER),
        f"{models}; with one bandwidth for all systems the {word} is {choose(alike):.2f}; over"
        f" MoNDE alone it is {choose(over_monde):.2f}",
        baseline=(1.0,),
        optimum=(choose(best),),
    )


@cache
def over_best(setting: Setting, *, measured: bool) -> float:
    """Return TriMoE's speedup over the best baseline.

    Parameters
    ----------
    measured
        Whether KTransformers reads with the measured bandwidth; else as TriMoE does.
    """
    return min(baselines_ms(setting, measured=measured).values()) / mean_ms("trimoe", setting)


def best_baseline(setting: Setting, *, measured: bool) -> str:
    """Return the name of the fastest baseline."""
    times = baselines_ms(setting, measured=measured)
    return min(times, key=times.__getitem__)


def baselines_ms(setting: Setting, *, measured: bool) -> dict[str, float]:
    """Return the makespan of every baseline."""
    host = setting.on(host_efficiency=MEASURED_HOST_EFFICIENCY) if measured else setting
    return {
        "klotski": mean_ms("klotski", setting),
        "ktransformers": mean_ms("ktransformers", host),
        "monde": mean_ms("monde", setting),
    }


def mean_over_batches(model: str, *, measured: bool) -> float:
    """Return a model's mean speedup over the batches 256 to 768."""
    return fmean(over_best(Setting(model, batch), measured=measured) for batch in BATCHES)
