"""How long a runtime's calls take, once per layer and step: the package's and solvers'.

    python benchmarks/studies/online.py [--seeds 15] [--limit 0.3]

Windows of `tri_domain` of models of 64, 128, 256 and 512 experts on TriMoE's machine. Instances,
with their tables, and the solvers' models are made beforehand: of CP-SAT and HiGHS only the solving
counts, of `moeopt.solve` the whole call with its checker. All run on one core; what is compared is
CPU time. The callers take turns, so that none has the processor's caches to itself; the least of
three turns counts. CP-SAT and HiGHS get ``--limit`` seconds; ``≥`` marks figures that more would
raise, and there is no second turn. No answer counts unless the checker says so, and no proof is
contradicted.
"""

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import product
from math import ceil
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import moeopt
from benchmarks.rooms.core import compile_all
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.sim import get_model
from benchmarks.rooms.tri_domain import DOMAINS, Domain, Instance, Scheduler, Solution

MODELS = ("deepseek-v2-lite", "qwen3-235b-a22b", "deepseek-v3", "qwen3-next-80b-a3b")
BATCHES = (32, 256, 1024)
MACHINE = "trimoe"
TURNS = 3

Answer = tuple[Callable[[], Solution] | None, bool]
"""What makes the schedule once the clock has stopped, and whether it is proven."""

Call = Callable[[], Answer]
Statistic = Callable[[list[float]], float]


def windows(seeds: range) -> list[Instance]:
    """Return a window of each seed, model and batch."""
    return [
        moeopt.generate(
            "tri_domain",
            machine=MACHINE,
            model=model,
            workload="trimoe-skew",
            batch=batch,
            seed=seed,
            name=f"{model}-batch{batch}-seed{seed}",
        )
        for seed, model, batch in product(seeds, MODELS, BATCHES)
    ]


def fresh(instance: Instance) -> Instance:
    """Return a copy of an instance without the arrays that earlier calls cached on it."""
    return type(instance).model_validate(instance.model_dump())


def by_solve(instance: Instance) -> Call:
    """Return the public call on a copy that nothing has computed on."""
    copy = fresh(instance)

    def solve() -> Answer:
        found = moeopt.solve(copy, "threshold")
        return lambda: found.solution, found.status == "optimal"

    return solve


def in_a_row(instance: Instance) -> Call:
    """Return the public call right after one on a copy: the processor has its code at hand."""
    by_solve(instance)()
    return by_solve(instance)


def by_scheduler(instance: Instance) -> Call:
    """Return one call of a scheduler that was made for the instance's layout."""
    assert instance.provenance is not None
    model = get_model(instance.provenance["model"])
    tokens, layout = np.zeros(model.routed_experts, np.int64), np.full(model.routed_experts, -1)
    columns = instance.columns
    tokens[columns.expert], layout[columns.expert] = columns.tokens, columns.dimm
    scheduler = Scheduler(MACHINE, model, layout)

    def schedule() -> Answer:
        domain, makespan, bound = scheduler.schedule(tokens)
        return lambda: solution(domain[columns.expert].tolist()), makespan == bound

    def solution(domains: list[int]) -> Solution:
        return Solution(instance=instance.name, assignment=tuple(DOMAINS[d] for d in domains))

    return schedule


def rows_of(instance: Instance) -> list[list[tuple[int, Domain, int]]]:
    """Return what may keep each device busy: GPU, CPU, then the DIMMs (TD-C3 to TD-C5).

    Each term is an expert's place, a domain, and how long it keeps the device busy there.
    """
    experts = list(enumerate(instance.experts))
    dimms: list[list[tuple[int, Domain, int]]] = [[] for _ in range(instance.dimms)]
    for i, e in experts:
        for row in dimms if e.dimm is None else [dimms[e.dimm]]:
            row += [(i, "gpu", e.gpu_dram_ns), (i, "cpu", e.cpu_dram_ns)]
            row += [] if e.ndp_ns is None else [(i, "ndp", e.ndp_ns)]
    return [
        [(i, "gpu", e.gpu_ns) for i, e in experts],
        [(i, "cpu", e.cpu_ns) for i, e in experts],
        *dimms,
    ]


