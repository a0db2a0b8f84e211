"""How near placements of copies come to their bounds, and what they are worth a window later.

    python benchmarks/studies/replication.py scale [--count 25]
    python benchmarks/studies/replication.py general --traces DIR [--limit 10]
    python benchmarks/studies/replication.py later --traces DIR

DIR holds the traces that ``instances/replication/families.toml`` names.

``scale``: 256 experts on 32 to 320 devices, loads of 8,192 tokens by two laws, one window and eight
(``--windows``): on how many of `count` instances per row `anneal-and-refute` is proven optimal or
within 0.5 % of its bound (2 % for several windows), the largest gap, and what that takes on one
core. ``general``: the same method beside CP-SAT and HiGHS on the same instances in one run.
``later``: each rule decides on a window, or on the last four, and is measured on that and on the
next one: balancedness, the mean of all devices' loads over the fullest one's. A window is 100 steps
of eight tokens (256 experts: of 64). The optimum of the next window is what nobody can know.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from moeopt.problems.holdout import run_on
from moeopt.problems.replication.check import peaks_units
from moeopt.problems.replication.heuristics import HEURISTICS
from moeopt.problems.replication.instance import Instance
from moeopt.sim.presets import find
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.workload import Workload

SIZES = [(32, 9), (64, 5), (320, 1), (320, 2)]
"""Devices and slots of `scale`."""

LAWS = ("trimoe-skew", "esft-deepseek-v2-lite")
EXPERTS, TOP_K = 256, 8
ENOUGH = {1: 0.005, 8: 0.02}
"""Windows -> the gap that is asked for."""


def loads(law: str, windows: int, seed: int, batch: int = 8192) -> Any:
    """Return loads of 256 experts by a law, shape (windows, experts)."""
    trace = long_trace(law, windows * batch, seed, batch)
    rows = trace.topk_ids[:, 0, :].reshape(windows, -1)
    return np.array([np.bincount(row, minlength=EXPERTS) for row in rows])


@cache
def long_trace(law: str, tokens: int, seed: int, batch: int) -> Trace:
    """Return a trace of one layer."""
    workload = find("workloads", Workload, law)
    return routing_trace(workload, EXPERTS, TOP_K, 1, tokens, seed, batch=batch)


def scale(arguments: argparse.Namespace) -> None:
    """Print one row per size and law."""
    windows = arguments.windows
    print("| devices x slots | law | instances | optimal | near enough | largest gap | CPU s |")
    print("|---|---|---:|---:|---:|---:|---|")
    for devices, slots in SIZES:
        for law in LAWS:
            gaps, seconds, proven = [], [], 0
            for seed in range(arguments.count):
                instance = Instance.from_arrays(
                    loads=loads(law, windows, seed), devices=devices, slots=slots, name=f"{seed}"
                )
                found, cpu = solved(instance, arguments.limit, ENOUGH[windows])
                gaps.append(found.gap)
                seconds.append(cpu)
                proven += found.status == "optimal"
            near = sum(gap <= ENOUGH[windows] for gap in gaps)
            spent = f"median {statistics.median(seconds):.2f}, most {max(seconds):.1f}"
            row = [f"{devices} x {slots}", law, len(gaps), proven, near, f"{max(gaps):.2%}", spent]
            print(f"| {' | '.join(map(str, row))} |", flush=True)


def solved(instance: Instance, limit_s: float, enough: float) -> tuple[Any, float]:
    """Return the method's result, and the seconds of processor time it took."""
    cpu = time.process_time()
    found = moeopt.solve(
        instance, "anneal-and-refute", time_limit_s=limit_s, workers=1, enough_gap=enough
    )
    return found, time.process_time() - cpu


