"""What each sub-method of an exact method gains: with it and without it, at equal work.

    MOEOPT_TRACES=DIR python benchmarks/studies/ablation.py [--rows placement] [--work 2]
                                                            [--most 10] [--seeds 3]

A row names a sub-method and how to switch it off. Its instances are solved with it and without it,
with each seed and the same work limit (a unit is about a second of one core), and the table gives
the gap that is left (median and largest), how many are proven, the CPU seconds of both, by how much
the objectives together change without it, and how many solves have a lower or higher gap without
it. Where a row has fewer fresh instances than ``--most``, instances of the library fill it up,
those that are largest. A sub-method stays in the package only with a row that supports it;
`ablation.md` has the table of its date, and what was taken out.

To enter a sub-method add a `Row`. ``without`` says what stands in its place: a module or class, the
name of its attribute, and the value.
"""

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import product, zip_longest
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.algorithms import label_setting
from benchmarks.rooms.balance import Answer
from benchmarks.rooms.balance import dynamic_program as balance_dynamic_program
from benchmarks.rooms.cache import dynamic_program as cache_dynamic_program
from benchmarks.rooms.core import Feasibility, InstanceEnvelope
from benchmarks.rooms.joint import lagrangian as joint_lagrangian
from benchmarks.rooms.joint import local_search, relaxation
from benchmarks.rooms.layout import lagrangian as layout_lagrangian
from benchmarks.rooms.layout import multi_scenario, packing, rounds, subproblems
from benchmarks.rooms.placement import lagrangian as placement_lagrangian
from benchmarks.rooms.relayout import plan_model, plans, striped_reads, subproblem
from benchmarks.rooms.replication import anneal_and_refute
from benchmarks.rooms.split import labels

LIBRARY = Path(__file__).parents[2] / "instances"

ESFT, MIXTRAL = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
SKEW = {"machine": "trimoe", "workload": "trimoe-skew"}
LITE = {"machine": "trimoe", "model": "deepseek-v2-lite"}
CHANNELS = {"channels": "two DIMMs each", "dimm_share": "1/2"}
DECODE = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite", "rules_know": "steps"}
FAST = {"gpu_us": 25, "offload_us": 60, "fixed_us": 30}
PHASES = {"cold_cut": "tokens 0.08", "dimm_choice": "balanced", "layout_from": "offline trace"}
TURNS = {"cold_cut": "experts 0.7", "dimm_choice": "in turn", "layout_from": "earlier steps"}

Fresh = tuple[dict[str, Any], ...]
"""Arguments of `moeopt.generate`; a list stands for each of its values in turn."""

