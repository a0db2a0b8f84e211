"""placement to proven optimality: prices and exchanges against the models a user would write."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "placement to proven optimality: 26 layers of 64 experts, 200 steps, six regimes"
BASELINE = "price-and-swap"

TRACES = Path(os.environ.get("MOEOPT_TRACES", ""))
TRACE = "esft_deepseek_v2_lite/intent.npz"
SLOW = {"gpu_us": 25, "gpu_us_per_token": 0.5, "offload_us": 200, "offload_us_per_token": 60}
NEAR = {"gpu_us": 60, "gpu_us_per_token": 4, "offload_us": 150, "offload_us_per_token": 15}
BATCHES = {"batch": 32, "quantum_ns": 500}

CASES: Mapping[str, dict[str, Any]] = {
    "batch 1, slow offload, 25 %": {"gpu_us": 25, "offload_us": 690, "share": 0.25},
    "batch 32, slow offload, 25 %": BATCHES | SLOW | {"share": 0.25},
    "batch 32, slow offload, 75 %": BATCHES | SLOW | {"share": 0.75},
    "batch 32, near offload, 50 %": BATCHES | NEAR | {"share": 0.5},
    "batch 32, near offload, 80 %": BATCHES | NEAR | {"share": 0.8},
    "batch 1, near offload, 60 %": {"gpu_us": 25, "offload_us": 60, "share": 0.6},
}
"""In the last two the GPU is the later side in most layers and steps."""


def contenders() -> Mapping[str, Contender]:
    """Return the problem's own method, the models from nothing, and the best rule by rank."""
    return {
        "price-and-swap": moeopt_solve(method="price-and-swap"),
        "textbook milp/highs": moeopt_solve(method="milp", engine="highs", warm_start=False),
        "textbook cp-sat": moeopt_solve(method="cp-sat", warm_start=False),
        "offload-time": moeopt_solve(method="offload-time"),
        "offload-time-stop": moeopt_solve(method="offload-time-stop"),
    }


def instances() -> Sequence[InstanceEnvelope]:
    """Return the six regimes: steps of a real trace where ``MOEOPT_TRACES`` has it."""
    file = TRACES / TRACE
    source: dict[str, Any] = {"workload": "esft-deepseek-v2-lite"}
    if file.is_file():
        source = {"trace": moeopt.load_trace(file), "batching": "window"}
    made = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite", "fixed_us": 30, "steps": 200}
    return [
        moeopt.generate("placement", name=name, **(made | source | case))
        for name, case in CASES.items()
    ]
