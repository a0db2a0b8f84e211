"""T13 and T14, Fig. 9: how many NDP units and how fast a CPU are worth having."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import fmean

from benchmarks.papers.figure import Kind, Ours
from benchmarks.papers.seeds import SEEDS, over_seeds
from benchmarks.papers.trimoe.ablation import COLD, LOADS, SCHEDULER
from benchmarks.papers.trimoe.executed import mean_ms
from benchmarks.papers.trimoe.setting import FEW, MODELS, Setting

NDP_COUNTS = (4, 8, 16, 32)
CPU_SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Fig. 9(b): from AVX, about 0.125 of AMX, to twice AMX. Fig. 9(a)'s places are not in the text."""

FINE_NDP_COUNTS = (4, 8, 12, 16, 24, 32)
"""For the curve."""

SYSTEM = "trimoe-refined"

WITHOUT = "without relayout, which as it can be executed moves latency by a few per cent (T7)"

KNEE = (
    "the knee is where the curve, scaled to a unit square, is farthest below the line between its"
    " ends (Kneedle, Satopaa et al. 2011): one rule for T13 and T14"
)


def t13() -> Ours:
    """Return the number of NDP units after which latency stabilizes."""
    curves = [ndp_curve(model, seed) for model in MODELS for seed in SEEDS]
    mean = mean_curve(curves)
    note = (
        f"at the doubling counts alone, 4 to 32, the knee is at {knee(NDP_COUNTS, mean):g}, and"
        f" from 16 to 32 units latency still falls by {1 - mean[-1] / mean[-2]:.0%}: 16 hangs on"
        " the places looked at"
    )
    fine = partial(ndp_curve, at=FINE_NDP_COUNTS)
    return _ours(FINE_NDP_COUNTS, fine, "assumed", ("counts 4, 8, 12, 16, 24 and 32",), note)


def t14() -> Ours:
    """Return the CPU rate, as a share of AMX, at which the curve flattens."""
    return _ours(CPU_SCALES, cpu_curve, "assumed", ())


def _ours(
    xs: Sequence[float],
    curve: Callable[..., list[float]],
    kind: Kind,
    assumptions: tuple[str, ...],
    note: str = "",
) -> Ours:
    """Return the knee of the models' mean curve at each seed, and each model's in words."""

    def at_seed(seed: int) -> tuple[float, ...]:
        curves = [curve(model, seed) for model in MODELS]
        return knee(xs, mean_curve(curves)), *(knee(xs, ys) for ys in curves)

    found = over_seeds(at_seed)
    best_of = "the optimum's knee is that of the first seed, with the best schedules"
    best = knee(xs, mean_curve(curve(m, SEEDS[0], "optimal-schedule") for m in MODELS))
    each = zip(MODELS, found.values[1:], strict=True)
    words = "knee of " + ", ".join(f"{model} at {at:.3g}" for model, at in each)
    return Ours(
        found.values[:1],
        kind,
        (LOADS, SCHEDULER, COLD, WITHOUT, KNEE, *assumptions),
        "; ".join(part for part in (f"{words}, means over the seeds", note, best_of) if part),
        optimum=(best,),
        intervals=found.intervals[:1],
        seeds=found.seeds,
    )


def ndp_curve(
    model: str, seed: int, system: str = SYSTEM, *, at: Sequence[int] = NDP_COUNTS
) -> list[float]:
    """Return a system's makespan in ms at each number of NDP units."""
    setting = Setting(model, samples=FEW, seed=seed)
    return [mean_ms(system, setting.on(dimms=count)) for count in at]


def cpu_curve(model: str, seed: int, system: str = SYSTEM) -> list[float]:
    """Return a system's makespan in ms at each of `CPU_SCALES`."""
    setting = Setting(model, samples=FEW, seed=seed)
    return [mean_ms(system, setting.on(cpu_scale=scale)) for scale in CPU_SCALES]


def mean_curve(curves: Iterable[Sequence[float]]) -> list[float]:
    """Return the mean of several curves, place by place."""
    return [fmean(values) for values in zip(*curves, strict=True)]


def knee(xs: Sequence[float], ys: Sequence[float]) -> float:
    """Return where a falling curve is farthest below the line between its ends.

    Both axes are scaled to 0-1 first; of equal places the first counts.
    """
    low, high = min(ys), max(ys)
    if high == low:
        return xs[0]
    depth = [
        1 - (x - xs[0]) / (xs[-1] - xs[0]) - (y - low) / (high - low)
        for x, y in zip(xs, ys, strict=True)
    ]
    return xs[depth.index(max(depth))]
