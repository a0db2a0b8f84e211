"""T3, T4 and T12: TriMoE over the best baseline, in large and small batches."""

from collections.abc import Callable, Iterable
from functools import cache, partial
from statistics import fmean

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import SEEDS, Drawn, over_seeds
from benchmarks.papers.trimoe.ablation import COLD, FIRST, LOADS, MIGRATIONS, SCHEDULER
from benchmarks.papers.trimoe.executed import mean_ms, optimum_gain
from benchmarks.papers.trimoe.setting import BATCHES, FEW, MEASURED_HOST_EFFICIENCY, MODELS, Setting
from moeopt import get_machine

NOMINAL = 1.0
"""Share of the nominal bandwidth that TriMoE's host reads reach here, in Table 1's words."""

KERNELS = get_machine("ktransformers-a100").nodes[0].only("cpu").reached or 1.0
"""Share of the measured bandwidth that KTransformers' kernels reach on their own machine (2.3)."""

KERNEL_EFFICIENCY = MEASURED_HOST_EFFICIENCY * KERNELS
"""Share of the nominal bandwidth that those kernels reach: 0.551."""

MIDDLE = 512
"""The batch at which the optimum is computed for T3 and T4."""

SMALL_BATCHES = (128, 64, 32)
"""Of 5.5, in its order."""

SMALL_MODEL = "qwen3-235b-a22b"

MEASURED = (
    f"KTransformers ran on the real CPU, whose memory gives {MEASURED_HOST_EFFICIENCY:.3f} of its"
    " nominal bandwidth (220 of 307.2 GB/s, KTransformers 2.3), and TriMoE in a simulator, at"
    " nominal bandwidth; a guess about the authors' method, chosen because it fits"
)
ALIKE = "all systems read the host's memory at the nominal bandwidth of Table 1"
BASELINES = (
    "the best baseline is the fastest of Klotski, Enhanced KTransformers and MoNDE, batch by batch"
)
SMALL_OPEN = (
    "MoNDE is the best baseline at these batches, so that the host's bandwidth decides nothing;"
    " what its GPU and its NDP units reach with so few tokens is not stated"
)


def t3() -> Ours:
    """Return the least of the three models' speedups."""
    return _extreme(min, "least", MEASURED_HOST_EFFICIENCY)


def t3_one_bandwidth() -> Ours:
    """Return the same with one bandwidth for all systems."""
    return _extreme(min, "least", NOMINAL)


def t4() -> Ours:
    """Return the greatest of the three models' speedups."""
    return _extreme(max, "greatest", MEASURED_HOST_EFFICIENCY)


def t4_one_bandwidth() -> Ours:
    """Return the same with one bandwidth for all systems."""
    return _extreme(max, "greatest", NOMINAL)


def t12() -> Ours:
    """Qwen3-235B at the batches 128, 64 and 32."""

    def over(seed: int, host: float, system: str = "trimoe") -> tuple[float, ...]:
        settings = [_setting(SMALL_MODEL, batch, seed) for batch in SMALL_BATCHES]
        return tuple(over_best(s, host, system) for s in settings)

    found = over_seeds(lambda seed: over(seed, MEASURED_HOST_EFFICIENCY))
    others = {
        "with one bandwidth for all systems": over_seeds(lambda seed: over(seed, NOMINAL)),
        f"with {KERNEL_EFFICIENCY:.3f} for KTransformers": over_seeds(
            lambda seed: over(seed, KERNEL_EFFICIENCY)
        ),
        "with the upper limit of relayout": over_seeds(
            lambda seed: over(seed, MEASURED_HOST_EFFICIENCY, "trimoe-known")
        ),
    }
    firsts = [_setting(SMALL_MODEL, batch, SEEDS[0]) for batch in SMALL_BATCHES]
    names = ", ".join(f"{s.batch}: {best_baseline(s, MEASURED_HOST_EFFICIENCY)}" for s in firsts)
    said = "; ".join(f"{words} {_listed(drawn)}" for words, drawn in others.items())
    return Ours(
        found.values,
        "selected",
        (LOADS, BASELINES, MEASURED, SCHEDULER, COLD, MIGRATIONS),
        f"best baselines: {names}; {said}; {FIRST}",
        baseline=(1.0, 1.0, 1.0),
        optimum=tuple(
            value * optimum_gain("trimoe", setting)
            for value, setting in zip(found.values, firsts, strict=True)
        ),
        intervals=found.intervals,
        seeds=found.seeds,
        missing=SMALL_OPEN,
    )


