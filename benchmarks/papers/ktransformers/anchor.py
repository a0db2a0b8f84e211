"""The layer of DeepSeek-V3 that KTransformers profiled, in thousandths of its own time (4.2).

Stated: CPU busy 74 %, GPU 28 %, both 5 %, hand-overs 3 %; shared experts are 18 % of the GPU's time
(4.1). Assumed: the shared experts are the overlap, since nothing else runs on the GPU while the CPU
computes; hand-overs are as long there as back. The figures agree with each other: 740 + 280 - 50 +
30 = 1000, and 18 % of 280 is 50.
"""

from fractions import Fraction

from benchmarks.papers.ktransformers.cycle import cycle_ns
from benchmarks.rooms.deferral import Instance

CPU, GPU, BOTH, HAND_OVERS = 740, 280, 50, 30
"""Of 1000 units of time: KTransformers 4.2, before deferral."""

SHARED_SHARE = Fraction(18, 100)
"""Of the GPU's time, the shared experts: KTransformers 4.1."""

TOP_K, MIN_IMMEDIATE, LAYERS = 8, 2, 58
"""DeepSeek-V3 (Table 1); at least two experts stay immediate (6.3)."""

UNIT_NS = 10_000
"""A unit is so long that one of eight experts is a whole number of ns."""


def profiled_layer() -> Instance:
    """Return 58 layers like the one that was profiled."""
    return Instance(
        name="ktransformers-fig-10",
        layers=LAYERS,
        top_k=TOP_K,
        min_immediate=MIN_IMMEDIATE,
        attention_ns=(GPU - BOTH) * UNIT_NS,
        shared_ns=BOTH * UNIT_NS,
        sync_ns=HAND_OVERS * UNIT_NS // 2,
        expert_cpu_ns=CPU * UNIT_NS // TOP_K,
        penalty=tuple(range(TOP_K - MIN_IMMEDIATE + 1)),
    )


def layer_units(deferred: int) -> Fraction:
    """Return the time of a layer in the steady state if each defers so many experts."""
    instance = profiled_layer()
    return cycle_ns(instance, [deferred] * LAYERS) / LAYERS / UNIT_NS


def cut(deferred: int) -> float:
    """Return by how much shorter a layer is than without deferral, as a share."""
    return float(1 - layer_units(deferred) / layer_units(0))


def least_units() -> int:
    """Return a bound on a layer's time under any deferral: what CPU and GPU have to do alone."""
    return max(CPU, GPU)


def utilization(deferred: int) -> tuple[float, float]:
    """Return how busy CPU and GPU are in the steady state."""
    units = layer_units(deferred)
    return float(CPU / units), float(GPU / units)
