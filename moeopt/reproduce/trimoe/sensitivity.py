"""T13 and T14, Fig. 9: how many NDP units and how fast a CPU are worth having."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from moeopt.reproduce.figure import Ours
from moeopt.reproduce.trimoe.ablation import LOADS, UPPER
from moeopt.reproduce.trimoe.executed import FEW, mean_ms
from moeopt.reproduce.trimoe.setting import MODELS, SAMPLES, Setting

NDP_COUNTS = (4, 8, 16, 32)
CPU_SCALES = (0.125, 0.25, 0.5, 1.0, 2.0)
"""Fig. 9(b): from AVX, about 0.125 of AMX, to twice AMX. Fig. 9(a)'s places are not in the text."""

FINE_NDP_COUNTS = (4, 8, 12, 16, 24, 32)
"""For the curve."""

BEST = "trimoe-optimal-schedule"
"""With the exact schedule in place of the refinement."""

KNEE = (
    "the knee is where the curve, scaled to a unit square, is farthest below the line between its"
    " ends (Kneedle, Satopaa et al. 2011): one rule for T13 and T14"
)


def t13() -> Ours:
    """Return the number of NDP units after which latency stabilizes."""
    curves = {model: ndp_curve(model) for model in MODELS}
    each = {model: knee(NDP_COUNTS, ys) for model, ys in curves.items()}
    best = knee(NDP_COUNTS, mean_curve(ndp_curve(m, BEST, samples=FEW) for m in MODELS))
    mean = mean_curve(curves.values())
    fine = knee(FINE_NDP_COUNTS, mean_curve(ndp_curve(m, at=FINE_NDP_COUNTS) for m in MODELS))
    return Ours(
        (knee(NDP_COUNTS, mean),),
        "selected",
        (LOADS, UPPER, KNEE, "counts double from 4 to 32, as the rates of Fig. 9(b) do"),
        f"{_words(each)}; with 12 and 24 as well the knee is at {fine:g}, and from 16 to 32 units"
        f" latency still falls by {1 - mean[-1] / mean[-2]:.0%}: 16 hangs on the places looked at",
        optimum=(best,),
    )


def t14() -> Ours:
    """Return the CPU rate, as a share of AMX, at which the curve flattens."""
    curves = {model: cpu_curve(model) for model in MODELS}
    each = {model: knee(CPU_SCALES, ys) for model, ys in curves.items()}
    best = knee(CPU_SCALES, mean_curve(cpu_curve(m, BEST, samples=FEW) for m in MODELS))
    ours = knee(CPU_SCALES, mean_curve(curves.values()))
    return Ours((ours,), "assumed", (LOADS, UPPER, KNEE), _words(each), optimum=(best,))


def ndp_curve(
    model: str,
    system: str = "trimoe",
    *,
    at: Sequence[int] = NDP_COUNTS,
    samples: int = SAMPLES,
) -> list[float]:
    """Return a system's makespan in ms at each number of NDP units."""
    return [mean_ms(system, Setting(model, samples=samples, dimms=count)) for count in at]


def cpu_curve(model: str, system: str = "trimoe", *, samples: int = SAMPLES) -> list[float]:
    """Return a system's makespan in ms at each of `CPU_SCALES`."""
    return [mean_ms(system, Setting(model, samples=samples, cpu_scale=s)) for s in CPU_SCALES]


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


def _words(each: dict[str, float]) -> str:
    return "knee of " + ", ".join(f"{model} at {at:g}" for model, at in each.items())
