"""deferral to proven optimality: the labels against CP-SAT and MILP on the same instances."""

from collections.abc import Mapping, Sequence

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.deferral import TIMES

DESCRIPTION = "deferral to proven optimality: DeepSeek-V3 with varying layers, 4 to 61 of them"
BASELINE = "dp"

LAYERS = (4, 8, 12, 61)
SEEDS = (0,)


def contenders() -> Mapping[str, Contender]:
    return {
        "dp": moeopt_solve(method="dp"),
        "cp-sat": moeopt_solve(method="cp-sat"),
        "cp-sat, no warm start": moeopt_solve(method="cp-sat", warm_start=False),
        "milp/highs": moeopt_solve(method="milp", engine="highs"),
    }


def instances() -> Sequence[InstanceEnvelope]:
    return [_varied(layers, seed) for layers in LAYERS for seed in SEEDS]


def _varied(layers: int, seed: int) -> InstanceEnvelope:
    """Return layers whose times vary by 0.3, at 1 ns; behind the 58 there are some come again."""
    made = moeopt.generate(
        "deferral",
        machine="ktransformers-a100",
        model="deepseek-v3",
        variation=0.3,
        seed=seed,
        quantum_ns=1,
        layers=min(layers, 58),
    )
    data = made.model_dump()
    data |= {name: (data[name] * 2)[:layers] for name in TIMES}
    return type(made)(**data | {"layers": layers, "name": f"deepseek-v3-{layers}-layers-{seed}"})