def by_cpsat(instance: Instance, limit_s: float) -> Call:
    """Return CP-SAT on the textbook model: a boolean per expert and domain, a row per device."""
    rows, model, places = rows_of(instance), cp_model.CpModel(), range(len(instance.experts))
    runs = [{domain: model.new_bool_var(f"{domain}_{i}") for domain in DOMAINS} for i in places]
    makespan = model.new_int_var(0, sum(ns for row in rows for _, _, ns in row), "makespan")
    for expert, of in zip(instance.experts, runs, strict=True):
        model.add_exactly_one(of.values())
        if expert.dimm is None:
            model.add(of["ndp"] == 0)
    for row in rows:
        model.add(sum(ns * runs[i][domain] for i, domain, ns in row) <= makespan)
    model.minimize(makespan)

    def solve() -> Answer:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.max_time_in_seconds = limit_s
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, False
        value = lambda i, domain: solver.value(runs[i][domain])  # noqa: E731
        return partial(read_off, instance, value), status == cp_model.OPTIMAL

    return solve


def by_highs(instance: Instance, limit_s: float) -> Call:
    """Return HiGHS on the same model as arrays: three columns per expert, the makespan last."""
    experts, rows = len(instance.experts), rows_of(instance)
    busy = np.zeros((len(rows), 3 * experts + 1))
    for place, row in enumerate(rows):
        for i, domain, ns in row:
            busy[place, 3 * i + DOMAINS.index(domain)] = ns
    busy[:, -1] = -1
    one_domain = np.hstack([np.kron(np.eye(experts), np.ones(3)), np.zeros((experts, 1))])
    upper = np.append(np.ones(3 * experts), np.inf)
    ndp = DOMAINS.index("ndp")
    upper[[3 * i + ndp for i, expert in enumerate(instance.experts) if expert.dimm is None]] = 0
    objective = np.append(np.zeros(3 * experts), 1.0)
    model: dict[str, Any] = {
        "integrality": 1 - objective,
        "bounds": Bounds(0, upper),
        "constraints": [LinearConstraint(busy, ub=0), LinearConstraint(one_domain, 1, 1)],
        "options": {"time_limit": limit_s, "mip_rel_gap": 0},
    }

    def solve() -> Answer:
        found = milp(objective, **model)
        if found.x is None:
            return None, False
        at = lambda i, domain: found.x[3 * i + DOMAINS.index(domain)]  # noqa: E731
        return partial(read_off, instance, at), found.status == 0

    return solve


def read_off(instance: Instance, value: Callable[[int, Domain], float]) -> Solution:
    """Return the solution in which each expert takes the domain of the largest value."""
    places = range(len(instance.experts))
    assignment = tuple(max(DOMAINS, key=partial(value, i)) for i in places)
    return Solution(instance=instance.name, assignment=assignment)


@dataclass(frozen=True)
class Time:
    """CPU seconds of a call on a window, its makespan if it found one, and whether it is proven."""

    seconds: float
    makespan: int | None
    proven: bool


def timed(instance: Instance, call: Call) -> Time:
    """Return what a call takes; what it finds is judged by the checker."""
    begin = process_time()
    made, proven = call()
    seconds = process_time() - begin
    if made is None:
        return Time(seconds, None, proven)
    solution = made()
    problem = get_problem("tri_domain")
    if wrong := list(problem.violations(instance, solution)):
        raise SystemExit(f"{instance.name}: {wrong[0]}")
    return Time(seconds, problem.objective(instance, solution), proven)


