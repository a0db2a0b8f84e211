"""A whole decode step: the layers with experts, as a deferral problem, and everything else."""

from dataclasses import dataclass
from typing import cast

from benchmarks.rooms.deferral import BITS, Instance, Solution, none, objective, saturate
from benchmarks.rooms.sim import (
    Machine,
    get_model,
    step_costs,
)
from moeopt import generate, get_machine, solve


@dataclass(frozen=True)
class Configuration:
    """One of KTransformers' six, with the count that it published (6.3; id in published.csv)."""

    machine: str
    model: str
    precision: str
    published: int
    source: str


PUBLISHED = (
    Configuration("ktransformers-a100", "deepseek-v3", "bf16", 3, "K6"),
    Configuration("ktransformers-4080", "deepseek-v3", "int4", 6, "K6, the cap"),
    Configuration("ktransformers-a100", "deepseek-v2.5", "bf16", 4, "K7, the cap"),
    Configuration("ktransformers-4080", "deepseek-v2.5", "int8", 4, "K7, the cap"),
    Configuration("ktransformers-a100", "qwen2-57b-a14b", "bf16", 2, "K8"),
    Configuration(
        "ktransformers-4080", "qwen2-57b-a14b", "int8", 4, "K8, only with the fixed time"
    ),
)
"""Machine, model and precision: full precision on the A100, quantized on the RTX 4080 (6.1)."""


@dataclass(frozen=True)
class Step:
    """One token through a model.

    Attributes
    ----------
    instance
        The layers with experts.
    outside_ns
        Layers without experts and the head: their sizes over the GPU's bandwidth, as shared experts
        are. Nothing overlaps with them.
    """

    instance: Instance
    outside_ns: int

    def time_ns(self, plan: Solution) -> int:
        """Return the time of the step under a plan."""
        return objective(self.instance, plan)[0] + self.outside_ns

    def without_deferral(self) -> Solution:
        """Return KTransformers without expert deferral."""
        return _made(none(self.instance))

    def deferring(self) -> Solution:
        """Return KTransformers with its own rule for how many experts to defer (4.2, 6.3)."""
        return _made(saturate(self.instance))

    def optimum(self) -> Solution:
        """Return the best schedule, and of those the one that defers least; proven."""
        result = solve(self.instance, "dp")
        if result.status != "optimal" or not isinstance(result.solution, Solution):
            raise RuntimeError(f"{self.instance.name}: dp ended {result.status}")
        return result.solution


def decode_step(machine: Machine | str, model: str, precision: str = "bf16") -> Step:
    """Return the decode step of one token.

    Parameters
    ----------
    machine
        A preset's name, or a machine.
    model, precision
        A preset's name; the width of all weights, "bf16", "int8" or "int4".
    """
    machine = machine if isinstance(machine, Machine) else get_machine(machine)
    made = generate("deferral", machine=machine, model=model, precision=precision, quantum_ns=1)
    bits = BITS[precision]
    shape = get_model(model).quantized(bits, bits)
    cost = step_costs(machine, shape).layer(quantum_ns=1)
    dense = shape.dense_layers * (cost.attention_ns + cost.dense_ns)
    return Step(cast(Instance, made), dense + cost.head_ns)


def counts(plan: Solution) -> list[int]:
    """Return how many experts each layer but the last defers."""
    return [count or 0 for count in plan.deferred[:-1]]


def _made(plan: Solution | None) -> Solution:
    if plan is None:  # never, since without a limit on penalties every count is allowed
        raise RuntimeError("no uniform count keeps the limit on penalties")
    return plan
