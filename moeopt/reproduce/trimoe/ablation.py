"""T5 to T7 and Fig. 8: what each part of TriMoE brings at batch 512."""

from statistics import fmean, stdev

from moeopt.reproduce.figure import Ours
from moeopt.reproduce.trimoe.executed import optimum_gain, run, speedup
from moeopt.reproduce.trimoe.setting import MODELS, Setting

STAGES = ("monde", "trimoe-greedy", "trimoe-refined", "trimoe")
"""GPU-NDP, + CPU, + refinement, + relayout: each system of Fig. 8."""

LOADS = (
    "synthetic routing, exponential in rank as T16 says, drift 0.3 per step (the paper gives none)"
)
BASELINE = (
    "GPU-NDP is MoNDE on the same machine, its experts on the DIMMs in turn as in TriMoE's own"
    " offline layout here"
)
TIES = (
    "a localized expert costs GPU and CPU the same read; of equal paths the first of GPU, CPU, NDP"
    " is taken, and the split between T5 and T6 hangs on it"
)
COLD = "the share of localized experts is the best one for the mean loads of 8 earlier steps"
UPPER = (
    "relayout is an upper limit: the offline rule's layout for the loads that come, at no cost;"
    " no prefetching"
)


def t5() -> Ours:
    """Return what the CPU adds to GPU and NDP, with greedy scheduling."""
    best = gain("monde", "optimal-schedule")
    return Ours(
        (gain("monde", "trimoe-greedy"),),
        "selected",
        (LOADS, BASELINE, TIES, COLD),
        f"{_each('monde', 'trimoe-greedy')}; with MoNDE's experts balanced on mean loads, which is"
        f" slower, {gain('monde-balanced', 'trimoe-greedy'):.2f}; optimum: the best schedule on the"
        " same layout",
        optimum=(best,),
    )


def t6() -> Ours:
    """Return what the bottleneck-aware refinement adds."""
    best = gain("trimoe-greedy", "optimal-schedule")
    return Ours(
        (gain("trimoe-greedy", "trimoe-refined"),),
        "selected",
        (LOADS, TIES, COLD),
        f"{_each('trimoe-greedy', 'trimoe-refined')}; optimum: the best schedule in its place",
        optimum=(best,),
    )


def t7() -> Ours:
    """Return what relayout and rebalancing add."""
    best = fmean(
        speedup("trimoe-refined", "trimoe", setting) * optimum_gain("trimoe", setting)
        for setting in _settings()
    )
    whole = total()
    return Ours(
        (gain("trimoe-refined", "trimoe"),),
        "assumed",
        (LOADS, COLD, UPPER),
        f"{_each('trimoe-refined', 'trimoe')}; T5 x T6 x T7 = {whole:.2f}, published 2.60: the"
        " robust statement; optimum: the best layout and schedule for each step",
        optimum=(best,),
    )


def total() -> float:
    """Return T5 x T6 x T7 as measured at once: GPU-NDP over TriMoE, mean of the models."""
    return gain("monde", "trimoe")


def gain(slow: str, fast: str) -> float:
    """Return the mean over the models of a speedup at batch 512."""
    return fmean(speedup(slow, fast, setting) for setting in _settings())


def _each(slow: str, fast: str) -> str:
    """Say what each model has, and how far single layers scatter."""
    gains = [speedup(slow, fast, setting) for setting in _settings()]
    spread = [
        stdev((run(slow, s).makespan_ns / run(fast, s).makespan_ns).mean(axis=0))
        for s in _settings()
    ]
    models = ", ".join(f"{name} {g:.2f}" for name, g in zip(MODELS, gains, strict=True))
    return f"{models}; single layers scatter by {max(spread):.2f}"


def _settings() -> list[Setting]:
    return [Setting(model) for model in MODELS]
