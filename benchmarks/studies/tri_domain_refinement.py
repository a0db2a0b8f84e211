"""How far TriMoE's scheduler is from the optimum on every layer of real traces, and where it stops.

    python benchmarks/studies/tri_domain_refinement.py --traces DIR [--batches 64,128,256,512]

DIR holds DeepSeek-V2-Lite traces (``*.npz`` with ``topk_ids``). Prints one Markdown row per way of
forming steps and number of resident experts; every optimum in it is proven.
"""

import argparse
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np

import moeopt
from moeopt.sim.traces.trace import Trace
from moeopt.study.study import Row

HEADER = (
    "| steps | residents | instances | optimal | median | p95 | max | stopped on | on a tie |\n"
    "|---|---:|---:|---:|---:|---:|---:|---|---:|"
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with *.npz traces")
    parser.add_argument("--batches", default="64,128,256,512", help="comma-separated")
    arguments = parser.parse_args()
    batches = [int(batch) for batch in arguments.batches.split(",")]
    traces = [moeopt.load_trace(path) for path in sorted(arguments.traces.glob("*.npz"))]
    print(HEADER)
    for batching, residents in product(("window", "streams"), (0, 6)):
        rows = [
            _trimoe(trace, layer, batch, batching, residents)
            for trace in traces
            for layer in range(trace.layers)
            for batch in batches
        ]
        print(f"| {batching} | {residents} | {_cells(rows)} |", flush=True)


def _trimoe(trace: Trace, layer: int, batch: int, batching: str, residents: int) -> Row:
    instance = moeopt.generate(
        "tri_domain",
        machine="trimoe",
        model="deepseek-v2-lite",
        trace=trace,
        layer=layer,
        batch=batch,
        batching=batching,
        residents=residents,
    )
    return moeopt.gap([instance], ["trimoe"])[0]


def _cells(rows: list[Row]) -> str:
    excess = np.array([row.excess for row in rows], dtype=float)  # NaN, and seen, if not proven
    stopped = Counter(str(row.facts["bottleneck"]) for row in rows)
    above = [row for row in rows if row.excess]
    ties = sum(int(row.facts["devices_at_makespan"]) > 1 for row in above)
    shares = [np.mean(excess == 0), *np.quantile(excess, [0.5, 0.95, 1])]
    where = ", ".join(f"{device} {count}" for device, count in sorted(stopped.items()))
    return " | ".join([str(len(rows)), *(f"{100 * s:.1f} %" for s in shares), where, str(ties)])


if __name__ == "__main__":
    main()
