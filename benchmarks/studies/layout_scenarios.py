"""How near bounds and plans come when one layout must serve several windows.

    python benchmarks/studies/layout_scenarios.py --traces DIR [--limit 60] [--windows 4,8,16]

Loads: DeepSeek-V2 at batch 512 with the skew of TriMoE 3.1, and at batch 768 with log-normal
popularity (sigma 1.6, drift 0.2); DeepSeek-V2-Lite from DIR, which holds traces (``*.npz`` with
``topk_ids``), of which the first in order of name is used.

Prints one Markdown row per instance: each bound by itself and the best plan, in ms, the gap, and
what the machine gave: seconds, seconds of processor time, and its load (what ran beside included).
"""

import argparse
import os
import time
from pathlib import Path

import numpy as np
from scipy.stats import norm

import moeopt
from moeopt.core.search import Search
from moeopt.problems.layout import check
from moeopt.problems.layout.bounds import lower_bound
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario import solve
from moeopt.sim.traces.workload import Workload

HEADER = (
    "| loads | windows | simple | wait and see | shared | bound | plan | gap "
    "| s | CPU s | load |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with *.npz traces")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per instance")
    parser.add_argument("--windows", default="4,8,16", help="comma-separated")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    traces = sorted(arguments.traces.glob("*.npz"))
    if not traces:
        parser.error(f"--traces: {arguments.traces} holds no *.npz")
    trace = moeopt.load_trace(traces[0])
    print(HEADER, flush=True)
    for windows in map(int, arguments.windows.split(",")):
        common = {"machine": "trimoe", "hbm_slots": 6, "windows": windows, "seed": 1}
        common["layout_from"] = "none"  # the windows of the published rows; the optimum needs none
        skewed = {"model": "deepseek-v2", "batch": 512, "workload": "trimoe-skew"}
        log_normal = {"model": "deepseek-v2", "batch": 768, "workload": _log_normal(experts=160)}
        real = {"model": "deepseek-v2-lite", "batch": 512, "trace": trace}
        real |= {"layer": 10, "first_window": 0}
        made = {
            "DeepSeek-V2, trimoe-skew": moeopt.generate("layout", **common, **skewed),
            "DeepSeek-V2, log-normal": moeopt.generate("layout", **common, **log_normal),
            f"DeepSeek-V2-Lite, {trace.name}": moeopt.generate("layout", **common, **real),
        }
        for name, instance in made.items():
            print(_row(name, instance, arguments.limit, arguments.workers), flush=True)


def _log_normal(experts: int) -> Workload:
    law = 1.6 * norm.ppf((experts - np.arange(experts) - 0.5) / experts)
    return Workload(
        name="log-normal",
        skew=0.0,
        drift=0.2,
        source="quantiles of a log-normal law, sigma 1.6",
        shape=tuple(law.tolist()),
    )


def _row(name: str, instance: Instance, limit_s: float, workers: int) -> str:
    search = Search(limit_s=limit_s, workers=workers)
    wall, cpu = time.perf_counter(), time.process_time()
    bound = solve(instance, search)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    if check.violations(instance, search.solution):
        raise SystemExit(f"{name}: the plan is not valid")
    columns = [lower_bound(instance), sum(bound.alone), bound.together]
    columns += [search.bound, check.objective(instance, search.solution)]
    shown = " | ".join(f"{ns / 1e6:.3f}" if ns else "" for ns in columns)
    gap = 1 - columns[-2] / columns[-1]
    used = f"{wall:.0f} | {cpu:.0f} | {os.getloadavg()[0]:.1f}"
    return f"| {name} | {len(instance.scenarios)} | {shown} | {gap:.2%} | {used} |"


if __name__ == "__main__":
    main()
