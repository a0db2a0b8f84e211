"""relayout to proven optimality: `evacuation` against the models a user would write."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "relayout to proven optimality: paper scale and windows of real traces"
BASELINE = "evacuation"

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
BATCHES = (128, 256, 512, 768)
LIBRARY = Path(__file__).parents[2] / "instances" / "relayout"


def contenders() -> Mapping[str, Contender]:
    """Return `evacuation` and the two textbook models, which start from nothing."""
    return {
        "evacuation": moeopt_solve(method="evacuation"),
        "cp-sat": moeopt_solve(method="cp-sat"),
        "textbook cp-sat": moeopt_solve(method="cp-sat", warm_start=False),
        "textbook milp/highs": moeopt_solve(method="milp", engine="highs", warm_start=False),
    }


def instances() -> Sequence[InstanceEnvelope]:
    """Return synthetic instances of the paper's models, and those of real traces in the library."""
    synthetic = [
        moeopt.generate(
            "relayout",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=batch,
            name=f"{model}-batch{batch}",
        )
        for model, batch in product(MODELS, BATCHES)
    ]
    real = [moeopt.load(file) for file in sorted(LIBRARY.glob("esft*/*.json*"))]
    return [*synthetic, *real]
