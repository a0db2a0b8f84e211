"""Which function computes which figure: one line each, imported when it is asked for."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.papers.figure import Ours
from moeopt import InputError

PACKAGE = "benchmarks.papers"

KTRANSFORMERS = {
    "figures": "k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k15",
    "other_systems": "k13 k14 k16 k17 k18 k19 k21 k23 k24",
    "executed": "k12 k13e k14e k20 k22 k25",
    "deferring": "k26 k27",
}
"""Module -> functions of its figures: of the own step, of stated numbers, of systems that are run,
of deferral alone.
"""


def _ktransformers() -> dict[str, str]:
    """Return KTransformers' figures in their order."""
    functions = [(name, module) for module, of in KTRANSFORMERS.items() for name in of.split()]
    functions.sort(key=lambda one: (int(one[0].strip("ke")), one[0]))
    return {
        name[0].upper() + name[1:]: f"{PACKAGE}.ktransformers.{module}:{name}"
        for name, module in functions
    }


CXL_RUN = ("C2", "C3", "C4")
"""Figures of context-aware CXL-NDP for which systems are run."""

FIGURES: dict[str, str] = {
    "T1": f"{PACKAGE}.trimoe.prediction:t1",
    "T2": f"{PACKAGE}.trimoe.prediction:t2",
    "T3": f"{PACKAGE}.trimoe.speedups:t3",
    "T3e": f"{PACKAGE}.trimoe.speedups:t3_one_bandwidth",
    "T4": f"{PACKAGE}.trimoe.speedups:t4",
    "T4e": f"{PACKAGE}.trimoe.speedups:t4_one_bandwidth",
    "T5": f"{PACKAGE}.trimoe.ablation:t5",
    "T6": f"{PACKAGE}.trimoe.ablation:t6",
    "T7": f"{PACKAGE}.trimoe.ablation:t7",
    "T7u": f"{PACKAGE}.trimoe.ablation:t7_upper_limit",
    "T5xT6xT7": f"{PACKAGE}.trimoe.ablation:product",
    "T8": f"{PACKAGE}.trimoe.utilization:t8",
    "T9": f"{PACKAGE}.trimoe.utilization:t9",
    "T10": f"{PACKAGE}.trimoe.utilization:t10",
    "T11": f"{PACKAGE}.trimoe.utilization:t11",
    "T12": f"{PACKAGE}.trimoe.speedups:t12",
    "T12e": f"{PACKAGE}.trimoe.end_to_end:t12_executed",
    "T13": f"{PACKAGE}.trimoe.sensitivity:t13",
    "T14": f"{PACKAGE}.trimoe.sensitivity:t14",
    "T15": f"{PACKAGE}.trimoe.migration:t15",
    "T16": f"{PACKAGE}.trimoe.skew:t16",
    "T17": f"{PACKAGE}.trimoe.skew:t17",
    "T18": f"{PACKAGE}.trimoe.end_to_end:t18",
    "T19": f"{PACKAGE}.trimoe.warm:t19",
    "T20": f"{PACKAGE}.trimoe.warm:t20",
    "T21": f"{PACKAGE}.trimoe.migration:t21",
    "T22": f"{PACKAGE}.trimoe.end_to_end:t22",
    "T23": f"{PACKAGE}.trimoe.prediction:t23",
    "T24": f"{PACKAGE}.trimoe.warm:t24",
    "T25": f"{PACKAGE}.trimoe.end_to_end:t25",
    **_ktransformers(),
    **{f"E{n}": f"{PACKAGE}.edge.figures:e{n}" for n in range(1, 8)},
    "E7e": f"{PACKAGE}.edge.end_to_end:e7e",
    **{f"E{n}": f"{PACKAGE}.edge.figures:e{n}" for n in range(8, 11)},
    **{
        name: f"{PACKAGE}.cxl.{'end_to_end' if name in CXL_RUN else 'figures'}:{name.lower()}"
        for name in ("C1", "C2", "C2d", "C3", "C3d", "C4", "C4d", "C5", "C6", "C7", "C8")
    },
    **{f"G{n}": f"{PACKAGE}.collaborative.figures:g{n}" for n in range(1, 17)},
}
"""Published id -> "module:function"; each function takes nothing and returns Ours."""


CHARTS: dict[str, str] = {
    "trimoe": f"{PACKAGE}.trimoe.charts:charts",
    "ktransformers": f"{PACKAGE}.ktransformers.charts:charts",
    "cpu_gpu_collaborative": f"{PACKAGE}.collaborative.charts:charts",
}
"""Paper -> "module:function" that returns its charts (`benchmarks.papers.charts`)."""

_SWEPT = {
    "trimoe": (
        "localized-bandwidth residents cpu-rate ndp-rate host-efficiency skew drift cold-share"
        " offline-loads tie-order refinement relayout-policy link-sum"
    ),
    "ktransformers": "fixed-time shared-efficiency",
    "edge": "monde-rule activation-latency slices prefetched-use balance-times ndp-rate",
    "cxl": "layer-overhead scale-bits",
    "collaborative": "single-miss other-time",
}

SWEEPS: dict[str, str] = {
    f"{package}-{name}": f"{PACKAGE}.{package}.sweeps:{name.replace('-', '_')}"
    for package, names in _SWEPT.items()
    for name in names.split()
}
"""Name -> "module:function" that returns a `benchmarks.papers.sweep.Sweep`."""

CONTRADICTIONS: dict[str, str] = {
    paper: f"{PACKAGE}.contradictions.{paper}:contradictions"
    for paper in (
        "trimoe",
        "ktransformers",
        "edge_gpu_ndp",
        "context_aware_cxl_ndp",
        "cpu_gpu_collaborative",
    )
}
"""Paper -> "module:function" that returns what in the paper does not agree with itself."""


def require_known(figure: str) -> None:
    """Raise InputError, with all ids in its message, if there is no figure of that id."""
    if figure not in FIGURES:
        raise InputError(f"id: {figure!r} is unknown; known ids: {', '.join(FIGURES)}")


def figure_function(figure: str) -> Callable[[], Ours]:
    """Return the function that computes a figure; InputError as `require_known`."""
    require_known(figure)
    function: Callable[[], Ours] = resolve(FIGURES[figure])
    return function


def resolve(place: str) -> Any:
    """Import what "module:name" names."""
    module, name = place.split(":")
    return getattr(import_module(module), name)
