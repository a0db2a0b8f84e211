"""A machine as a runtime uses it: the terms of a token's time as fields of the cost model."""

from dataclasses import dataclass

from moeopt.sim.machines.cost import path_cost
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.costs import costs_of, what_to_expect
from moeopt.sim.machines.runtimes.profile import RuntimeProfile, as_costs, get_runtime
from moeopt.sim.machines.runtimes.setting import (
    Setting,
    amounts,
    gpu_read_gb_s,
)
from moeopt.sim.machines.runtimes.terms import TERMS, term_times
from moeopt.sim.machines.runtimes.threads import threaded
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
    paths = [path_cost(machine, model, "gpu_hit", 1, 1)] if machine.gpus else []
    paths += [path_cost(machine, model, "cpu_striped", 1, 1)] if machine.nodes else []
    cheapest = min(int(cost) for cost in paths)
    fine = [quantum for quantum in QUANTA_NS if quantum * LEAST_QUANTA <= cheapest]
    return fine[0] if fine else FINEST_NS


def states_overheads(machine: Machine) -> bool:
    """Return whether a machine file itself says what computing costs beyond rates.

    One overhead alone does not: the others would be taken for nothing, and a machine for faster
    that has more of them.
    """
    parts = [compute for device in machine.devices for compute in device.computes]
    layer = any(part.layer_us is not None for part in parts if part.kind == "gpu")
    cores = [part for part in parts if part.kind == "cpu"]
    host = any(part.reached is not None or part.kernel_us is not None for part in cores)
    return bool(machine.tables) or (machine.sync_us is not None and layer and host)


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
    machine = threaded(machine, model, profile)
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
    gpu = machine.require("gpu")
    machine.require("cpu")
    vector, _ = costs_of(machine, model, profile)
    costs = as_costs(vector)
    setting = Setting(machine, model, (0.5,) * len(model.moe_layers), Context(0), profile.numa)
    needs, takes = amounts(setting), term_times(amounts(setting), vector)
    need = dict(zip(TERMS, needs.tolist(), strict=True))
    take = dict(zip(TERMS, takes.tolist(), strict=True))
    layer_us = _six(sum(take[term] for term in GPU_LAYER) / model.layers)
    slower = (take["gpu_read"] + take["gpu_decode"]) / need["gpu_read"]
    share = _six(min(1.0, gpu_read_gb_s(machine) / gpu.memory.gb_s / slower))
    read = take["host_read"] + take["oblivious_read"] + take["host_decode"]
    ratio = read / (need["host_read"] + need["oblivious_read"])
    experts = need["host_expert_us"] / (0.5 * model.top_k * len(model.moe_layers))
    kernel_us = _six(costs["host_expert_us"] * experts)
    rate = _six(setting.cores.read_gb_s / ratio) / len(machine.nodes)
    applied = {device.id: device for device in machine.devices}
    for node in machine.nodes:
        reads = {"most_gb_s": rate} if node.part("gpu") else {}
        known = {} if reads else {"measured_gb_s": rate, "reached": None}
        part = node.with_part("cpu", reached=None, kernel_us=kernel_us, **reads)
        applied[node.id] = part.with_memory(**known)
    fixed = {"kernel_us": None, "layer_us": layer_us, "step_us": costs["token_us"]}
    fast = applied[gpu.id].with_part("gpu", **fixed)
    applied[gpu.id] = fast.with_memory(reached=share, attention_reached=share)
    changed = machine.with_devices(*applied.values())
    return changed.model_copy(update={"sync_us": costs["host_layer_us"] / 2})


def _six(value: float) -> float:
    """Return a number with six digits: the same on every processor, as plans decide by it."""
    return float(f"{value:.6g}")
