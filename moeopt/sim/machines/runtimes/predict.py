"""What a token takes in a real runtime: tokens per second with an interval, and the bottleneck."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.profile import (
    Certainty,
    RuntimeProfile,
    Within,
    as_vector,
    get_runtime,
)
from moeopt.sim.machines.runtimes.setting import GIB, Setting, amounts
from moeopt.sim.machines.runtimes.terms import TERMS, Vector
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.plan.schema import Plan
from moeopt.sim.presets import get_machine, get_model

RESERVED_GIB = 1.0
"""GPU memory left free for buffers where the number of layers on the CPU is chosen here."""

PARTS = {
    "gpu_memory": ("gpu_read",),
    "host_memory": ("host_read", "oblivious_read"),
    "gpu_launches": ("token_us", "layer_us", "latent_attention_us"),
    "cpu_hand_overs": ("host_layer_us", "host_expert_us", "cpu_layer_us"),
}
"""Part of a token's time -> its terms."""

WORDS = {
    "gpu_memory": "reading weights from GPU memory",
    "host_memory": "reading experts from host memory",
    "gpu_launches": "launching the GPU's kernels",
    "cpu_hand_overs": "hand-overs to the CPU and its barriers",
}


@dataclass(frozen=True)
class Prediction:
    """A predicted speed: one sequence, one token per step.

    Attributes
    ----------
    tokens_per_s, low, high
        Predicted, and the ends of the 80 % interval.
    bottleneck
        The part of the time that is longest: a key of `parts_ms`.
    parts_ms
        ms per token of gpu_memory, host_memory, gpu_launches and cpu_hand_overs.
    runtime, n_cpu_moe, context
        What was predicted; `n_cpu_moe` is None where experts were placed by a plan or by number.
    certainty
        "not calibrated", "calibrated on this model" or "calibrated on another model".
    expect
        What that means, in words.
    gpu_gib, host_gib
        GiB needed of either memory.
    notes
        What does not fit, and what was assumed.
    """

    tokens_per_s: float
    low: float
    high: float
    bottleneck: str
    parts_ms: dict[str, float]
    runtime: str
    n_cpu_moe: int | None
    context: int
    certainty: Certainty
    expect: str
    gpu_gib: float
    host_gib: float
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the prediction as JSON values."""
        return asdict(self) | {"notes": list(self.notes)}


def predict(
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    *,
    bits: str | float | None = None,
    runtime: str = "llama.cpp",
    n_cpu_moe: int | None = None,
    gpu_experts: int | None = None,
    plan: Plan | None = None,
    popularity: NDArray[np.float64] | None = None,
    context: int = 0,
) -> Prediction:
    """Predict the decode speed of a runtime on a machine, one sequence at a time.

    Parameters
    ----------
    machine, model
        Or their names or files (`get_machine`, `get_model`).
    bits
        Width of all weights, or the name of a quantisation (``moeopt list quantisations``); by
        default the model's own widths.
    runtime
        ``moeopt list runtimes``.
    n_cpu_moe
        Experts of so many blocks on the CPU, counted as llama.cpp counts; by default the fewest
        that let the rest fit into GPU memory.
    gpu_experts
        Instead: so many experts of every layer on the GPU, as ktransformers counts.
    plan, popularity
        Instead: residents as in a plan; popularity (MoE layers x experts) says how often each is
        called, by default all equally.
    context
        Tokens in the KV cache.

    Returns
    -------
    Prediction
        With an 80 % interval from points that were held out of the fit.

    Raises
    ------
    InputError
        If a name is unknown, or the machine cannot run the setting.

    Notes
    -----
    A token takes the sum of the terms in `moeopt.sim.machines.runtimes.terms`: bytes over measured
    bandwidths times a ratio, and fixed times per token, layer, layer with experts on the CPU and
    such expert. Costs of the terms: those of a calibration where the machine has one, else of the
    runtime's profile, fitted to public measurements (``python -m benchmarks.measured``).

    Examples
    --------
    >>> import moeopt
    >>> found = moeopt.predict("rtx4090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", context=4096)
    >>> found.low < found.tokens_per_s < found.high, found.certainty
    (True, 'not calibrated')
    """
    machine = get_machine(machine) if isinstance(machine, str | Path) else machine
    model = get_model(model) if isinstance(model, str | Path) else model
    expect("machine", machine, Machine, what="a machine, its name or file")
    expect("model", model, ModelShape, what="a model, its name or file")
    if bits is not None:
        model = at_bits(model, bits)
    profile = get_runtime(runtime)
    given = [n_cpu_moe is not None, gpu_experts is not None, plan is not None]
    if sum(given) > 1:
        raise InputError("n_cpu_moe, gpu_experts, plan: give one of them, not several")
    setting_of = partial(Setting.with_cpu_blocks, numa_aware=profile.numa_aware)
    notes: tuple[str, ...] = ()
    if gpu_experts is not None:
        setting = Setting.with_gpu_experts(
            machine, model, gpu_experts, context, numa_aware=profile.numa_aware
        )
        notes = ("experts are taken to be called equally often",)
    elif plan is not None:
        setting = Setting.of_plan(
            machine, model, plan, popularity, context, numa_aware=profile.numa_aware
        )
        if popularity is None:
            notes = ("experts are taken to be called equally often",)
    else:
        if n_cpu_moe is None:
            n_cpu_moe = fewest_cpu_blocks(machine, model, context)
        setting = setting_of(machine, model, n_cpu_moe, context)
    return of_setting(setting, profile, n_cpu_moe, notes)


def fewest_cpu_blocks(machine: Machine, model: ModelShape, context: int) -> int:
    """Return the least ``--n-cpu-moe`` with which the rest fits into GPU memory, 1 GiB left free.

    Without a GPU, or where nothing fits, all blocks.
    """
    if machine.gpu is None:
        return model.layers
    room = (machine.gpu.hbm_gb - RESERVED_GIB) * GIB
    for blocks in range(model.layers + 1):
        if Setting.with_cpu_blocks(machine, model, blocks, context).gpu_bytes_needed <= room:
            return blocks
        if machine.cpu is None:
            return 0
    return model.layers


def of_setting(
    setting: Setting,
    profile: RuntimeProfile,
    n_cpu_moe: int | None = None,
    notes: tuple[str, ...] = (),
) -> Prediction:
    """Predict a setting by a machine's calibration of the runtime, else by its profile."""
    costs, certainty = costs_of(setting.machine, setting.model, profile)
    within = profile.interval(certainty)
    times_us = amounts(setting) * costs
    by_term: Mapping[str, float] = dict(zip(TERMS, times_us.tolist(), strict=True))
    parts = {part: sum(by_term[term] for term in terms) / 1e3 for part, terms in PARTS.items()}
    speed = 1e6 / float(times_us.sum())
    return Prediction(
        tokens_per_s=_four_digits(speed),
        low=_four_digits(speed / within.factor),
        high=_four_digits(speed * within.factor),
        bottleneck=max(parts, key=lambda part: parts[part]),
        parts_ms={part: round(ms, 4) for part, ms in parts.items()},
        runtime=profile.name,
        n_cpu_moe=n_cpu_moe,
        context=setting.context,
        certainty=certainty,
        expect=what_to_expect(within),
        gpu_gib=round(setting.gpu_bytes_needed / GIB, 2),
        host_gib=round(setting.host_bytes_needed / GIB, 2),
        notes=tuple(setting.overflow()) + notes,
    )


def costs_of(
    machine: Machine, model: ModelShape, profile: RuntimeProfile
) -> tuple[Vector, Certainty]:
    """Return the costs of a runtime's terms on a machine, and how certain they are."""
    for found in machine.runtimes:
        if found.runtime == profile.name:
            for own in found.models:
                if own.model == model.name and abs(own.bits / model.bits - 1.0) < 0.02:
                    return as_vector(own.costs), "calibrated on this model"
            return as_vector(found.costs), "calibrated on another model"
    return as_vector(profile.costs), "not calibrated"


def what_to_expect(within: Within) -> str:
    """Return an interval in words, for pages."""
    low, high = 100 * (1 / within.factor - 1), 100 * (within.factor - 1)
    return f"{within.certainty}: expect {low:+.0f} to {high:+.0f} % (80 % of held-out points)"


def _four_digits(value: float) -> float:
    return float(f"{value:.4g}")