# Seeds, layers, steps and traces that no family of the library has, and that nothing was tuned on.
ONE_WINDOW: Fresh = (
    SKEW | {"model": ["deepseek-v2", "qwen3-235b-a22b"], "seed": 31, "batch": [192, 640],
            "hbm_slots": 6, "quantum_ns": 1, "layout_from": "none"},
    LITE | {"trace": f"{ESFT}/summary.npz", "layer": [7, 22], "batch": 256, "hbm_slots": 4,
            "quantum_ns": 1, "seed": 5, "layout_from": "none", "dimms": [8, 16]},
    SKEW | {"model": "deepseek-v2", "seed": 32, "batch": [128, 512], "first_window": 1} | CHANNELS,
)  # fmt: skip
LAYERS: Fresh = (
    SKEW | {"model": ["deepseek-v2", "qwen3-235b-a22b"], "seed": [39, 40], "batch": [64, 512]},
    SKEW | {"model": "deepseek-v2", "seed": 41, "batch": 256} | CHANNELS,
    LITE | {"trace": f"{ESFT}/summary.npz", "layer": [7, 22], "batch": 256, "seed": 0},
)  # fmt: skip
FINE: Fresh = (
    SKEW | {"model": ["deepseek-v2", "qwen3-235b-a22b"], "seed": [33, 34], "batch": [512, 768],
            "hbm_slots": 6, "quantum_ns": 1, "layout_from": "none", "table_noise": 0.03},
)  # fmt: skip
SEVERAL: Fresh = (
    SKEW | {"model": "deepseek-v2", "seed": 35, "batch": 256, "windows": [2, 4, 8]},
    LITE | {"trace": f"{ESFT}/summary.npz", "layer": [7, 22], "batch": 256, "windows": [2, 4, 8],
            "first_window": 0, "seed": 0, "layout_from": "none"},
)  # fmt: skip
MIGRATIONS: Fresh = (
    SKEW | {"model": ["deepseek-v2", "qwen3-235b-a22b"], "seed": 36, "batch": [32, 128],
            "windows": "one"} | PHASES,
    LITE | {"trace": f"{ESFT}/summary.npz", "layer": [7, 22], "batch": [128, 512], "seed": 0,
            "batching": "window", "residents": 4, "windows": "two"} | TURNS,
)  # fmt: skip
OWN_LINKS: Fresh = (
    SKEW | {"model": "deepseek-v2", "seed": [37, 38], "batch": [32, 128], "windows": "one",
            "link_sum": "per link"} | PHASES,
    SKEW | {"model": "qwen3-235b-a22b", "seed": [37], "batch": [32, 128], "windows": "one",
            "link_sum": "per link", "gpu_work": "two parts"} | PHASES | CHANNELS,
)  # fmt: skip
DECODES: Fresh = (
    DECODE | {"trace": f"{ESFT}/summary.npz", "batch": 1, "steps": 100, "first_step": 700,
              "seed": 0, "share": [0.25, 0.5]},
    DECODE | {"trace": f"{ESFT}/summary.npz", "batch": 16, "batching": "streams", "steps": 30,
              "first_step": 60, "seed": 0, "share": 0.5},
    DECODE | {"trace": f"{MIXTRAL}/roleplay.npz", "model": "mixtral-8x7b", "batch": 1, "steps": 150,
              "first_step": 500, "reserved_gib": 1.5, "seed": 0},
    DECODE | {"trace": f"{ESFT}/summary.npz", "batch": 1, "steps": 100, "first_step": 700,
              "seed": 0, "restriction": "equal-counts", "share": 0.5},
)  # fmt: skip
GPU_BINDS: Fresh = (
    DECODE | FAST | {"trace": f"{ESFT}/summary.npz", "batch": 1, "steps": 30, "layers": 4,
                     "first_step": 700, "seed": 0, "share": [0.5, 0.7, 0.9]},
    DECODE | FAST | {"trace": f"{ESFT}/summary.npz", "batch": 1, "steps": 120,
                     "first_step": 700, "seed": 0, "share": 0.6},
    DECODE | {"trace": f"{ESFT}/summary.npz", "batch": 32, "steps": 40, "share": 0.8, "seed": 0,
              "gpu_us": 60, "gpu_us_per_token": 4, "offload_us": 150, "offload_us_per_token": 15,
              "fixed_us": 30},
)  # fmt: skip
PLANS: Fresh = (
    {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "trace": f"{MIXTRAL}/roleplay.npz",
     "steps": 30, "first_step": 300, "bits": "2,4,8", "max_deferred": 1, "reserved_gib": 2.0,
     "quality_loss": [0.01, 0.03], "seed": 0},
    {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "trace": f"{MIXTRAL}/roleplay.npz",
     "layers": 4, "steps": 6, "share": 0.4, "bits": "4,8", "max_deferred": 1, "max_ways": [0, 1],
     "quality_loss": 0.05, "seed": 0},
    {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite", "trace": f"{ESFT}/summary.npz",
     "steps": 30, "first_step": 300, "quality_loss": 0.005, "share": 0.4, "max_deferred": [0, 4],
     "seed": 0},
)  # fmt: skip
CACHED: Fresh = (
    {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "trace": f"{MIXTRAL}/roleplay.npz",
     "steps": 12, "first_step": [300, 600], "bits": "2,4,8", "max_deferred": 1, "max_ways": 2,
     "reserved_gib": 2.0, "quality_loss": 0.03, "seed": 0},
)  # fmt: skip
UNDEFERRED: Fresh = (
    {"machine": "rtx4090-7960x", "model": "mixtral-8x7b", "trace": f"{MIXTRAL}/roleplay.npz",
     "layers": [4, 8, 16, 32], "steps": 12, "first_step": [300, 600, 900], "bits": "4,8",
     "max_ways": 2, "share": 0.35, "quality_loss": 0.05, "seed": 0},
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    """A sub-method, what stands in its place without it, and on what it is tried.

    Attributes
    ----------
    name
        Problem and sub-method, e.g. "placement: layer trees".
    method
        The exact method that it is part of.
    instances
        Fresh ones, or patterns of files in the library.
    without
        A module or class and its attribute's name -> the value without the sub-method.
    instead
        Another method that is taken without it, in place of a switch.
    """

    name: str
    method: str
    instances: Fresh | tuple[str, ...]
    without: Mapping[tuple[Any, str], Any] = field(default_factory=dict)
    instead: str | None = None

    @property
    def problem(self) -> str:
        """The problem's name."""
        return self.name.split(":")[0]


def _unknown(*_: object, **__: object) -> Answer:
    return Answer(Feasibility.UNKNOWN, note="SWITCHED OFF")


def _undecided(*_: object, **__: object) -> Feasibility:
    return Feasibility.UNKNOWN


def _no_answer(*_: object, **__: object) -> tuple[Feasibility, None]:
    return Feasibility.UNKNOWN, None


def _never(*_: object, **__: object) -> bool:
    return False


def _nothing(*_: object, **__: object) -> None:
    return None


def _all_rows(rows: NDArray[np.int64], *_: object) -> NDArray[np.int64]:
    return np.arange(len(rows))


NO_PRICE = property(lambda _: np.zeros(6, dtype=np.int64), lambda *_: None)
"""Multipliers of relayout's shared limits that are forgotten as soon as they are found."""

NO_FULL_PRICE = property(lambda _: (np.zeros(6, dtype=np.int64), {}), lambda *_: None)


ROWS: tuple[Row, ...] = (
    Row("tri_domain: threshold search", "threshold", LAYERS, instead="cp-sat"),
    Row("deferral: dynamic programming", "dp", ("deferral/*/*",), instead="cp-sat"),
    Row("bitwidth: dynamic programming", "dp", ("bitwidth/*/*",), instead="cp-sat"),
    Row("layout: bound and pack", "bound-and-pack", ONE_WINDOW, instead="cp-sat"),
    Row("layout: multipliers of a branch", "bound-and-pack", ONE_WINDOW,
        {(layout_lagrangian, "dual_multipliers"): _nothing}),
    Row("layout: arc flow with the hosts", "bound-and-pack", ONE_WINDOW,
        {(subproblems.Subproblems, "with_arc_flow"): _undecided}),
    Row("layout: two DIMMs filled again", "bound-and-pack", ONE_WINDOW,
        {(packing, "repair"): _never}),
    Row("layout: multipliers of a branch (times without a divisor)", "bound-and-pack", FINE,
        {(layout_lagrangian, "dual_multipliers"): _nothing}),
    Row("layout: annealing", "bound-and-pack", SEVERAL,
        {(multi_scenario, "in_turn"): lambda *_: iter(())}),
    Row("layout: annealing at several numbers of striped experts", "bound-and-pack", SEVERAL,
        {(rounds, "_with_striped"): lambda _, __, state, ___: state}),
    Row("relayout: plans of DIMMs", "evacuation", MIGRATIONS,
        {(plan_model.PlanModel, "applies"): staticmethod(_never)}),
    Row("relayout: CP-SAT without targets", "evacuation", MIGRATIONS,
        {(striped_reads._Decomposition, "_by_cp_sat"): _no_answer}),
    Row("relayout: CP-SAT without targets (a link for each DIMM)", "evacuation", OWN_LINKS,
        instead="cp-sat"),
    Row("relayout: a first pass of CP-SAT", "evacuation", OWN_LINKS,
        {(subproblem, "FIRST_PASS"): {"max_deterministic_time": 0.5}}),
    Row("relayout: Lagrangian bound", "evacuation", MIGRATIONS,
        {(striped_reads, "lower_bound"): lambda _: 0}),
    Row("relayout: undominated plans and labels", "evacuation", MIGRATIONS,
        {(of, "undominated"): _all_rows for of in (label_setting, plan_model, plans)}),
    Row("relayout: multipliers that are known from before", "evacuation", MIGRATIONS,
        {(plan_model.PlanModel, "_price"): NO_PRICE,
         (plan_model.PlanModel, "_full_price"): NO_FULL_PRICE}),
    Row("relayout: experts that must leave, counted", "evacuation", OWN_LINKS,
        {(subproblem.Dimm, "least_leavers"): lambda *_: 0}),
    Row("placement: price and swap", "price-and-swap", DECODES, instead="cp-sat"),
    Row("placement: linear relaxation", "price-and-swap", GPU_BINDS,
        {(placement_lagrangian, "linear_relaxation"): lambda *_: None}),
    Row("placement: residual problem", "price-and-swap", DECODES,
        {(placement_lagrangian, "solve_residual"): lambda *_: (0, None)}),
    Row("placement: residual problem before prices have converged", "price-and-swap", DECODES,
        {(placement_lagrangian._Run, "is_time"): _never}),
    Row("joint: columns", "column-lagrangian", PLANS, instead="cp-sat"),
    Row("joint: all columns, where nothing is deferred", "column-lagrangian", UNDEFERRED,
        {(joint_lagrangian, "suits"): _never}),
    Row("joint: relaxation of whole steps", "column-lagrangian", PLANS,
        {(joint_lagrangian.StepRelaxation, "suits"): _never}),
    Row("joint: pairs of changes", "column-lagrangian", PLANS,
        {(local_search, "PAIRED"): 1}),
    Row("joint: memory in whole units", "column-lagrangian", PLANS,
        {(relaxation, "MOST_CELLS"): 0}),
    Row("joint: prices without caches first", "column-lagrangian", CACHED,
        {(joint_lagrangian, "WITHOUT_CACHES"): 0}),
    Row("split: runs of equal layers, counted", "labels", ("split/*/*",),
        {(labels, "_counted"): lambda *_: True}),
    Row("split: moves and exchanges of parts", "labels", ("split/*/*",),
        {(labels, "improved"): lambda _, homes: homes}),
    Row("split: labels", "labels", ("split/*/*",), instead="cp-sat"),
    Row("replication: annealing", "anneal-and-refute", ("replication/*/*",),
        {(anneal_and_refute, "_improve"): _nothing}),
    Row("replication: exchanges of one or two copies of like size", "anneal-and-refute",
        ("replication/*/*",),
        {(anneal_and_refute, "_has_exchanges"): _never}),
    Row("replication: one bound for all windows", "anneal-and-refute", ("replication/*/*",),
        {(anneal_and_refute, "joint_bound"): _nothing}),
    Row("replication: other shares of groups over nodes", "anneal-and-refute",
        ("replication/*nodes*/*",),
        {(anneal_and_refute, "_node_starts"): lambda *_: []}),
    Row("cache: labels between bound and incumbent", "dp",
        ("cache/esft/*", "cache/synthetic-large/*"),
        {(cache_dynamic_program, "_close"): lambda *_: None}),
    Row("balance: relaxation of the GPU", "dp",
        ("balance/prefill-published-rate/*", "balance/prefill-synthetic/*"),
        {(balance_dynamic_program, "gpu_relaxation"): _unknown}),
)  # fmt: skip


@contextmanager
def _switched(row: Row) -> Iterator[str]:
    """Yield the method to run without the sub-method, its place taken meanwhile."""
    with ExitStack() as stack:
        for (owner, name), value in row.without.items():
            of_instances = isinstance(value, property)  # an attribute that the class does not have
            stack.enter_context(patch.object(owner, name, value, create=of_instances))
        yield row.instead or row.method


@dataclass(frozen=True)
class Figures:
    """Of all instances of a row: gaps in percent, how many are proven, all objectives, CPU s."""

    gaps: list[float]
    proven: int
    total: int
    cpu_s: float

    def __str__(self) -> str:
        middle, largest = statistics.median(self.gaps), max(self.gaps)
        return f"{middle:.3f} / {largest:.3f} | {self.proven} | {self.cpu_s:.1f}"


def instances_of(row: Row, most: int) -> list[InstanceEnvelope]:
    """Return a row's instances, at most so many of them, evenly spaced."""
    found: list[dict[str, Any] | Path] = []
    for entry in row.instances:
        if isinstance(entry, str):
            found += sorted(LIBRARY.glob(f"{entry}.json*"))
            continue
        listed = {name: of if isinstance(of, list) else [of] for name, of in entry.items()}
        found += [dict(zip(listed, point, strict=True)) for point in product(*listed.values())]
    chosen = found[:: -(-len(found) // most)]
    return [moeopt.load(of) if isinstance(of, Path) else _made(row.problem, of) for of in chosen]


def filled(row: Row, most: int) -> list[InstanceEnvelope]:
    """Return a row's instances; where fresh ones are fewer than `most`, some of the library too."""
    found = instances_of(row, most)
    if not isinstance(row.instances[0], str):
        found += map(moeopt.load, _largest(row.problem)[: most - len(found)])
    return found


def _largest(problem: str) -> list[Path]:
    """Return a problem's instances of the library, of each family in turn, the largest first."""
    best = json.loads((LIBRARY / problem / "best_known.json").read_text())
    families: dict[str, list[Path]] = {}
    for file in sorted(best, key=lambda name: -(LIBRARY / problem / name).stat().st_size):
        families.setdefault(file.split("/")[0], []).append(LIBRARY / problem / file)
    turns = zip_longest(*families.values())
    return [path for turn in turns for path in turn if path is not None]


def _made(problem: str, arguments: Mapping[str, Any]) -> InstanceEnvelope:
    given = dict(arguments)
    if "trace" in given:
        given["trace"] = moeopt.load_trace(Path(os.environ["MOEOPT_TRACES"]) / given["trace"])
    return moeopt.generate(problem, **given)


def measured(
    instances: list[InstanceEnvelope],
    method: str,
    work: float,
    seeds: Sequence[int],
    limit_s: float | None = None,
) -> Figures:
    """Return what a method reaches within so much work on each instance, and so many seconds."""
    gaps, proven, total, begin = [], 0, 0, time.process_time()
    for instance, seed in product(instances, seeds):
        result = moeopt.solve(instance, method, time_limit_s=limit_s, work_limit=work, seed=seed)
        best, bound = result.objective, result.bound
        if isinstance(best, tuple):
            best, bound = best[0], bound[0] if isinstance(bound, tuple) else None
        gaps.append(100.0 if best is None or bound is None else 100 * (1 - bound / max(1, best)))
        proven += result.status == "optimal"
        total += best or 0
    return Figures(gaps, proven, total, time.process_time() - begin)


def main() -> int:
    """Print the table, one row after the other."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", default="", help="only rows whose name contains this")
    parser.add_argument("--work", type=float, default=2.0)
    parser.add_argument("--most", type=int, default=6, help="instances of a row, evenly spaced")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--seeds", type=int, default=1, help="how many seeds")
    given = parser.parse_args()
    seeds = range(given.seed, given.seed + given.seeds)
    print(
        f"{date.today()}, work limit {given.work:g}, seeds {seeds.start} to {seeds.stop - 1}\n\n"
        "| sub-method | instances | with: gap %, median / largest | proven | CPU s "
        "| without: gap % | proven | CPU s | objectives without | gap lower, higher without |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    known: dict[tuple[int, str], Figures] = {}
    for row in ROWS:
        if given.rows not in row.name:
            continue
        instances, at = filled(row, given.most), (id(row.instances), row.method)
        if at not in known:
            known[at] = measured(instances, row.method, given.work, seeds)
        with _switched(row) as method:
            part = measured(instances, method, given.work, seeds)
        worse = 100 * (part.total / max(1, known[at].total) - 1)
        pairs = [*zip(known[at].gaps, part.gaps, strict=True)]
        lower = sum(without < gap - 5e-4 for gap, without in pairs)
        higher = sum(without > gap + 5e-4 for gap, without in pairs)
        count = f"{len(instances)} x {len(seeds)}" if len(seeds) > 1 else f"{len(instances)}"
        changes = f"{worse:+.3f} % | {lower}, {higher}"
        print(f"| {row.name} | {count} | {known[at]} | {part} | {changes} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
