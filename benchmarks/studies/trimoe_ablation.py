"""What each part of TriMoE brings, and what exact decisions add to it, on loads that really come.

    python benchmarks/studies/trimoe_ablation.py [--batches 32,512] [--seeds 2] [--json FILE]

Every stage runs the same steps of the same synthetic traces; each number is a mean makespan of one
MoE layer over seeds and steps. The stages, each the one before and one thing more:

    GPU-NDP             MoNDE: GPU and NDP, all experts localized, balanced on the mean loads
    + CPU               TriMoE's offline layout, and the cheapest path for each expert
    + refinement        TriMoE's scheduler (4.2)
    + relayout          TriMoE's migrations (4.3), decided on loads predicted by Eq. 8
    + optimal schedule  the same layouts, every schedule optimal
    + optimal layout    the offline layout optimal for the mean loads
    + optimal migrations   the migrations optimal for the predicted loads
    hindsight           the migrations optimal for the loads that come, on the same layout before
    any layout          the optimum if every step could have the layout it likes

The offline layouts are decided on the mean loads of the steps before, rounded up to whole tokens;
an expert never seen is localized on the DIMM with the fewest. Layout changes last, prefetched
experts are dropped after their step. Hindsight and any layout are no policies: they know the loads.
With --oracle all migrations do: what relayout could bring if predictions were perfect.
"""

import argparse
import json
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise, product
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.layout import Solution as LayoutSolution
from benchmarks.rooms.layout import generate as layouts
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.relayout import Instance as Relayout
from benchmarks.rooms.relayout import Migration, execute, migrated
from benchmarks.rooms.relayout import generate as relayout
from benchmarks.rooms.sim import (
    LayerWindows,
    Source,
    Workload,
    find,
    get_model,
    path_cost,
    predict_run,
)
from benchmarks.rooms.tri_domain import (
    STRIPED,
    Layout,
    Schedule,
    cold_localized,
    greedy,
    monde,
    trimoe,
)
from benchmarks.rooms.tri_domain import Instance as Layer
from benchmarks.rooms.tri_domain import Solution as Assignment
from moeopt import get_machine

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
BATCHES = (32, 64, 128, 256, 512, 768)
STAGES = (
    "GPU-NDP",
    "+ CPU",
    "+ refinement",
    "+ relayout",
    "+ optimal schedule",
    "+ optimal layout",
    "+ optimal migrations",
    "hindsight",
    "any layout",
)
EXACT = {"tri_domain": "threshold", "layout": "bound-and-pack", "relayout": "evacuation"}
"""The exact method of each problem; "cp-sat" where a problem has no such method."""

Loads = NDArray[np.int64]


@dataclass(frozen=True)
class Point:
    """One model, batch and seed, and how to run it."""

    model: str
    batch: int
    seed: int
    warm_up: int
    steps: int
    workload: str
    policy: str
    oracle: bool
    time_limit_s: float


@dataclass
class Outcome:
    """The makespans of a point's steps by stage, and how the exact methods ended."""

    point: Point
    makespans_ns: dict[str, list[int]] = field(default_factory=lambda: {s: [] for s in STAGES})
    solves: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EXACT, 0))
    unproven: dict[str, int] = field(default_factory=lambda: dict.fromkeys(EXACT, 0))


