"""Overheads of a runtime on a machine: the terms of a token's time as the costs of its parts."""

from dataclasses import dataclass, replace

from moeopt.sim.costs.interval import within
from moeopt.sim.costs.overheads import Overheads, overheads_of
from moeopt.sim.costs.step import StepCosts, step_costs
from moeopt.sim.costs.threads import threaded
from moeopt.sim.costs.token import decode_us, unit_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import ALLOCATED, Context
from moeopt.sim.machines.runtimes.memory import WITH_GRAPH
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape

AS_FILE = "machine"
"""Stands for no runtime: the overheads that the machine's file states."""

QUANTA_NS = (5000, 2000, 1000, 500, 200, 100)
"""What times may be counted in, the coarsest first: fewer different sums are easier to prove."""

FINEST_NS = QUANTA_NS[-1]

RUNTIME_QUANTUM_NS = 10
"""What a runtime's times are counted in where nothing is decided by them: an expert of Qwen3-30B
takes 1,500 ns on a GPU."""

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


def priced(
    machine: Machine, model: ModelShape, runtime: str | None = None, depth: int = 0
) -> Priced:
    """Return a machine as a runtime uses it.

    Parameters
    ----------
    runtime
        ``moeopt list runtimes``; "machine": its file's own overheads; None: `default_runtime`.
    depth
        Tokens in the KV cache, whose attention is to take exactly what the runtime's does.

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
    setting = threaded(Setting(machine, model, name, Context.at(depth), numa=profile.numa))
    said = within(setting, (1.0,) * len(model.moe_layers)).in_words()
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
        that its reads reach; a layer's fixed time is what is left. So the parts of a token, each
        read at the setting's depth, add up to what `moeopt.sim.costs.token` says of all experts on
        the GPU, and of all on the host. Time tables still go first: they are measurements.

    Raises
    ------
    InputError
        If the machine has no GPU or no CPU.
    """
    machine, model = setting.used, setting.shape
    machine.require("gpu")
    machine.require("cpu")
    costs, layers = unit_costs(setting), len(model.moe_layers)
    calls = layers * model.top_k
    empty = replace(setting, context=Context(0), model=model, kv=None)
    none = {"expert_intermediate_size": 1}
    bare = replace(empty, model=model.with_shared_width.model_copy(update=none))
    without = decode_us(bare, (0.0,) * layers)
    on_gpu, on_host = (decode_us(empty, (share,) * layers) for share in (0.0, 1.0))
    barrier = costs["host_expert_us"]
    reading = (on_host - without - layers * costs["host_layer_us"]) / calls - barrier
    rate = _rate(model.expert_bytes, (on_gpu - without) / calls)
    found = Overheads(
        gpu_gb_s=rate,
        attention_gb_s=rate,
        step_us=costs["token_us"],
        host_gb_s=_rate(model.expert_bytes, reading),
        host_expert_us=_six(barrier),
        sync_us=costs["host_layer_us"] / 2,
        cache_gb_s=_cache_gb_s(setting),
        beside=setting.runtime not in WITH_GRAPH,
    )
    parts = step_costs(machine, model, found)
    spent = calls * float(parts.computation_s("gpu", 1))
    spent += model.layers * parts.attention_s() + layers * parts.shared_s()
    spent += (model.layers - layers) * parts.dense_s() + parts.head_s()
    fixed = (on_gpu - costs["token_us"] - spent * 1e6) / model.layers
    return replace(found, layer_us=_six(max(0.0, fixed)))


def _cache_gb_s(setting: Setting) -> float:
    """Return the rate at which attention goes through the KV cache, scores and values included."""
    depth, model = setting.context.depth or setting.context.allocated or ALLOCATED, setting.shape
    none = (0.0,) * len(model.moe_layers)
    full, empty = (
        decode_us(replace(setting, context=Context.at(tokens)), none) for tokens in (depth, 0)
    )
    return _rate(model.cache_bytes(depth), full - empty)


def _rate(size: float, us: float) -> float:
    """Return bytes over microseconds as GB/s."""
    return _six(size / us / 1e3)


def _six(value: float) -> float:
    """Return a number with six digits: the same on every processor, as plans decide by it."""
    return float(f"{value:.6g}")
