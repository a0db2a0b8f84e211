"""What KTransformers leaves open, moved alone."""

from collections.abc import Callable

from benchmarks.papers.ktransformers.step import PUBLISHED, counts, decode_step
from benchmarks.papers.ktransformers.variants import with_fixed_time
from benchmarks.papers.sweep import Sweep
from benchmarks.rooms.sim import Machine
from moeopt import get_machine

COLUMNS = tuple(f"{c.model} {c.precision} (published {c.published})" for c in PUBLISHED)

FIXED_US = (0.0, 50.0, 60.0, 80.0, 100.0, 130.0, 155.0, 170.0, 200.0)

EFFICIENCIES = (0.4, 0.6, 0.8, 1.0)


def fixed_time() -> Sweep:
    """Return the counts by how much of a layer's attention is a fixed time."""
    return Sweep(
        parameter="fixed time of a layer's attention",
        default="100 us",
        source="about 49 kernels per layer (2.3: some 3,000 launches per token), 2 us each",
        results=COLUMNS,
        rows=tuple((f"{us:g} us", _counts(with_fixed_time, us)) for us in FIXED_US),
        note="attention of DeepSeek-V3 in BF16 takes as long in all rows",
    )


def shared_efficiency() -> Sweep:
    """Return the counts by the share of the GPU's bandwidth that shared experts reach."""
    return Sweep(
        parameter="share of the GPU's bandwidth that shared experts reach",
        default="0.8",
        source="a common figure for large matrices",
        results=COLUMNS,
        rows=tuple((f"{share:g}", _counts(_with_efficiency, share)) for share in EFFICIENCIES),
        note="with slow shared experts Qwen2 is bound by the GPU, and no count fills the CPU",
    )


def _counts(change: Callable[[Machine, float], Machine], value: float) -> tuple[float, ...]:
    """Return the rule's counts on machines with a changed value."""
    steps = (
        decode_step(change(get_machine(c.machine), value), c.model, c.precision) for c in PUBLISHED
    )
    return tuple(float(max(counts(step.deferring()))) for step in steps)


def _with_efficiency(machine: Machine, share: float) -> Machine:
    return machine.with_devices(machine.require("gpu").with_memory(reached=share))