def measured(instance: Instance, limit_s: float) -> dict[str, Time]:
    """Return what each call takes on a window; SystemExit if a proof is contradicted."""
    callers: dict[str, Callable[[], Call]] = {
        "moeopt.solve": partial(by_solve, instance),
        "moeopt.solve, in a row": partial(in_a_row, instance),
        "Scheduler.schedule": partial(by_scheduler, instance),
        "CP-SAT": partial(by_cpsat, instance, limit_s),
        "HiGHS": partial(by_highs, instance, limit_s),
    }
    found: dict[str, Time] = {}
    for _ in range(TURNS):
        for name, make in callers.items():
            if name not in found or found[name].proven:
                one = timed(instance, make())
                found[name] = min(found.get(name, one), one, key=lambda time: time.seconds)
    known = [one.makespan for one in found.values() if one.makespan is not None]
    for name, one in found.items():
        if one.proven and one.makespan != min(known):
            raise SystemExit(f"{instance.name}: {name} proves {one.makespan} of {min(known)}")
    return found


def figure(times: list[Time], values: list[float], statistic: Statistic) -> str:
    """Return a statistic; ``≥`` if longer times where nothing was proven would raise it."""
    value = statistic(values)
    pairs = zip(times, values, strict=True)
    raised = statistic([of if time.proven else float("inf") for time, of in pairs])
    return f"{'≥ ' if raised > value else ''}{value:.3g}"


def percentile(percent: int) -> Statistic:
    """Return the nearest-rank percentile: a time that was measured, not one between two."""
    return lambda values: sorted(values)[ceil(percent * len(values) / 100) - 1]


def table(found: list[dict[str, Time]]) -> list[str]:
    """Return a row for each caller over all windows."""
    lines = ["| caller | proven | median ms | p95 ms | p99 ms | × `moeopt.solve` |"]
    lines.append("|---|---:|---:|---:|---:|---:|")
    base = [one["moeopt.solve"].seconds for one in found]
    for name in found[0]:
        times = [one[name] for one in found]
        ms = [1e3 * time.seconds for time in times]
        ratios = [time.seconds / own for time, own in zip(times, base, strict=True)]
        cells = [f"{sum(time.proven for time in times)}/{len(times)}"]
        cells += [figure(times, ms, of) for of in (median, percentile(95), percentile(99))]
        cells += [figure(times, ratios, median)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def first_windows() -> str:
    """Return what the first windows take once a scheduler is made: call it in a new process.

    The wall's time with CPU time beside: where they differ, something else had the processor.
    """
    layout, rng = np.arange(64) % 16, np.random.default_rng(101)
    layout[:8] = -1
    scheduler = moeopt.tri_domain.Scheduler(MACHINE, "deepseek-v2-lite", layout)
    drawn = [rng.multinomial(6 * 128, rng.dirichlet(np.full(64, 0.3))) for _ in range(400)]
    wall, cpu = [], []
    for tokens in drawn:
        begin, computed = perf_counter(), process_time()
        scheduler.schedule(tokens)
        wall.append(perf_counter() - begin)
        cpu.append(process_time() - computed)
    return f"400 windows after the constructor: wall {_spread(wall)}; CPU {_spread(cpu)}"


def _spread(times: list[float]) -> str:
    """Return the first of some times, their median, p99 and largest."""
    at = {"median": 0.5, "p99": 0.99, "most": 1.0}
    said = [f"{name} {1e3 * np.quantile(times, share):.3f}" for name, share in at.items()]
    return f"first {1e3 * times[0]:.3f}, {', '.join(said)} ms"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=15)
    parser.add_argument("--limit", type=float, default=0.3, help="seconds of CP-SAT and HiGHS")
    given = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # HiGHS counts the cores that it may use
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    print(first_windows(), flush=True)
    compile_all()
    instances = windows(range(given.seeds))
    measured(instances[0], given.limit)  # imports and first calls take nobody's time
    print("\n".join(table([measured(instance, given.limit) for instance in instances])))


if __name__ == "__main__":
    main()
