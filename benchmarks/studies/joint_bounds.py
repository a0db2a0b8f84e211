"""How near bound and plan come in the problem joint, and what separate decisions cost.

    python benchmarks/studies/joint_bounds.py --traces DIR [--limit 60] [--cases v2-lite,qwen3]

Cases: Mixtral-8x7B (three widths) and DeepSeek-V2-Lite with real routing from DIR, which holds the
traces that ``instances/joint/families.toml`` names; Qwen3-30B-A3B and DeepSeek-V3 with routing by
the law of TriMoE 3.1. All on the machine rtx4090-7960x, one token per step.

Prints one Markdown row per case: the time per step of the runtimes' defaults, of decisions taken
one after the other, of the best of five shares between residents and caches, and of the joint plan,
the bound, the gap, how much slower separate decisions are than the joint plan, and what the machine
gave: seconds, seconds of processor time, and its load (what ran beside included).
"""

import argparse
import os
import time
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.rooms.joint import HEURISTICS, check

RULES = ("uniform", "whole-layers", "frequency", "in-turn", "grid")

HEADER = (
    "| case | layers x experts | "
    + " | ".join(RULES)
    + " | joint | bound | gap | separate decisions | s | CPU s | load |\n|---|---|"
    + "---:|" * (len(RULES) + 7)
)

CODING, LAW = "hdmoe_mixtral_8x7b/coding.npz", "esft_deepseek_v2_lite/law.npz"
MIXTRAL: dict[str, Any] = {
    "model": "mixtral-8x7b",
    "trace": CODING,
    "steps": 100,
    "first_step": 1000,
    "bits": "2,4,8",
    "reserved_gib": 2.0,
}
V2_LITE: dict[str, Any] = {"model": "deepseek-v2-lite", "trace": LAW, "steps": 100}
V2_LITE |= {"first_step": 1000, "quality_loss": 0.005}
QWEN3: dict[str, Any] = {"model": "qwen3-30b-a3b", "workload": "trimoe-skew", "steps": 100}
QWEN3 |= {"quality_loss": 0.005}
V3: dict[str, Any] = {"model": "deepseek-v3", "workload": "trimoe-skew", "steps": 60}
V3 |= {"bits": "4", "other_bits": 4.0, "quality_loss": 0.005}

CASES: dict[str, dict[str, Any]] = {
    "mixtral, widths, loss 3 %": MIXTRAL | {"quality_loss": 0.03},
    "mixtral, widths and deferral, loss 3 %": MIXTRAL | {"quality_loss": 0.03, "max_deferred": 1},
    "mixtral, widths and deferral, loss 1 %": MIXTRAL | {"quality_loss": 0.01, "max_deferred": 1},
    "v2-lite, room for 25 %": V2_LITE | {"share": 0.25},
    "v2-lite, room for 50 %": V2_LITE | {"share": 0.5},
    "v2-lite, room for 75 %": V2_LITE | {"share": 0.75},
    "v2-lite, room for 25 %, deferral": V2_LITE | {"share": 0.25, "max_deferred": 4},
    "v2-lite, room for 50 %, deferral": V2_LITE | {"share": 0.5, "max_deferred": 4},
    "qwen3": QWEN3,
    "qwen3, deferral": QWEN3 | {"max_deferred": 6},
    "v3": V3,
    "v3, deferral": V3 | {"max_deferred": 6},
}


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True, help="folder with the traces")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds per case")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--cases", default="", help="beginnings of names, comma-separated")
    arguments = parser.parse_args()
    print(HEADER, flush=True)
    for name, options in CASES.items():
        if name.startswith(tuple(arguments.cases.split(","))):
            instance = made(name, options, arguments.traces)
            print(row(name, instance, arguments.limit, arguments.workers), flush=True)


def made(name: str, options: dict[str, Any], traces: Path) -> Any:
    """Return the instance of a case."""
    options = dict(options)
    if "trace" in options:
        options["trace"] = moeopt.load_trace(traces / options["trace"])
    return moeopt.generate("joint", machine="rtx4090-7960x", seed=0, name=name, **options)


def row(name: str, instance: Any, limit_s: float, workers: int) -> str:
    """Return a case's row: ms per step, shares in per cent."""
    steps = len(instance.steps)
    plans = {rule: HEURISTICS[rule](instance) for rule in RULES}
    times = {
        rule: None if plan is None else check.objective(instance, plan)
        for rule, plan in plans.items()
    }
    wall, cpu = time.perf_counter(), time.process_time()
    found = moeopt.solve(instance, "column-lagrangian", time_limit_s=limit_s, workers=workers)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    known = [*times.values(), found.objective, found.bound]
    shown = " | ".join("" if ns is None else f"{ns / steps / 1e6:.3f}" for ns in known)
    in_turn = times["in-turn"]
    excess = "" if in_turn is None else f"{in_turn / found.objective - 1:+.2%}"
    used = f"{wall:.0f} | {cpu:.0f} | {os.getloadavg()[0]:.1f}"
    size = f"{instance.layers} x {instance.experts}"
    return f"| {name} | {size} | {shown} | {found.gap:.3%} | {excess} | {used} |"


if __name__ == "__main__":
    main()
