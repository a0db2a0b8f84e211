"""How near placements of copies come to their bounds, and what they are worth a window later.

    python benchmarks/studies/replication.py scale [--count 10] [--windows 8] [--tokens 256]
    python benchmarks/studies/replication.py general [--traces DIR] [--limit 10]
    python benchmarks/studies/replication.py later --traces DIR

DIR holds the traces that ``instances/replication/families.toml`` names.

``scale``: 256 experts on 32 devices of nine slots and 64 of five; 64, 256 and 1,024 tokens a
device; loads by two laws in turn; tokens or an H100's kernel times; one window or eight: on how
many of `count` instances per row `anneal-and-refute` is proven optimal or within 0.5 % of its bound
within ten units of work, the median and the largest gap, and the CPU seconds it takes at most.
``general``: the same method beside CP-SAT and HiGHS on the same instances in one run.
``later``: each rule decides on a window of 384 tokens, or on the last four, and is measured on that
and on the next one, over the sum of its steps' bounds: decoding in steps of 64 tokens (kernel times
of an H100 in FP8, with their launches), prompts in one step (tokens). Seven traces of two models,
three layers and two places each; intervals are of the distance to the best rule, from 1,000 draws
of whole traces. The first row is the simplest rule whose interval reaches down to the best.
"""

import argparse
import statistics
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.replication import (
    HEURISTICS,
    KERNELS,
    Instance,
    linear_shares,
    lower_bound,
    peaks_units,
    single_copies,
)
from benchmarks.rooms.sim import Trace, Workload, find, routing_trace
from moeopt import dedupe_trace

SIZES = [(32, 9), (64, 5)]
"""Devices and slots of `scale`."""

PER_DEVICE = (64, 256, 1024)
"""Tokens of a window by device, of `scale`."""

WORKS = ("tokens", "kernel")
LAWS = ("trimoe-skew", "esft-deepseek-v2-lite")
EXPERTS, TOP_K = 256, 8
SHAPE = (7168, 2048)
"""DeepSeek-V3's layer."""
ENOUGH = 0.005


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


def kernel_of(work: str) -> dict[str, Any]:
    """Return an instance's fields for a work, of DeepSeek-V3's experts on an H100."""
    return {} if work == "tokens" else {"work": work, **KERNELS[GPU].of(*SHAPE)}


def scale(arguments: argparse.Namespace) -> None:
    """Print one row per work, size and tokens."""
    what = "work | devices x slots | tokens a device | instances | optimal | within 0.5 %"
    print(f"| {what} | median gap, by law | largest | CPU s, most |")
    print("|---|---|---:|---:|---:|---:|---|---|---:|")
    for work in WORKS:
        for devices, slots in SIZES:
            for tokens in arguments.tokens:
                gaps, seconds, proven = [], [], 0
                for seed in range(arguments.count):
                    rows = loads(LAWS[seed % 2], arguments.windows, seed, tokens * devices)
                    instance = Instance.from_arrays(
                        loads=rows, devices=devices, slots=slots, name=f"{seed}", **kernel_of(work)
                    )
                    begin = time.process_time()
                    found = moeopt.solve(
                        instance,
                        "anneal-and-refute",
                        work_limit=arguments.limit,
                        enough_gap=ENOUGH,
                    )
                    seconds.append(time.process_time() - begin)
                    gaps.append(1.0 if found.gap is None else found.gap)
                    proven += found.status == "optimal"
                near = sum(gap <= ENOUGH for gap in gaps)
                of_law = (gaps[law::2] for law in range(min(len(gaps), len(LAWS))))
                middle = ", ".join(f"{statistics.median(each):.2%}" for each in of_law)
                row = [work, f"{devices} x {slots}", tokens, len(gaps), proven, near, middle]
                row += [f"{max(gaps):.2%}", f"{max(seconds):.1f}"]
                print(f"| {' | '.join(map(str, row))} |", flush=True)