def _extreme(choose: Callable[[Iterable[float]], float], word: str, host: float) -> Ours:
    """Return the least or greatest speedup if KTransformers reaches that share of bandwidth."""

    def over(seed: int, host: float, system: str = "trimoe") -> tuple[float]:
        return (choose(mean_over_batches(seed, host, system)),)

    models = drawn(host)
    found = over_seeds(partial(over, host=host))
    most = over_seeds(partial(over, host=host, system="trimoe-known"))
    best = [
        value * optimum_gain("trimoe", _setting(model, MIDDLE, SEEDS[0]))
        for model, value in zip(MODELS, models.values, strict=True)
    ]
    said = [", ".join(f"{model} {models.text(at)}" for at, model in enumerate(MODELS))]
    if host != NOMINAL:
        kernels = over_seeds(partial(over, host=KERNEL_EFFICIENCY))
        said.append(
            f"with {KERNEL_EFFICIENCY:.3f} of the nominal bandwidth for KTransformers, which is"
            f" what its kernels reach on its own machine ({KERNELS:g} of the measured), the {word}"
            f" is {kernels.text()}"
        )
    said += [f"with the upper limit of relayout {most.text()}", FIRST]
    return Ours(
        found.values,
        "assumed" if host == NOMINAL else "selected",
        (LOADS, BASELINES, ALIKE if host == NOMINAL else MEASURED, SCHEDULER, COLD, MIGRATIONS),
        "; ".join(said),
        baseline=(1.0,),
        optimum=(choose(best),),
        intervals=found.intervals,
        seeds=found.seeds,
    )


@cache
def drawn(host: float) -> Drawn:
    """Return each model's mean speedup over the batches 256 to 768, over the seeds."""
    return over_seeds(lambda seed: mean_over_batches(seed, host))


def mean_over_batches(seed: int, host: float, system: str = "trimoe") -> tuple[float, ...]:
    """Return each model's mean speedup over the batches 256 to 768."""
    return tuple(
        fmean(over_best(_setting(model, batch, seed), host, system) for batch in BATCHES)
        for model in MODELS
    )


def _setting(model: str, batch: int, seed: int) -> Setting:
    return Setting(model, batch, samples=FEW, seed=seed)


def _listed(found: Drawn) -> str:
    return " / ".join(found.text(place) for place in range(len(found.values)))


@cache
def over_best(setting: Setting, host: float, system: str = "trimoe") -> float:
    """Return TriMoE's speedup over the best baseline.

    Parameters
    ----------
    host
        Share of the nominal bandwidth that KTransformers reaches; TriMoE reaches all of it.
    system
        "trimoe", or "trimoe-known" for the upper limit of relayout.
    """
    return min(baselines_ms(setting, host).values()) / mean_ms(system, setting)


def best_baseline(setting: Setting, host: float) -> str:
    """Return the name of the fastest baseline."""
    times = baselines_ms(setting, host)
    return min(times, key=times.__getitem__)


def baselines_ms(setting: Setting, host: float = NOMINAL) -> dict[str, float]:
    """Return the makespan of every baseline."""
    return {
        "klotski": mean_ms("klotski", setting),
        "ktransformers": mean_ms("ktransformers", setting.on(host_efficiency=host)),
        "monde": mean_ms("monde", setting),
    }
