"""T3, T4 and T12: TriMoE over the best baseline, in large and small batches."""

from collections.abc import Callable, Iterable
from functools import cache
from statistics import fmean

from benchmarks.papers.figure import Ours
from benchmarks.papers.seeds import SEEDS, Drawn, over_seeds
from benchmarks.papers.trimoe.ablation import COLD, FIRST, LOADS, MIGRATIONS, SCHEDULER
from benchmarks.papers.trimoe.executed import mean_ms, optimum_gain
from benchmarks.papers.trimoe.setting import BATCHES, FEW, MEASURED_HOST_EFFICIENCY, MODELS, Setting

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

    def over(seed: int, *, measured: bool, system: str = "trimoe") -> tuple[float, ...]:
        settings = [_setting("qwen3-235b-a22b", batch, seed) for batch in SMALL_BATCHES]
        return tuple(over_best(s, measured=measured, system=system) for s in settings)

    found = over_seeds(lambda seed: over(seed, measured=True))
    alike = over_seeds(lambda seed: over(seed, measured=False))
    most = over_seeds(lambda seed: over(seed, measured=True, system="trimoe-known"))
    firsts = [_setting("qwen3-235b-a22b", batch, SEEDS[0]) for batch in SMALL_BATCHES]
    names = ", ".join(f"{s.batch}: {best_baseline(s, measured=True)}" for s in firsts)
    return Ours(
        found.values,
        "selected",
        (LOADS, BASELINES, MEASURED, SCHEDULER, COLD, MIGRATIONS),
        f"best baselines: {names}; with one bandwidth for all systems {_listed(alike)}; with the"
        f" upper limit of relayout {_listed(most)}; {FIRST}",
        baseline=(1.0, 1.0, 1.0),
        optimum=tuple(
            value * optimum_gain("trimoe", setting)
            for value, setting in zip(found.values, firsts, strict=True)
        ),
        intervals=found.intervals,
        seeds=found.seeds,
    )


def _extreme(choose: Callable[[Iterable[float]], float], word: str) -> Ours:
    models = drawn(measured=True)
    found = over_seeds(lambda seed: (choose(mean_over_batches(seed, measured=True)),))
    alike = over_seeds(lambda seed: (choose(mean_over_batches(seed, measured=False)),))
    most = over_seeds(lambda seed: (choose(_known_over_batches(seed)),))
    best = [
        value * optimum_gain("trimoe", _setting(model, MIDDLE, SEEDS[0]))
        for model, value in zip(MODELS, models.values, strict=True)
    ]
    each = ", ".join(f"{model} {models.text(at)}" for at, model in enumerate(MODELS))
    return Ours(
        found.values,
        "selected",
        (LOADS, BASELINES, MEASURED, SCHEDULER, COLD, MIGRATIONS),
        f"{each}; with one bandwidth for all systems the {word} is {alike.text()}; with the upper"
        f" limit of relayout {most.text()}; {FIRST}",
        baseline=(1.0,),
        optimum=(choose(best),),
        intervals=found.intervals,
        seeds=found.seeds,
    )


@cache
def drawn(*, measured: bool) -> Drawn:
    """Return each model's mean speedup over the batches 256 to 768, over the seeds."""
    return over_seeds(lambda seed: mean_over_batches(seed, measured=measured))


def mean_over_batches(seed: int, *, measured: bool, system: str = "trimoe") -> tuple[float, ...]:
    """Return each model's mean speedup over the batches 256 to 768."""
    return tuple(
        fmean(
            over_best(_setting(model, batch, seed), measured=measured, system=system)
            for batch in BATCHES
        )
        for model in MODELS
    )


def _known_over_batches(seed: int) -> tuple[float, ...]:
    return mean_over_batches(seed, measured=True, system="trimoe-known")


def _setting(model: str, batch: int, seed: int) -> Setting:
    return Setting(model, batch, samples=FEW, seed=seed)


def _listed(found: Drawn) -> str:
    return " / ".join(found.text(place) for place in range(len(found.values)))


@cache
def over_best(setting: Setting, *, measured: bool, system: str = "trimoe") -> float:
    """Return TriMoE's speedup over the best baseline.

    Parameters
    ----------
    measured
        Whether KTransformers reads with the measured bandwidth; else as TriMoE does.
    system
        "trimoe", or "trimoe-known" for the upper limit of relayout.
    """
    return min(baselines_ms(setting, measured=measured).values()) / mean_ms(system, setting)


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


def t18() -> Ours:
    """Speedup end to end over the strongest baseline, by model."""
    note = (
        "end to end, with attention, the KV cache on the host and a prompt, whose times under"
        " either system the paper does not state; of the layers with experts T3 and T4 speak"
    )
    return Ours((None,) * 3, "assumed", (), note)
