"""Overheads of a runtime on a machine: the terms of a token's time as the costs of its parts."""

from dataclasses import dataclass

from moeopt.sim.costs.overheads import Overheads, overheads_of
from moeopt.sim.costs.rates import gpus_read_gb_s
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.costs.terms import TERMS, term_times
from moeopt.sim.costs.threads import threaded
from moeopt.sim.costs.token import amounts
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.profile import as_costs, costs_of, get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
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


def quantum_ns(costs: StepCosts) -> int:
    """Return the coarsest quantum that still tells experts' times apart on a machine."""
    paths = [costs.path_ns("gpu_hit", 1, 1)] if costs.machine.gpus else []
    paths += [costs.path_ns("cpu_striped", 1, 1)] if costs.machine.nodes else []
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
    machine
        With as many cores as compute.
    overheads
        What computing takes beyond bytes and operations.
    runtime
        None: what the machine's file says.
    expect
        What to expect of predicted times, in words.
    """

    machine: Machine
    overheads: Overheads
    runtime: str | None
    expect: str

    def costs(self, model: ModelShape) -> StepCosts:
        """Return what a model's parts take."""
        return step_costs(self.machine, model, self.overheads)


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
        said = "times as the machine's file says: not calibrated, not fitted"
        return Priced(machine, overheads_of(machine, "tensor-parallel"), None, said)
    profile = get_runtime(name)
    setting = threaded(Setting(machine, model, name, Context(0), numa=profile.numa))
    said = profile.interval(costs_of(setting)[1]).in_words()
    return Priced(setting.used, overheads_of_runtime(setting), name, f"times of {name}, {said}")


def overheads_of_runtime(setting: Setting) -> Overheads:
    """Return the overheads with which a token's parts take what the runtime takes.

    Parameters
    ----------
    setting
        On a machine with a GPU and a CPU, whose calibration of the runtime is used where it has
        one. Latent attention has costs of its own.

    Returns
    -------
    Overheads
        The runtime's fixed times, half of a layer's synchronisation each way, and the bandwidths
        that its reads reach. Time tables still go first: they are measurements.

    Raises
    ------
    InputError
        If the machine has no GPU or no CPU.
    """
    machine, model = setting.used, setting.model
    gpu = machine.require("gpu")
    machine.require("cpu")
    vector, _ = costs_of(setting)
    costs, layers = as_costs(vector), len(model.moe_layers)
    needs = amounts(setting, (0.5,) * layers)
    takes = term_times(needs, vector)
    need = dict(zip(TERMS, needs.tolist(), strict=True))
    take = dict(zip(TERMS, takes.tolist(), strict=True))
    slower = (take["gpu_read"] + take["gpu_decode"]) / need["gpu_read"]
    share = _six(min(1.0, gpus_read_gb_s(machine) / gpu.memory.gb_s / slower))
    read = take["host_read"] + take["oblivious_read"] + take["host_decode"]
    ratio = read / (need["host_read"] + need["oblivious_read"])
    experts = need["host_expert_us"] / (0.5 * model.top_k * layers)
    return Overheads(
        gpu_gb_s=gpu.memory.gb_s * share,
        attention_gb_s=gpu.memory.gb_s * share,
        layer_us=_six(sum(take[term] for term in GPU_LAYER) / model.layers),
        step_us=costs["token_us"],
        host_gb_s=_six(setting.cores.read_gb_s / ratio),
        host_expert_us=_six(costs["host_expert_us"] * experts),
        sync_us=costs["host_layer_us"] / 2,
    )


def _six(value: float) -> float:
    """Return a number with six digits: the same on every processor, as plans decide by it."""
    return float(f"{value:.6g}")