class Run:
    """One point: the loads of its steps, and the machine that they come to."""

    def __init__(self, point: Point) -> None:
        workload = find("workloads", Workload, point.workload)
        self.source = Source(
            get_machine("trimoe"), get_model(point.model), workload=workload, seed=point.seed
        )
        self.options = relayout.Options(batch=point.batch)
        drawn = point.warm_up + point.steps
        windows = LayerWindows.of(self.source, self.options, drawn)
        self.loads = [windows.load(step) for step in range(drawn)]
        self.point, self.outcome = point, Outcome(point)

    def all(self) -> Outcome:
        """Run every stage on every step."""
        mean_load = np.ceil(np.mean(self.loads[: self.point.warm_up], axis=0)).astype(np.int64)
        self.static("GPU-NDP", self.all_localized(mean_load), monde)
        offline = layouts.of_loads(self.source, layouts.Options(), [mean_load], "mean loads")
        usual = self.placed(moeopt.solve(offline, "trimoe-layout-tuned").solution)
        best = self.placed(self.exact(offline))
        self.static("+ CPU", usual, greedy)
        self.static("+ refinement", usual, trimoe)
        policy = self.point.policy
        self.migrating(usual, policy, {"+ relayout": trimoe, "+ optimal schedule": self.optimal})
        self.migrating(best, policy, {"+ optimal layout": self.optimal})
        self.migrating(best, None, {"+ optimal migrations": self.optimal}, "hindsight")
        for load in self.executed():
            free = layouts.of_loads(self.source, layouts.Options(), [load], "any layout")
            self.note("any layout", moeopt.check(free, self.exact(free)).objective)
        return self.outcome

    def executed(self) -> list[Loads]:
        """Return the loads of the steps that count."""
        return self.loads[self.point.warm_up :]

    def static(self, stage: str, layout: Layout, schedule: Schedule) -> None:
        """Run every step on one layout."""
        for load in self.executed():
            self.note(stage, execute(self.on(load, layout), (), schedule).makespan_ns)

    def migrating(
        self,
        layout: Layout,
        policy: str | None,
        stages: dict[str, Schedule],
        hindsight: str | None = None,
    ) -> None:
        """Run every step after migrations decided on the prediction, by a policy or optimally."""
        predicted = np.rint(predict_run(np.array(self.loads)[:, None])[:, 0]).astype(np.int64)
        known = predicted[self.point.warm_up - 1 :]
        for load, expected in zip(self.executed(), known, strict=True):
            before, came = self.on(expected, layout), self.on(load, layout)
            seen = came if self.point.oracle else before
            decision = self.exact(seen) if policy is None else moeopt.solve(seen, policy).solution
            for stage, schedule in stages.items():
                self.note(stage, execute(came, decision.migrations, schedule).makespan_ns)
            if hindsight is not None:
                knowing = self.exact(came).migrations
                self.note(hindsight, execute(came, knowing, self.optimal).makespan_ns)
            layout = moved(before, decision.migrations)

    def on(self, load: Loads, layout: Layout) -> Relayout:
        """Return the relayout instance of loads on a layout."""
        return relayout.on_layout(self.source, self.options, load, layout, "step")

    def all_localized(self, load: Loads) -> Layout:
        """Return MoNDE's layout, balanced by NDP time."""
        machine, model = self.source.machine, self.source.model
        ndp_ns = np.where(load > 0, path_cost(machine, model, "ndp", np.maximum(load, 1)), 0)
        return cold_localized(load, machine.dram.dimms, 1.0, 0, ndp_ns)

    def placed(self, solution: LayoutSolution) -> Layout:
        """Return a layout for the run; experts without one go to the emptiest DIMMs."""
        dimm = np.array([STRIPED if d is None else d for d in solution.dimm])
        runs = [domain is not None for domain in solution.assignment[0]]
        held = np.bincount(dimm[dimm >= 0], minlength=self.source.machine.dram.dimms)
        for expert in np.flatnonzero(~np.array(runs)):
            dimm[expert] = held.argmin()
            held[dimm[expert]] += 1
        return Layout(np.array(solution.resident), dimm)

    def optimal(self, layer: Layer) -> Assignment:
        """Return an optimal schedule of a layer."""
        found: Assignment = self.exact(layer)
        return found

    def exact(self, instance: Any) -> Any:
        """Return the best solution within the time limit, and count whether it is proven.

        Without any it is the one that the exact methods start from.
        """
        problem = instance.problem
        method = EXACT[problem] if EXACT[problem] in moeopt.methods(problem) else "cp-sat"
        result = moeopt.solve(instance, method, time_limit_s=self.point.time_limit_s)
        if result.termination == "interrupted":
            raise KeyboardInterrupt
        self.outcome.solves[problem] += 1
        self.outcome.unproven[problem] += result.status != "optimal"
        if result.solution is None:
            return get_problem(problem).heuristics.WARM_START(instance)
        return result.solution

    def note(self, stage: str, makespan_ns: int | None) -> None:
        """Keep a step's makespan."""
        self.outcome.makespans_ns[stage].append(makespan_ns)


