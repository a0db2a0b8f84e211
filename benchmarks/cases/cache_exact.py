"""cache to proven optimality: labels against CP-SAT and MILP on the same instances."""

from collections.abc import Mapping, Sequence
from typing import Any

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "cache to proven optimality: 32 to 60 layers of 8 to 160 experts, synthetic traces"
BASELINE = "dp"

CASES: Sequence[dict[str, Any]] = (
    {"model": "mixtral-8x7b", "slots": 56, "workload": "hdmoe-mixtral"},
    {"model": "mixtral-8x7b", "slots": 128, "workload": "hdmoe-mixtral"},
    {"model": "deepseek-v2-lite", "slots": 416, "workload": "esft-deepseek-v2-lite"},
    {"model": "deepseek-v2-lite", "slots": 832, "workload": "esft-deepseek-v2-lite"},
    {"model": "deepseek-v2.5", "slots": 400, "workload": "trimoe-skew"},
)


def contenders() -> Mapping[str, Contender]:
    return {
        "dp": moeopt_solve(method="dp"),
        "cp-sat": moeopt_solve(method="cp-sat"),
        "cp-sat, no warm start": moeopt_solve(method="cp-sat", warm_start=False),
        "milp/highs": moeopt_solve(method="milp", engine="highs"),
    }


def instances() -> Sequence[InstanceEnvelope]:
    return [
        moeopt.generate("cache", machine="rtx4090-7960x", tokens=500, seed=0, **case)
        for case in CASES
    ]
