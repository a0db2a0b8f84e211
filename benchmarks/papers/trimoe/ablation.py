"""T5 to T7 and Fig. 8: what each part of TriMoE brings at batch 512."""

from collections.abc import Callable
from functools import cache
from statistics import fmean

from benchmarks.papers.figure import Kind, Ours
from benchmarks.papers.seeds import SEEDS, Drawn, over_seeds
from benchmarks.papers.trimoe.executed import speedup
from benchmarks.papers.trimoe.setting import FEW, MODELS, Changes, Setting

STAGES = ("monde", "trimoe-greedy", "trimoe-refined", "trimoe")
"""GPU-NDP, + CPU, + refinement, + relayout: each system of Fig. 8."""

LOADS = (
    "synthetic routing, exponential in rank as T16 says, drift 0.3 per step (the paper gives none)"
)
BASELINE = (
    "GPU-NDP is MoNDE on the same machine, its experts on the DIMMs in turn as in TriMoE's own"
    " offline layout here"
)
SCHEDULER = (
    "TriMoE's scheduler at its default assumptions: of equal paths (a localized expert costs GPU"
    " and CPU the same read) the first of CPU, GPU, NDP, and one candidate in each iteration"
)
COLD = (
    "the share of localized experts is the one of least makespan over 8 earlier steps, under the"
    " scheduler that runs on the layout: greedy assignment and refinement have a layout each"
)
MIGRATIONS = (
    "relayout as it can be executed, at its default assumptions: decided on the loads that Eq. 8"
    " predicts, four moves and what prefetches fit into the one window of 0.68 ms before a step, by"
    " how much each makes its expert's cheapest path cheaper"
)
UPPER = (
    "an upper limit of relayout: the offline rule's layout for the loads that come, at no cost; no"
    " prefetching"
)
FIRST = "the optimum's part is that of the first seed"


def t5() -> Ours:
    """Return what the CPU adds to GPU and NDP, with greedy scheduling."""
    found = drawn("monde", "trimoe-greedy")
    balanced = drawn("monde-balanced", "trimoe-greedy")
    note = (
        f"{_each('monde', 'trimoe-greedy')}; Qwen3 and GLM have as many experts, so that their"
        " loads count twice; with MoNDE's experts balanced on mean loads, which is slower,"
        f" {balanced.text()}; other orders of ties, and a layout from mean loads, are swept;"
        " optimum: the best schedule in place of greedy, on the layout of the refined stage;"
        f" {FIRST}"
    )
    return _ours(found, "assumed", (LOADS, BASELINE, SCHEDULER, COLD), note, "optimal-schedule")


def t6() -> Ours:
    """Return what the bottleneck-aware refinement adds."""
    found = drawn("trimoe-greedy", "trimoe-refined")
    note = (
        f"{_each('trimoe-greedy', 'trimoe-refined')}; optimum: the best schedule on the"
        f" same layout; {FIRST}"
    )
    return _ours(
        found, "assumed", (LOADS, SCHEDULER, COLD), note, "optimal-schedule", "trimoe-refined"
    )


def t7() -> Ours:
    """Return what relayout and rebalancing add, executed on predicted loads."""
    found = drawn("trimoe-refined", "trimoe")
    note = (
        f"{_each('trimoe-refined', 'trimoe')}; ranked by how much the makespan falls, the kinder"
        f" reading, {_other_reading().text()}; T7u is the upper limit; the drift, which is what"
        " relayout mends, has no source; other policies and windows are swept; optimum: the best"
        f" layout and schedule for each step; {FIRST}"
    )
    return _ours(found, "selected", (LOADS, SCHEDULER, COLD, MIGRATIONS), note, "optimum", "trimoe")


def t7_upper_limit() -> Ours:
    """Return what relayout could add at most, without prefetching."""
    found = drawn("trimoe-refined", "trimoe-known")
    note = _each("trimoe-refined", "trimoe-known")
    return _ours(found, "limit", (LOADS, SCHEDULER, COLD, UPPER), note)


def product() -> Ours:
    """Return T5 x T6 x T7 as measured at once: GPU-NDP over TriMoE."""
    found = drawn("monde", "trimoe")
    most = drawn("monde", "trimoe-known")
    note = (
        "the product of the published 1.75, 1.28 and 1.16; how it is split between T5 and T6 hangs"
        f" on the order of ties, the product does not; with the upper limit of relayout"
        f" {most.text()}; optimum: the best layout and schedule for each step; {FIRST}"
    )
    assumptions = (LOADS, BASELINE, SCHEDULER, COLD, MIGRATIONS)
    return _ours(found, "selected", assumptions, note, "optimum", "trimoe")


def _other_reading() -> Drawn:
    """Return T7 if the benefit of a migration is the fall of the makespan."""
    changes: Changes = {"samples": FEW, "migrations": "benefit-makespan"}
    return over_seeds(lambda seed: (gain("trimoe-refined", "trimoe", seed, changes),))


@cache
def drawn(slow: str, fast: str) -> Drawn:
    """Return the mean over the models of a speedup at batch 512, over the seeds."""
    return over_seeds(lambda seed: (gain(slow, fast, seed),))


def gain(slow: str, fast: str, seed: int, changes: Changes | None = None) -> float:
    """Return the mean over the models of a speedup at batch 512, with changes of the setting."""
    settings = (Setting(model, seed=seed).on(**(changes or {})) for model in MODELS)
    return fmean(speedup(slow, fast, setting) for setting in settings)


def _ours(
    found: Drawn,
    kind: Kind,
    assumptions: tuple[str, ...],
    note: str,
    best: str | None = None,
    fast: str = "trimoe-greedy",
) -> Ours:
    """Return the figure; with a system that is the best in place of `fast`, the optimum as well."""
    optimum = () if best is None else (found.values[0] * _better(fast, best),)
    return Ours(
        found.values,
        kind,
        assumptions,
        note,
        optimum=optimum,
        intervals=found.intervals,
        seeds=found.seeds,
    )


def _better(system: str, best: str) -> float:
    """Return by how much the best is faster than a system, on the first seed's first samples."""
    return gain(system, best, SEEDS[0], {"samples": FEW})


def _each(slow: str, fast: str) -> str:
    """Say what each model has, with its interval."""

    def of(model: str) -> Callable[[int], tuple[float, ...]]:
        return lambda seed: (speedup(slow, fast, Setting(model, seed=seed)),)

    return ", ".join(f"{model} {over_seeds(of(model)).text()}" for model in MODELS)