def moved(instance: Relayout, migrations: Iterable[Migration]) -> Layout:
    """Return the layout after a step: the moves stay, prefetched experts are dropped."""
    experts = migrated(instance, [m for m in migrations if m.kind != "prefetch"])
    dimm = [STRIPED if expert.dimm is None else expert.dimm for expert in experts]
    return Layout(np.array([expert.resident for expert in experts]), np.array(dimm))


def run(point: Point) -> Outcome:
    """Run one point."""
    return Run(point).all()


def run_all(points: list[Point], jobs: int) -> list[Outcome]:
    """Run all points, in this process or in several."""
    if jobs == 1:
        return [run(point) for point in points]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(run, points))


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", default=",".join(MODELS), help="presets, comma-separated")
    parser.add_argument("--batches", default=",".join(map(str, BATCHES)), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=2, help="seeds 0, 1, ... (default: 2)")
    parser.add_argument("--warm-up", type=int, default=8, help="steps before (default: 8)")
    parser.add_argument("--steps", type=int, default=4, help="steps that count (default: 4)")
    parser.add_argument("--workload", default="trimoe-skew", help="preset or JSON file")
    parser.add_argument("--policy", default="benefit-greedy", help="heuristic of relayout")
    parser.add_argument("--oracle", action="store_true", help="migrate knowing the loads")
    parser.add_argument("--time-limit", type=float, default=2.0, help="s per exact solve")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--json", type=Path, help="write every makespan to this file")
    a = parser.parse_args()
    fixed = (a.warm_up, a.steps, a.workload, a.policy, a.oracle, a.time_limit)
    models, batches = a.models.split(","), [int(batch) for batch in a.batches.split(",")]
    points = [Point(*p, *fixed) for p in product(models, batches, range(a.seeds))]
    outcomes = run_all(points, a.jobs)
    decided = "the loads that come" if a.oracle else "predicted loads"
    print(f"{a.workload}, {a.seeds} seeds x {a.steps} steps after {a.warm_up}.")
    print(f"Migrations: {a.policy} on {decided}; 4 moves and 2 prefetches fit a step.")
    print("16 DIMMs, no residents; ties of the cheapest path: GPU, CPU, NDP.\n")
    tables(outcomes, models, batches)
    for problem in EXACT:
        solves = sum(outcome.solves[problem] for outcome in outcomes)
        unproven = sum(outcome.unproven[problem] for outcome in outcomes)
        print(f"{problem}: {unproven} of {solves} exact solves not proven in {a.time_limit:g} s")
    if a.json is not None:
        rows = [vars(o.point) | {"makespans_ns": o.makespans_ns} for o in outcomes]
        a.json.write_text(json.dumps(rows, indent=1) + "\n")


def tables(outcomes: list[Outcome], models: list[str], batches: list[int]) -> None:
    """Print the mean makespans, then what each stage brings."""
    head("makespan in ms", "batch", *STAGES)
    for model, batch in product(models, batches):
        means = stage_means(outcomes, model, {batch})
        print(row(model, batch, *(f"{ns / 1e6:.2f}" for ns in means)))
    print()
    head("times faster", "batch", *STAGES[1:], "first four, total", "all policies, total")
    for batch in [*batches, "all"]:
        chosen = set(batches) if batch == "all" else {batch}
        ratios = [speedups(stage_means(outcomes, model, chosen)) for model in models]
        print(row("mean of models", batch, *(f"{mean(r):.2f}" for r in zip(*ratios, strict=True))))
    print()


def stage_means(outcomes: list[Outcome], model: str, batches: set[Any]) -> list[float]:
    """Return the mean makespan of every stage, in ns."""
    chosen = [o for o in outcomes if o.point.model == model and o.point.batch in batches]
    return [mean(ns for o in chosen for ns in o.makespans_ns[stage]) for stage in STAGES]


def speedups(means: list[float]) -> list[float]:
    """Return each stage's gain over the one before, that of TriMoE, and that of all policies."""
    steps = [before / after for before, after in pairwise(means)]
    return [*steps, means[0] / means[3], means[0] / means[6]]


def head(*cells: str) -> None:
    """Print the head of a Markdown table."""
    print(row(*cells))
    print(row("---", *["---:"] * (len(cells) - 1)))


def row(*cells: object) -> str:
    """Return one line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


if __name__ == "__main__":
    main()
