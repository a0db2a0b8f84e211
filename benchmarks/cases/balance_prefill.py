"""balance on whole prompts to proven optimality: dynamic programming against the models."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "balance, prompts of 512 tokens on 2, 4 and 6 units, coarse and fine slices"
BASELINE = "dp"

LIBRARY = Path(__file__).parents[2] / "instances" / "balance"


def contenders() -> Mapping[str, Contender]:
    """All models start from nothing: no solution, no bound."""
    return {
        "dp": moeopt_solve(method="dp"),
        "cp-sat": moeopt_solve(method="cp-sat", warm_start=False),
        "milp/highs": moeopt_solve(method="milp", engine="highs", warm_start=False),
    }


def instances() -> Sequence[InstanceEnvelope]:
    """Return the prompts in coarse slices, and on six units in slices of 16 and 64.

    Of the finest those of few experts only.
    """
    coarse = sorted(LIBRARY.glob("prefill-*/*-slices1.json"))
    fine = sorted(LIBRARY.glob("prefill-*/*-ndp-6-slices16.json"))
    finest = [LIBRARY / "prefill-fine" / f"fine-{m}.json" for m in ("phi-3.5-moe", "mixtral-8x7b")]
    return [moeopt.load(file) for file in [*coarse, *fine, *finest]]
