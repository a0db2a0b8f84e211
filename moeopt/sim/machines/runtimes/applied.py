"""A machine as a runtime uses it: the terms of a token's time as fields of the cost model."""

from dataclasses import dataclass

from moeopt.sim.machines.cost import path_cost
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.predict import costs_of, what_to_expect
from moeopt.sim.machines.runtimes.profile import RuntimeProfile, as_costs, get_runtime
from moeopt.sim.machines.runtimes.setting import (
    Setting,
    amounts,
    gpu_read_gb_s,
    weights_read_gb_s,
)
from moeopt.sim.machines.runtimes.terms import TERMS, term_times
from moeopt.sim.models.model_shape import ModelShape

AS_FILE = "machine"
"""Stands for no runtime: the overheads that the machine's file states."""

QUANTA_NS = (5000, 2000, 1000, 500, 200, 100)
"""What times may be counted in, the coarsest first: fewer different sums are easier to prove."""

FINEST_NS = QUANTA_NS[-1]

GPU_LAYER = ("layer_us", "latent_layer_us", "linear_layer_us")
"""Terms of a layer on the GPU that do not depend on its experts or the context."""

LEAST_QUANTA = 5
"""The cheapest expert takes at least so many, if the finest allows: 1.5 us of Qwen3-30B in 4 bits
on a GPU are 8 of 200 ns. Ten times finer, proofs of residents took ten times as long."""


def quantum_ns(machine: Machine, model: ModelShape) -> int:
    """Return the coarsest quantum that still tells experts' times apart on a machine."""
    paths = [path_cost(machine, model, "gpu_hit", 1, 1)] if machine.gpu is not None else []
    paths += [path_cost(machine, model, "cpu_striped", 1, 1)] if machine.cpu is not None else []
    cheapest = min(int(cost) for cost in paths)
    fine = [quantum for quantum in QUANTA_NS if quantum * LEAST_QUANTA <= cheapest]
    return fine[0] if fine else FINEST_NS


def states_overheads(machine: Machine) -> bool:
    """Return whether a machine file itself says what computing costs beyond rates."""
    said: list[object] = [machine.sync_us, machine.time_tables or None]
    if machine.gpu is not None:
        said += [machine.gpu.layer_fixed_us, machine.gpu.kernel_us]
    if machine.cpu is not None:
        said += [machine.cpu.kernel_us, machine.cpu.bandwidth_efficiency]
    return any(value is not None for value in said)


def default_runtime(machine: Machine) -> str | None:
    """Return the runtime whose costs plans use: a calibrated one; None if the machine has its own.

    llama.cpp where the machine's file says neither.
    """
    if machine.runtimes:
        return machine.runtimes[0].runtime
    return None if states_overheads(machine) else "llama.cpp"


@dataclass(frozen=True)
class Priced:
    """A machine with the times that plans and simulations use, and where those come from.

    Attributes
    ----------
    runtime
        None: what the machine's file says.
    expect
        What to expect of predicted times, in words.
    """

    machine: Machine
    runtime: str | None
    expect: str


def priced(machine: Machine, model: ModelShape, runtime: str | None = None) -> Priced:
    """Return a machine as a runtime uses it.

    Parameters
    ----------
    runtime
        ``moeopt list runtimes``; "machine": its file's own overheads; None: `default_runtime`.

    Raises
    ------
    InputError
        If there is no such runtime, or the machine has no GPU or no CPU.
    """
    name = default_runtime(machine) if runtime is None else runtime
    if name is None or name == AS_FILE:
        return Priced(machine, None, "times as the machine's file says: not calibrated, not fitted")
    profile = get_runtime(name)
    _, certainty = costs_of(machine, model, profile)
    said = what_to_expect(profile.interval(certainty))
    return Priced(as_run(machine, model, profile), name, f"times of {name}, {said}")


def as_run(machine: Machine, model: ModelShape, profile: RuntimeProfile) -> Machine:
    """Return a machine on which the cost model takes what the runtime takes.

    Parameters
    ----------
    machine
        With a GPU and a CPU; its calibration of the runtime is used where it has one.
    model
        Latent attention has costs of its own.

    Returns
    -------
    Machine
        With the fixed times of `profile`, half of a layer's hand-overs each way, and the
        bandwidths that its reads reach. Time tables stay: they are measurements.

    Raises
    ------
    InputError
        If the machine has no GPU or no CPU.
    """
    gpu, cpu = machine.require_gpu(), machine.require_cpu()
    vector, certainty = costs_of(machine, model, profile)
    costs = as_costs(vector)
    setting = Setting(machine, model, (0.5,) * len(model.moe_layers), 0, profile.numa_aware)
    needs, takes = amounts(setting), term_times(amounts(setting), vector)
    need = dict(zip(TERMS, needs.tolist(), strict=True))
    take = dict(zip(TERMS, takes.tolist(), strict=True))
    layer_us = _six(sum(take[term] for term in GPU_LAYER) / model.layers)
    slower = (take["gpu_read"] + take["gpu_decode"]) / need["gpu_read"]
    share = _six(min(1.0, gpu_read_gb_s(machine) / gpu.hbm_gb_s / slower))
    read = take["host_read"] + take["oblivious_read"] + take["host_decode"]
    ratio = read / (need["host_read"] + need["oblivious_read"])
    experts = need["host_expert_us"] / (0.5 * model.top_k * len(model.moe_layers))
    fields = ("gpu.layer_fixed_us", "cpu.kernel_us", "sync_us", "cpu.bandwidth_gb_s")
    said = f"runtime {profile.name}, {certainty}"
    return machine.model_copy(
        update={
            "gpu": gpu.model_copy(
                update={
                    "bandwidth_efficiency": share,
                    "attention_bandwidth_efficiency": share,
                    "kernel_us": None,
                    "layer_fixed_us": layer_us,
                    "step_fixed_us": costs["token_us"],
                }
            ),
            "cpu": cpu.model_copy(
                update={
                    "bandwidth_gb_s": _six(weights_read_gb_s(setting) / ratio),
                    "bandwidth_efficiency": None,
                    "kernel_us": _six(costs["host_expert_us"] * experts),
                }
            ),
            "sync_us": costs["host_layer_us"] / 2,
            "sources": machine.sources | dict.fromkeys(fields, said),
        }
    )


def _six(value: float) -> float:
    """Return a number with six digits: the same on every processor, as plans decide by it."""
    return float(f"{value:.6g}")
