"""bitwidth to proven optimality: dp against the models a user would write."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import moeopt
from benchmarks.harness.contenders import moeopt_solve, textbook
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.textbook import bitwidth

DESCRIPTION = "bitwidth to proven optimality: budgets per layer and over the model"
BASELINE = "dp"

LIBRARY = Path(__file__).parents[2] / "instances" / "bitwidth"

FILES = (
    "paper-scale/deepseek-v3-per-layer.json.gz",
    "paper-scale/deepseek-v3-per-model.json.gz",
    "paper-scale/qwen2-57b-a14b-per-layer.json.gz",
    "paper-scale/qwen2-57b-a14b-per-model.json.gz",
)


def contenders() -> Mapping[str, Contender]:
    """Return dp and the three textbook models; all prove optimality."""
    return {
        "dp": moeopt_solve(method="dp"),
        "textbook cp-sat": textbook(bitwidth.cpsat),
        "textbook highs": textbook(bitwidth.highs),
        "textbook pulp/cbc": textbook(bitwidth.pulp_cbc),
    }


def instances() -> Sequence[InstanceEnvelope]:
    """Return all layers of DeepSeek-V3 and of Qwen2-57B-A14B, with either kind of budget."""
    return [moeopt.load(LIBRARY / file) for file in FILES]
