"""How often the threshold search alone closes an instance, and how fast, beside CP-SAT.

    python benchmarks/studies/tri_domain_threshold.py [--traces DIR] [--seeds 2] [--layers 3,12,21]

Synthetic steps of three models on 8, 16 and 32 DIMMs with and without residents, costs rounded to
5 us and to 1 ns; with DIR, a folder of DeepSeek-V2-Lite traces (``*.npz``), real ones, too. Prints
one Markdown row per family: times are of the compiled search on the instance's arrays (the faster
of two calls), and of ``moeopt.solve`` with CP-SAT on one worker. A value that differs ends the run.
"""

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import moeopt
from moeopt.core.compiled import compile_all
from moeopt.problems.tri_domain.instance import Instance
from moeopt.problems.tri_domain.threshold import FIRST_WORK, NO_CUTOFF, certify

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
BATCHES = (32, 64, 128, 256, 512, 768)
TRACE_BATCHES = (64, 128, 256, 512)
SETTINGS = tuple(product((8, 16, 32), (0, 6), (5000, 1)))
"""DIMMs, residents, quantum in ns."""

HEADER = (
    "| family | n | proven | proven in 1 ms | ms median / p95 | CP-SAT ms median / p95 | ratio |\n"
    "|---|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Run the command line."""
    compile_all()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with *.npz traces")
    parser.add_argument("--seeds", type=int, default=2, help="synthetic steps per setting")
    parser.add_argument("--layers", default="3,12,21", help="layers of the traces")
    arguments = parser.parse_args()
    layers = [int(layer) for layer in arguments.layers.split(",")]
    print(HEADER)
    for dimms, residents, quantum_ns in SETTINGS:
        options = {"dimms": dimms, "residents": residents, "quantum_ns": quantum_ns}
        name = f"{dimms} DIMMs, {residents} residents, {quantum_ns} ns"
        _print_row(f"synthetic, {name}", _synthetic(arguments.seeds, options))
        for batching in ("window", "streams") if arguments.traces else ():
            real = _real(arguments.traces, layers, options | {"batching": batching})
            _print_row(f"{batching}, {name}", real)


def _synthetic(seeds: int, options: dict[str, Any]) -> Iterator[Instance]:
    for model, batch, seed in product(MODELS, BATCHES, range(seeds)):
        yield moeopt.generate(
            "tri_domain",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=batch,
            seed=seed,
            **options,
        )


def _real(folder: Path, layers: list[int], options: dict[str, Any]) -> Iterator[Instance]:
    traces = [moeopt.load_trace(path) for path in sorted(folder.glob("*.npz"))]
    for trace, layer, batch in product(traces, layers, TRACE_BATCHES):
        yield moeopt.generate(
            "tri_domain",
            machine="trimoe",
            model="deepseek-v2-lite",
            trace=trace,
            layer=layer,
            batch=batch,
            **options,
        )


def _print_row(family: str, instances: Iterator[Instance]) -> None:
    rows = np.array([_compared(instance) for instance in instances])
    proven, seconds, other_s = rows.T
    fast = np.mean((proven == 1) & (seconds < 1e-3))
    ours, theirs = (np.quantile(1e3 * s, [0.5, 0.95]) for s in (seconds, other_s))
    cells = [
        family,
        str(len(rows)),
        f"{int(proven.sum())}",
        f"{100 * fast:.0f} %",
        f"{ours[0]:.3f} / {ours[1]:.3f}",
        f"{theirs[0]:.1f} / {theirs[1]:.1f}",
        f"{np.median(other_s / seconds):.0f}",
    ]
    print(f"| {' | '.join(cells)} |", flush=True)


def _compared(instance: Instance) -> tuple[bool, float, float]:
    """Return whether the search proved its value, and the seconds of both methods."""
    c = instance.columns
    columns = (c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)
    times = []
    for _ in range(2):
        begin = perf_counter()
        lower, upper, _ = certify(*columns, instance.dimms, NO_CUTOFF, FIRST_WORK)
        times.append(perf_counter() - begin)
    begin = perf_counter()
    other = moeopt.solve(instance, "cp-sat", workers=1, time_limit_s=20)
    other_s = perf_counter() - begin
    if other.objective is None or other.bound is None:
        raise RuntimeError(f"{instance.name}: CP-SAT has no bracket")
    if upper < other.bound or lower > other.objective:
        found = f"[{lower}, {upper}] and [{other.bound}, {other.objective}]"
        raise RuntimeError(f"{instance.name}: the values differ: {found}")
    return lower == upper, min(times), other_s


if __name__ == "__main__":
    main()