def general(arguments: argparse.Namespace) -> None:
    """Print gaps of the own method and of general solvers, in the same time on one core."""
    methods = ("anneal-and-refute", "cp-sat", "milp")
    print("| instance | " + " | ".join(f"{method}: gap, CPU s" for method in methods) + " |")
    print("|---|" + "---|" * len(methods))
    for name, instance in general_cases(arguments.traces):
        cells = []
        for method in methods:
            cpu = time.process_time()
            found = moeopt.solve(instance, method, time_limit_s=arguments.limit, workers=1)
            cpu = time.process_time() - cpu
            gap = "none" if found.gap is None else f"{found.gap:.3%}"
            cells.append(f"{gap}, {cpu:.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def general_cases(traces: Path) -> Iterator[tuple[str, Instance]]:
    """Yield the golden case, real layers and one of 256 experts."""
    golden = [600, 560, 120, 120, 20, 10, 10, 10]
    yield "golden, 8 x 2", Instance.from_arrays(loads=golden, devices=8, slots=2, name="golden")
    for task, layer, devices, windows in (
        ("law", 4, 8, 1),
        ("intent", 17, 8, 1),
        ("law", 17, 8, 4),
    ):
        made = esft(traces, task, layer, 0, windows, devices, 9)
        yield f"esft {task} layer {layer}, {devices} x 9, {windows} windows", made
    one = loads("trimoe-skew", 1, 0)
    yield "256 experts, 32 x 9", Instance.from_arrays(loads=one, devices=32, slots=9, name="256")


@cache
def esft_trace(traces: Path, task: str) -> Trace:
    """Return a trace of DeepSeek-V2-Lite."""
    return moeopt.load_trace(traces / "esft_deepseek_v2_lite" / f"{task}.npz")


def esft(
    traces: Path, task: str, layer: int, first: int, windows: int, devices: int, slots: int
) -> Instance:
    """Return windows of 100 steps of eight tokens of a layer of DeepSeek-V2-Lite."""
    made: Instance = moeopt.generate(
        "replication",
        machine="trimoe",
        model="deepseek-v2-lite",
        trace=esft_trace(traces, task),
        batch=800,
        layer=layer,
        first_window=first,
        windows=windows,
        devices=devices,
        slots=slots,
    )
    return made


@dataclass(frozen=True)
class Cell:
    """Windows that are seen, and the next one."""

    seen: Instance
    later: Instance

    def last(self) -> Instance:
        """Return the last window seen."""
        return self.seen.model_copy(update={"windows": self.seen.windows[-1:]})


def cells(traces: Path, devices: int, slots: int, nodes: int, experts: int) -> Iterator[Cell]:
    """Yield the cells of a size: of two tasks, three layers and two places; or of four seeds."""
    if experts == EXPERTS:
        for seed in range(4):
            rows = loads("esft-deepseek-v2-lite", 5, seed, 6400)
            fields = {"devices": devices, "slots": slots, "nodes": nodes, "groups": 8}
            both = (
                Instance.from_arrays(loads=part, name="cell", **fields)
                for part in (rows[:4], rows[4:])
            )
            yield Cell(*both)
        return
    for task in ("law", "intent"):
        for layer in (4, 12, 20):
            for first in (0, 5):
                seen = esft(traces, task, layer, first, 4, devices, slots)
                yield Cell(seen, esft(traces, task, layer, first + 4, 1, devices, slots))


RULES = ("round-robin", "longest-first", "eplb-hierarchical", "lplb", "flashlb", "optimum")
CASES = [
    *[(64, 8, 9, 1), (64, 8, 12, 1), (64, 16, 5, 1), (64, 32, 3, 1)],
    *[(256, 32, 9, 1), (256, 32, 9, 4)],
]
"""Experts, devices, slots and nodes of `later`."""


def later(arguments: argparse.Namespace) -> None:
    """Print mean balancedness by rule, on what was seen and on the next window."""
    print("| experts | devices x slots | nodes | seen | rule | on what was seen | on the next |")
    print("|---|---|---|---|---|---:|---:|")
    for experts, devices, slots, nodes in CASES:
        found: dict[tuple[str, str], list[tuple[float, float]]] = {}
        ahead = []
        for cell in cells(arguments.traces, devices, slots, nodes, experts):
            for known, seen in (("1 window", cell.last()), ("4 windows", cell.seen)):
                for rule in (*RULES, "robust"):
                    if rule == "robust" and known == "1 window":
                        continue
                    both = measured(seen, cell.later, rule)
                    if both is not None:
                        found.setdefault((known, rule), []).append(both)
            best, _ = solved(cell.later, 10, 0.001)
            ahead.append(balancedness(cell.later, peaks_units(cell.later, best.solution)))
        for (known, rule), pairs in found.items():
            here, next_one = (statistics.mean(column) for column in zip(*pairs, strict=True))
            name = f"{experts} | {devices} x {slots} | {nodes} | {known} | {rule}"
            print(f"| {name} | {here:.3f} | {next_one:.3f} |", flush=True)
        known = "the next window | optimum"
        name = f"{experts} | {devices} x {slots} | {nodes} | {known}"
        print(f"| {name} | | {statistics.mean(ahead):.3f} |", flush=True)


def measured(seen: Instance, after: Instance, rule: str) -> tuple[float, float] | None:
    """Return a rule's balancedness on what it saw and on the window after it."""
    if rule == "lplb":
        free = {"split": "free"}
        seen, after = seen.model_copy(update=free), after.model_copy(update=free)
    if rule == "optimum":
        solution = solved(seen, 10, 0.001)[0].solution
    elif rule == "robust":
        solution = moeopt.solve(seen, "robust", time_limit_s=60).solution
    else:
        solution = HEURISTICS[rule](seen)
    if solution is None:
        return None
    return (
        balancedness(seen, peaks_units(seen, solution)),
        balancedness(after, int(run_on(after, solution))),
    )


def balancedness(instance: Instance, peaks: int) -> float:
    """Return the devices' mean over the fullest one, summed over windows."""
    return float((instance.loads_units.sum(axis=1) / instance.devices).sum() / peaks)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["scale", "general", "later"])
    parser.add_argument("--traces", type=Path, help="folder with the traces")
    parser.add_argument("--count", type=int, default=25, help="instances per row of scale")
    parser.add_argument("--windows", type=int, choices=list(ENOUGH), default=1)
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per solve")
    arguments = parser.parse_args()
    if arguments.what != "scale" and arguments.traces is None:
        parser.error(f"{arguments.what}: needs --traces DIR")
    {"scale": scale, "general": general, "later": later}[arguments.what](arguments)
    sys.stdout.flush()
    os._exit(0)  # a solver that its time limit left behind may run on, and would end with an abort


if __name__ == "__main__":
    main()
