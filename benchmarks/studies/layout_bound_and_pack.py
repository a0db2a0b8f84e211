"""How many layouts for one window does bound-and-pack prove, how fast, and what gap is left.

    python benchmarks/studies/layout_bound_and_pack.py [--traces DIR] [--limit 10] [--workers 2] \
        [--seeds 1] [--first-seed 0]

Paper scale: 128 to 256 experts on 8, 16 and 32 DIMMs, synthetic skew of TriMoE 3.1 at three
batches and as many seeds as asked for, with and without room for residents and with few slots per
DIMM; costs are exact rooflines, rooflines rounded up to 5 us, and tables with 3 % scatter at 5 us
and at 1 ns. With DIR, a folder of DeepSeek-V2-Lite traces (``*.npz``), windows of real routing,
too. Prints one Markdown row per family: wall seconds of `moeopt.solve`, the first call, which
compiles, left out.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from moeopt.core.envelope import InstanceEnvelope
from moeopt.sim.traces.trace import Trace

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air", "deepseek-v3")
BATCHES = (256, 512, 768)
COSTS: dict[str, dict[str, Any]] = {
    "roofline": {"quantum_ns": 1},
    "roofline, 5 us": {},
    "table, 5 us": {"table_noise": 0.03},
    "table, 1 ns": {"table_noise": 0.03, "quantum_ns": 1},
}
DIMMS = (8, 16, 32)
LAYERS = (4, 17)
FEW_SLOTS = {8: 24, 16: 12, 32: 6}
"""DIMMs -> `dimm_slots` that bind."""

HEADER = (
    "| costs | DIMMs | loads | n | proven | s median | s p95 | s max | gap max |\n"
    "|---|---:|---|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with *.npz traces")
    parser.add_argument("--limit", type=float, default=10.0, help="seconds per instance")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1, help="of synthetic loads; default: 1")
    parser.add_argument("--first-seed", type=int, default=0)
    arguments = parser.parse_args()
    if arguments.seeds < 1 or arguments.first_seed < 0:
        parser.error("--seeds must be positive, --first-seed not negative")
    limits = {"time_limit_s": arguments.limit, "workers": arguments.workers}
    files = sorted(arguments.traces.glob("*.npz")) if arguments.traces else []
    traces = [moeopt.load_trace(file) for file in files]
    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    _compile(limits)
    print(HEADER)
    for (costs, options), dimms in product(COSTS.items(), DIMMS):
        common = {"machine": "trimoe", "dimms": dimms} | options
        _print_row(f"{costs} | {dimms} | synthetic", _synthetic(common, seeds), limits)
        few = common | {"dimm_slots": FEW_SLOTS[dimms]}
        _print_row(f"{costs} | {dimms} | synthetic, few slots", _synthetic(few, seeds), limits)
        if traces:
            _print_row(f"{costs} | {dimms} | real", _real(common, traces), limits)


def _synthetic(common: dict[str, Any], seeds: range) -> Iterator[InstanceEnvelope]:
    for model, batch, hbm_slots, seed in product(MODELS, BATCHES, (0, 6), seeds):
        yield moeopt.generate(
            "layout",
            model=model,
            workload="trimoe-skew",
            batch=batch,
            hbm_slots=hbm_slots,
            seed=seed,
            **common,
        )


def _real(common: dict[str, Any], traces: list[Trace]) -> Iterator[InstanceEnvelope]:
    for trace, layer, batch in product(traces, LAYERS, (256, 512)):
        options = {"model": "deepseek-v2-lite", "layer": layer, "batch": batch, "hbm_slots": 4}
        yield moeopt.generate("layout", trace=trace, **options, **common)


def _compile(limits: dict[str, Any]) -> None:
    options = {"machine": "trimoe", "model": "deepseek-v2", "workload": "trimoe-skew"}
    moeopt.solve(moeopt.generate("layout", batch=64, **options), "bound-and-pack", **limits)


def _print_row(family: str, instances: Iterator[InstanceEnvelope], limits: dict[str, Any]) -> None:
    results = [moeopt.solve(instance, "bound-and-pack", **limits) for instance in instances]
    seconds = np.array([result.build_s + result.solve_s for result in results])
    median, p95 = np.quantile(seconds, [0.5, 0.95])
    gaps = [1.0 if result.gap is None else result.gap for result in results]
    proven = sum(result.status == "optimal" for result in results)
    cells = [str(len(results)), str(proven), f"{median:.3f}", f"{p95:.2f}"]
    cells += [f"{seconds.max():.2f}", f"{max(gaps):.3%}"]
    print(f"| {family} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