def general(arguments: argparse.Namespace) -> None:
    """Print gaps of the own method and of general solvers, in the same work on one core."""
    methods = ("anneal-and-refute", "cp-sat", "milp")
    print("| instance | " + " | ".join(f"{method}: gap, CPU s" for method in methods) + " |")
    print("|---|" + "---|" * len(methods))
    for name, instance in general_cases(arguments.traces):
        cells = []
        for method in methods:
            cpu = time.process_time()
            found = moeopt.solve(instance, method, work_limit=arguments.limit)
            cpu = time.process_time() - cpu
            gap = "none" if found.gap is None else f"{found.gap:.3%}"
            cells.append(f"{gap}, {cpu:.1f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def general_cases(traces: Path | None) -> Iterator[tuple[str, Instance]]:
    """Yield the golden case, 256 experts by either work, and real layers if there are traces."""
    golden = [600, 560, 120, 120, 20, 10, 10, 10]
    yield "golden, 8 x 2", Instance.from_arrays(loads=golden, devices=8, slots=2, name="golden")
    rows = loads(LAWS[0], 1, 0)
    for work in WORKS:
        made = Instance.from_arrays(loads=rows, devices=32, slots=9, name="256", **kernel_of(work))
        yield f"256 experts, 32 x 9, {work}", made
    for task, layer, windows in (("law", 4, 1), ("intent", 17, 1), ("law", 17, 4)):
        if traces is not None:
            made = esft(traces, task, layer, 0, windows, 8, 9)
            yield f"esft {task} layer {layer}, 8 x 9, {windows} windows", made


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
class Layers:
    """Layers of a trace, the devices that serve its model, and the shape of its experts."""

    trace: str
    devices: int
    slots: int
    shape: tuple[int, int]

    def tokens(self, traces: Path, layer: int) -> Any:
        """Return the experts of each token in a layer, and how many experts there are."""
        ids = loaded(traces / f"{self.trace}.npz")
        return ids[:, layer, :], int(ids.max()) + 1


@cache
def loaded(file: Path) -> Any:
    """Return the experts of each token in each layer of a trace, no text twice."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", moeopt.MoeoptWarning)  # of what is read twice
        return dedupe_trace(moeopt.load_trace(file)).topk_ids


ESFT, HDMOE = "esft_deepseek_v2_lite", "hdmoe_mixtral_8x7b"
SOURCES = [
    *[Layers(f"{ESFT}/{name}", 8, 9, (2048, 1408)) for name in ("law", "intent")],
    *[
        Layers(f"{HDMOE}/{name}", 4, 3, (4096, 14336))
        for name in ("writing", "humanities", "coding", "stem", "roleplay")
    ],
]
"""The traces of `later`, each a cluster; those of the test set are left out."""

LAYERS, PLACES = (4, 12, 20), (0, 5)
"""Layers of each trace, and windows from which four are seen."""

WINDOW, STEP, GPU = 384, 64, "h100-fp8"
"""Tokens of a window, and of a decoding step."""

RULES = ("round-robin", "eplb-without-copies", "eplb", "biased", "flashlb", "metro", "lplb")
"""The simplest first; then the optimum of what was seen."""

DISPATCH = {"lplb": linear_shares, "metro": single_copies}
"""Rules that share tokens out when they come."""


def instance_of(source: Layers, traces: Path, layer: int, work: str, windows: range) -> Instance:
    """Return windows of a layer: prompts in one step each, or decoding step by step."""
    tokens, experts = source.tokens(traces, layer)
    if len(tokens) < windows.stop * WINDOW:
        raise moeopt.InputError(
            f"{source.trace}: has {len(tokens)} tokens and needs {windows.stop * WINDOW}"
        )
    size = WINDOW if work == "tokens" else STEP
    rows = [
        np.bincount(tokens[first : first + size].ravel(), minlength=experts)
        for window in windows
        for first in range(window * WINDOW, (window + 1) * WINDOW - size + 1, size)
    ]
    kernel = {} if work == "tokens" else {"work": work, **KERNELS[GPU].of(*source.shape)}
    return Instance.from_arrays(
        loads=rows, devices=source.devices, slots=source.slots, name="cell", max_copies=8, **kernel
    )


def above(seen: Instance, after: Instance, rule: str) -> float | None:
    """Return how far a rule is above the bound of what comes after; with launches, of kernels."""
    if rule in DISPATCH:
        free = {"split": "free"}
        seen, after = seen.model_copy(update=free), after.model_copy(update=free)
    if rule == "optimum":
        plan = moeopt.solve(seen, "anneal-and-refute", work_limit=0.3, enough_gap=0.005).solution
    else:
        plan = HEURISTICS[rule](seen)
    if plan is None:
        return None
    plan = plan.model_copy(update={"shares": None})
    if after.has_shares:
        plan = DISPATCH[rule](after, plan.copies)
    return over_bound(after, plan)


def over_bound(instance: Instance, plan: Any) -> float:
    """Return how far a placement of copies is above a bound; of kernels, with their launches."""
    launches = KERNELS[GPU].launch_ns * len(instance.windows) if instance.work == "kernel" else 0
    return (peaks_units(instance, plan) + launches) / (lower_bound(instance) + launches) - 1


def later(arguments: argparse.Namespace) -> None:
    """Print rules a window later: means of traces, and intervals of the distance to the best."""
    head = "in one step | rule | on what was seen | on the next window | above the best | 95 %"
    print(f"| seen | {head} | DeepSeek-V2-Lite | Mixtral |")
    print("|---|---|---|---:|---:|---:|---|---:|---:|")
    for work, what in (("kernel", f"{STEP} (decoding)"), ("tokens", f"{WINDOW} (prompts)")):
        for known in (1, 4):
            table(arguments.traces, work, what, known)


def table(traces: Path, work: str, what: str, known: int) -> None:
    """Print the rows of one kind of step; the simplest rule within the noise of the best first."""
    found: dict[str, list[tuple[float, float]]] = {}
    for rule in (*RULES, "optimum") if known == 1 else RULES:
        for source in SOURCES:
            cells = []
            for layer in LAYERS:
                for first in PLACES:
                    seen, after = (
                        instance_of(source, traces, layer, work, windows)
                        for windows in (
                            range(first + 4 - known, first + 4),
                            range(first + 4, first + 5),
                        )
                    )
                    cells.append((above(seen, seen, rule), above(seen, after, rule)))
            if any(value is None for both in cells for value in both):
                break
            found.setdefault(rule, []).append(tuple(np.mean(cells, axis=0).tolist()))
    best = min(found, key=lambda rule: float(np.mean([after for _, after in found[rule]])))
    rows = []
    for rule, means in found.items():
        here, next_one = np.mean(means, axis=0)
        off = np.array([a[1] - b[1] for a, b in zip(means, found[best], strict=True)])
        draws = np.random.default_rng(0).integers(0, len(off), (1000, len(off)))
        low, high = np.quantile(off[draws].mean(axis=1), [0.025, 0.975])
        own = [np.mean([one for _, one in means[part]]) for part in (slice(2), slice(2, None))]
        interval = "the best" if rule == best else f"{low:.1%} to {high:.1%}"
        cells = f"{here:.1%} | {next_one:.1%} | {off.mean():.1%} | {interval}"
        rows.append((rule, low <= 0, f"{cells} | {own[0]:.1%} | {own[1]:.1%}"))
    first = next(number for number, (_, within, _) in enumerate(rows) if within)
    for rule, _, said in [rows.pop(first), *rows]:
        print(f"| {known} | {what} | `{rule}` | {said} |", flush=True)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["scale", "general", "later"])
    parser.add_argument("--traces", type=Path, help="folder with the traces")
    parser.add_argument("--count", type=int, default=10, help="instances per row of scale")
    parser.add_argument("--windows", type=int, default=1, help="of scale")
    parser.add_argument("--tokens", type=int, nargs="+", default=PER_DEVICE, help="of scale")
    parser.add_argument("--limit", type=float, default=10.0, help="units of work")
    arguments = parser.parse_args()
    if arguments.what == "later" and arguments.traces is None:
        parser.error("later: needs --traces DIR")
    try:
        {"scale": scale, "general": general, "later": later}[arguments.what](arguments)
    except moeopt.InputError as error:
        parser.error(str(error))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
