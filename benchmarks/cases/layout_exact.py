"""layout, one scenario, to proven optimality: bound-and-pack against the textbook models.

The problem's `cp-sat` and `milp` are the models a user would write, one binary per expert and DIMM,
with a warm start, a combinatorial bound and the DIMMs numbered by their first expert on top.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "layout, one scenario, to proven optimality: paper scale, 8 to 32 DIMMs"
BASELINE = "bound-and-pack"

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
DIMMS = (8, 16, 32)
KINDS = {"roof": 0.0, "table": 0.03}


def contenders() -> Mapping[str, Contender]:
    return {
        "bound-and-pack": moeopt_solve(method="bound-and-pack"),
        "cp-sat": moeopt_solve(method="cp-sat"),
        "milp/highs": moeopt_solve(method="milp", engine="highs"),
    }


def instances() -> Sequence[InstanceEnvelope]:
    return [
        moeopt.generate(
            "layout",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=512,
            seed=0,
            dimms=dimms,
            hbm_slots=6,
            table_noise=noise,
            name=f"{model}-dimms{dimms}-{kind}",
        )
        for model, dimms, (kind, noise) in product(MODELS, DIMMS, KINDS.items())
    ]
