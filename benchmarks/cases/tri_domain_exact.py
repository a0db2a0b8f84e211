"""tri_domain to proven optimality: moeopt's methods against the models a user would write."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from random import Random

import moeopt
from benchmarks.harness.contenders import moeopt_solve, textbook
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.textbook import tri_domain

DESCRIPTION = "tri_domain to proven optimality: paper scale, windows of real traces, hard ones"
BASELINE = "cp-sat"

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
BATCHES = (256, 512, 768)
SEEDS = (0, 1)
LIBRARY = Path(__file__).parents[2] / "instances" / "tri_domain"


def contenders() -> Mapping[str, Contender]:
    return {
        "cp-sat": moeopt_solve(method="cp-sat"),
        "cp-sat, no warm start": moeopt_solve(method="cp-sat", warm_start=False),
        "milp/highs": moeopt_solve(method="milp", engine="highs"),
        "milp/cbc": moeopt_solve(method="milp", engine="cbc"),
        "textbook cp-sat": textbook(tri_domain.cpsat),
        "textbook highs": textbook(tri_domain.highs),
        "textbook cbc": textbook(tri_domain.cbc),
    }


def instances() -> Sequence[InstanceEnvelope]:
    hard = [moeopt.load(file) for file in sorted((LIBRARY / "hard").glob("*.json"))]
    return [*_synthetic(), *_windows(), *hard]


def _synthetic() -> list[InstanceEnvelope]:
    return [
        moeopt.generate(
            "tri_domain",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=batch,
            seed=seed,
            name=f"{model}-batch{batch}-seed{seed}",
        )
        for model, batch, seed in product(MODELS, BATCHES, SEEDS)
    ]


def _windows() -> list[InstanceEnvelope]:
    """Return a sample of the windows: their names' order would prefer some traces and batches."""
    files = sorted((LIBRARY / "esft-window").glob("*.json"))
    return [moeopt.load(file) for file in sorted(Random(0).sample(files, min(12, len(files))))]
