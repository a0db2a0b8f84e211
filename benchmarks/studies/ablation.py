"""What each sub-method of an exact method gains: with it and without it, at equal work.

    python benchmarks/studies/ablation.py [--rows placement] [--work 5] [--write docs/ablation.md]

A row names a sub-method and how to switch it off. Its instances are solved with it and without it,
each with the same work limit (a unit is about a second of one core), and the table gives the gap
that is left (median and largest), how many are proven, and the CPU seconds of both. A sub-method
stays in the package only with a row that supports it; `verdict` says what was done about it.

To enter a sub-method add a `Row`. ``without`` names what stands in its place: the full name of a
function or attribute, and its value.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any
from unittest.mock import patch

import moeopt
from moeopt.core.feasibility import Feasibility
from moeopt.problems.balance.relaxations import Answer

LIBRARY = Path(__file__).parents[2] / "instances"


@dataclass(frozen=True)
class Row:
    """A sub-method, what stands in its place without it, and on what it is tried.

    Attributes
    ----------
    name
        Problem and sub-method, e.g. "placement: layer trees".
    method
        The exact method that it is part of.
    without
        Full name of an attribute -> its value without the sub-method.
    instances
        Patterns of files in the library.
    instead
        Another method that is taken without it, in place of a switch.
    verdict
        What was done, from the figures.
    """

    name: str
    method: str
    instances: tuple[str, ...]
    without: Mapping[str, Any] = field(default_factory=dict)
    instead: str | None = None
    verdict: str = "stays"


def _unknown(*_: object) -> Answer:
    return Answer(Feasibility.UNKNOWN, note="SWITCHED OFF")


def _never(*_: object, **__: object) -> bool:
    return False


PLACEMENT, JOINT = "moeopt.problems.placement.lagrangian", "moeopt.problems.joint.lagrangian"
EVACUATION = "moeopt.problems.relayout.striped_reads"
LAYOUT = "moeopt.problems.layout.multi_scenario"
WINDOWS = ("layout/windows/*", "layout/esft-windows/*")
BOUND_BY_GPU = ("placement/gpu-bound*/*", "placement/fill/*")

ROWS: tuple[Row, ...] = (
    Row(
        "placement: trees of layers at a price per slot",
        "price-and-swap",
        BOUND_BY_GPU,
        {f"{PLACEMENT}.scale_of": lambda _: 0},
    ),
    Row(
        "placement: residual problem by HiGHS",
        "price-and-swap",
        ("placement/gpu-bound/*", "placement/mixtral/*", "placement/equal-counts/*"),
        {f"{PLACEMENT}._Run.is_time": _never},
    ),
    Row(
        "placement: perturbed local optima",
        "price-and-swap",
        BOUND_BY_GPU,
        {f"{PLACEMENT}.PERTURBATIONS": 0},
    ),
    Row(
        "joint: relaxation of whole steps",
        "column-lagrangian",
        ("joint/mixtral/*", "joint/few-layers/*"),
        {f"{JOINT}.StepRelaxation.suits": _never},
    ),
    Row(
        "joint: pairs of changes",
        "column-lagrangian",
        ("joint/mixtral/*", "joint/v2-lite/*"),
        {f"{JOINT}.local_search.PAIRED": 1},
    ),
    Row(
        "cache: labels between bound and incumbent",
        "dp",
        ("cache/esft/*", "cache/synthetic-large/*"),
        {"moeopt.problems.cache.dynamic_program._close": lambda *_: None},
    ),
    Row(
        "balance: relaxation of the GPU",
        "dp",
        ("balance/prefill-published-rate/*", "balance/prefill-synthetic/*"),
        {"moeopt.problems.balance.dynamic_program.gpu_relaxation": _unknown},
    ),
    Row(
        "balance: CP-SAT with the flow shop in closed form",
        "cp-sat-closed-form",
        ("balance/prefill-published-rate/*", "balance/decode/*"),
        instead="cp-sat",
    ),
    Row(
        "relayout: plans of DIMMs",
        "evacuation",
        ("relayout/fair-esft/*", "relayout/esft-window/*", "relayout/paper-scale/*"),
        {f"{EVACUATION}.plan_model.PlanModel.applies": staticmethod(_never)},
    ),
    Row(
        "layout: aggregated program over windows",
        "bound-and-pack",
        WINDOWS,
        {f"{LAYOUT}.joint_bound.JointBound._aggregate": _never},
    ),
    Row(
        "layout: two-bin moves",
        "bound-and-pack",
        WINDOWS,
        {f"{LAYOUT}.incumbents.repartition": _never},
    ),
    Row(
        "layout: descents before annealing",
        "bound-and-pack",
        WINDOWS,
        {f"{LAYOUT}.incumbents.Improver._descend": _never},
    ),
)


@contextmanager
def _switched(row: Row) -> Iterator[str]:
    """Yield the method to run without the sub-method, its place taken meanwhile."""
    with ExitStack() as stack:
        for name, value in row.without.items():
            stack.enter_context(patch(name, value))
        yield row.instead or row.method


@dataclass(frozen=True)
class Figures:
    """Of all instances of a row: gaps in percent, how many are proven, CPU seconds."""

    gaps: list[float]
    proven: int
    cpu_s: float

    def __str__(self) -> str:
        middle, largest = statistics.median(self.gaps), max(self.gaps)
        return f"{middle:.3f} / {largest:.3f} | {self.proven} | {self.cpu_s:.1f}"


def measured(files: list[Path], method: str, work: float, seed: int) -> Figures:
    """Return what a method reaches within so much work on each instance."""
    gaps, proven, begin = [], 0, time.process_time()
    for file in files:
        result = moeopt.solve(moeopt.load(file), method, seed=seed, **_limit(work))
        best, bound = result.objective, result.bound
        if isinstance(best, tuple):
            best, bound = best[0], bound[0] if isinstance(bound, tuple) else None
        gaps.append(100.0 if best is None or bound is None else 100 * (1 - bound / max(1, best)))
        proven += result.status == "optimal"
    return Figures(gaps, proven, time.process_time() - begin)


def _limit(work: float) -> dict[str, Any]:
    return {"work_limit": work, "time_limit_s": 3600.0}


def main() -> int:
    """Print the table, one row after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--work", type=float, default=5.0)
    parser.add_argument("--most", type=int, default=8, help="instances of a row, evenly spaced")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(
        "| sub-method | instances | with: gap %, median / largest | proven | CPU s "
        "| without: gap % | proven | CPU s | |\n|---|---:|---:|---:|---:|---:|---:|---:|---|"
    )
    for row in ROWS:
        if given.rows not in row.name:
            continue
        files = sorted(
            file
            for file in LIBRARY.rglob("*.json*")
            if file.parent.parent.parent == LIBRARY
            and any(fnmatch(str(file.relative_to(LIBRARY)), p) for p in row.instances)
        )
        files = files[:: -(-len(files) // given.most)]
        whole = measured(files, row.method, given.work, given.seed)
        with _switched(row) as method:
            part = measured(files, method, given.work, given.seed)
        print(f"| {row.name} | {len(files)} | {whole} | {part} | {row.verdict} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
