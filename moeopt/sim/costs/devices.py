"""Times of a layer's attention and experts on each device of a machine with several of them.

A machine with several GPUs or nodes is taken apart into machines of one GPU or one host each, for
which `moeopt.sim.costs.token` says what a token takes, and put together again: parts and hops add.
What comes on top for a second GPU stands here.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.units import GIB, MIB
from moeopt.sim.costs.prompt import prompt_us
from moeopt.sim.costs.quanta import to_quanta
from moeopt.sim.costs.rates import gpus_read_gb_s
from moeopt.sim.costs.token import decode_us, unit_costs
from moeopt.sim.machines.cores import NumaMode, cores_of
from moeopt.sim.machines.machine import Device, LinkRate, Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.memory import CONTEXT_MIB, buffer_bytes, host_gib
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.attention import AttentionByLayer
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Counts

Floats = NDArray[np.float64]

SOCKETS_GB_S = 31.5
"""Between nodes whose link is not stated: a hop carries kilobytes, so that it hardly matters."""

PEER_US = 15.0
"""A hop over a link of their own, beside its latency and bytes."""


@dataclass(frozen=True)
class DeviceTimes:
    """Times in ns and sizes in bytes; devices as `names`, GPUs first.

    Attributes
    ----------
    capacity, buffer
        Shape (devices,).
    attention_bytes, experts_bytes
        Shape (layers,); 0 without experts.
    attention_ns, experts_ns, prompt_attention_ns, prompt_experts_ns
        Shape (layers, devices); experts of a layer without any: -1.
    hop_ns, prompt_hop_ns
        Shape (devices, devices).
    source
        The device that embeds and samples: the host's first node.
    """

    names: tuple[str, ...]
    capacity: Floats
    buffer: Floats
    attention_bytes: Floats
    experts_bytes: Floats
    attention_ns: NDArray[np.int64]
    experts_ns: NDArray[np.int64]
    prompt_attention_ns: NDArray[np.int64]
    prompt_experts_ns: NDArray[np.int64]
    hop_ns: NDArray[np.int64]
    prompt_hop_ns: NDArray[np.int64]
    source: int


def device_times(
    setting: Setting, quantum_ns: int = 1000, counts: Counts | None = None
) -> DeviceTimes:
    """Return the times and sizes of a model's parts on every device of a machine.

    Parameters
    ----------
    counts
        Of the model: which experts a prompt activates, layer by layer.

    Raises
    ------
    InputError
        If the machine has no CPU that computes experts, or the model lacks a size.
    """
    # Whole machines of one GPU or host: their cores are the setting's already.
    setting = replace(setting, machine=setting.used, model=setting.shape, kv=None, threads=None)
    machine, model, runtime, numa = setting.machine, setting.model, setting.runtime, setting.numa
    machine.require("cpu")
    gpus, parts = machine.gpus, _hosts(machine, numa)
    hosts = [machine.of_devices(*nodes).without_gpus() for _, nodes in parts]
    names = (*(f"gpu{number}" for number in range(len(gpus))), *(name for name, _ in parts))
    layers, count = model.layers, len(names)
    moe = np.zeros(layers, dtype=bool)
    moe[list(model.moe_layers)] = True
    sizes = _attention_bytes(model, setting.context.allocated)
    held = np.where(moe, model.routed_experts * model.expert_bytes, 0).astype(float)
    attention, experts = np.zeros((layers, count)), np.full((layers, count), -1e-3)
    alike = list[tuple[Device, Floats, float]]()
    costs = unit_costs(setting)
    for number, gpu in enumerate(gpus):
        card = gpu.model_copy(update={"id": ""})
        found = next((one for one in alike if one[0] == card), None)
        if found is None:  # what one GPU takes by itself is the same for all that are alike
            lone = replace(setting, machine=_with_gpus(machine, (gpu,), machine.nodes))
            found = card, _attention_us(lone), _experts_us(lone, on_host=False)
            alike.append(found)
        _, attention[:, number], experts[moe, number] = found
        if number and machine.between(gpus[0].id, gpu.id) is None:
            attention[:, number] += costs["later_layer_us"]
    hand_over = costs["host_layer_us"] / 2
    for number, host in enumerate(hosts, start=len(gpus)):
        attention[:, number] = _attention_us(replace(setting, machine=host))
        lone = replace(setting, machine=_with_gpus(machine, gpus, parts[number - len(gpus)][1]))
        experts[moe, number] = _experts_us(lone, on_host=True)
        if gpus:
            experts[moe, number] -= 2 * hand_over
    by_host = costs["gpu_hop_us"]
    hop = _hops(machine, names, len(gpus), model, 1, hand_over, by_host)
    own = [cores_of(host, numa) for host in hosts]
    prompt = prompt_us(setting, setting.ubatch, setting.context.depth, own, counts)
    prompt_hop = _hops(machine, names, len(gpus), model, setting.ubatch, hand_over, by_host)
    capacity = [gpu.gpu_gib * GIB for gpu in gpus]
    shared = gpus[0].gpu_gib if machine.unified else 0.0
    capacity += [max(0.0, host_gib(host, numa) - shared) * GIB for host in hosts]
    buffers = [
        (gpu.only("gpu").reserve_mib or {}).get(runtime, CONTEXT_MIB) * MIB
        + buffer_bytes(model, runtime, setting.ubatch)
        for gpu in gpus
    ]

    def to_ns(table: Floats) -> NDArray[np.int64]:
        return np.asarray(to_quanta(np.asarray(table) * 1e3, quantum_ns), dtype=np.int64)

    return DeviceTimes(
        names=names,
        capacity=np.array(capacity),
        buffer=np.array(buffers + [0.0] * len(hosts)),
        attention_bytes=sizes,
        experts_bytes=held,
        attention_ns=to_ns(attention),
        experts_ns=np.where(moe[:, None], to_ns(np.maximum(experts, 0)), -1),
        prompt_attention_ns=to_ns(prompt[0]),
        prompt_experts_ns=np.where(moe[:, None], to_ns(prompt[1]), -1),
        hop_ns=to_ns(hop),
        prompt_hop_ns=to_ns(prompt_hop),
        source=len(gpus),
    )


def _hosts(machine: Machine, numa: NumaMode) -> list[tuple[str, tuple[Device, ...]]]:
    """Return the host's devices: name, and the nodes that it consists of."""
    if numa == "nodes" and len(machine.nodes) > 1:
        return [(node.id, (node,)) for node in machine.nodes]
    return [("host", machine.nodes)]


def _with_gpus(machine: Machine, gpus: tuple[Device, ...], nodes: tuple[Device, ...]) -> Machine:
    """Return the machine with these GPUs and nodes; a device may be both."""
    return machine.of_devices(*gpus, *(node for node in nodes if node not in gpus))


def _attention_bytes(model: ModelShape, room: int) -> Floats:
    """Return the bytes of each layer besides its routed experts; the last one has the head."""
    moe, attention = set(model.moe_layers), model.attention
    if isinstance(attention, AttentionByLayer):
        groups = [attention.of_layer(row) for row in range(model.layers)]
        weights = [model.bytes_of("attention", group.weights) for group in groups]
        each = [
            size + group.kv_values(room) * model.kv_mean(group.value_share) / 8
            for size, group in zip(weights, groups, strict=True)
        ]
    else:
        each = [model.bytes_of("attention", model.attention_weights) + model.kv_bytes(room)]
        each *= model.layers
    router = (model.bytes_of("router") + model.bytes_of("shared")) / max(1, len(moe))
    dense = model.bytes_of("dense") / max(1, model.layers - len(moe))
    found = np.array([size + (router if row in moe else dense) for row, size in enumerate(each)])
    found[-1] += model.bytes_of("head")
    return found


def _attention_us(setting: Setting) -> Floats:
    """Return each layer's time but for its experts; the step's own time is in the last layer."""
    machine, model = setting.machine, setting.model
    bare = replace(setting, model=model.model_copy(update={"expert_intermediate_size": 1}))
    calls = (0.0 if machine.gpus else 1.0,) * len(model.moe_layers)
    headless = replace(bare, model=bare.model.model_copy(update={"vocab_size": 1}))
    whole, body = decode_us(bare, calls), decode_us(headless, calls)
    costs = unit_costs(setting)
    body -= costs["token_us"]
    if not machine.gpus:  # experts of one column: the hand-overs of a layer are its experts'
        body -= len(calls) * model.top_k * costs["host_expert_us"]
    sizes = _attention_bytes(model, setting.context.depth)
    rate = gpus_read_gb_s(machine) if machine.gpus else setting.cores.local_gb_s
    sizes[-1] -= model.bytes_of("head")
    reading = sizes / (rate * 1e3)
    extra = reading - reading.min()
    found: Floats = np.maximum((body - extra.sum()) / model.layers, 0.0) + extra
    found[-1] += whole - body
    return found


def _experts_us(setting: Setting, *, on_host: bool) -> float:
    """Return the time of a layer's experts, on the host with its two hand-overs."""
    empty, model = replace(setting, context=Context(0)), setting.model
    bare = replace(empty, model=model.model_copy(update={"expert_intermediate_size": 1}))
    layers, gpus = len(model.moe_layers), setting.machine.gpus
    base = decode_us(bare, (0.0 if gpus else 1.0,) * layers)
    whole = decode_us(empty, (1.0 if on_host else 0.0,) * layers)
    found = (whole - base) / layers
    if not gpus:
        found += model.top_k * unit_costs(setting)["host_expert_us"]
    return found


def _hops(
    machine: Machine,
    names: tuple[str, ...],
    gpus: int,
    model: ModelShape,
    tokens: int,
    hand_over: float,
    through_host: float,
) -> Floats:
    """Return what handing the activations of so many tokens over takes, in us."""
    size = 2.0 * tokens * model.hidden_size
    found = np.zeros((len(names), len(names)))
    host = machine.offload[0].id
    ids = [*(gpu.id for gpu in machine.gpus), *(host if n == "host" else n for n in names[gpus:])]
    for i in range(len(names)):
        for j in range(len(names)):
            if i == j:
                continue
            ends = [ids[i], ids[j]]
            link = machine.between(*ends)
            copies = 1
            if max(i, j) >= gpus:
                fixed = hand_over if min(i, j) < gpus else hand_over / 2  # between nodes
            elif link is None:  # to the host and from there
                fixed, copies, link = through_host, 2, machine.pcie
            else:
                fixed = PEER_US
            way = LinkRate(gb_s=SOCKETS_GB_S) if link is None else link
            found[i, j] = fixed + copies * (way.latency_us + size / (way.gb_s * 1e3))
    return found


def refuse_numa(machine: Machine, numa: NumaMode) -> None:
    """Raise InputError where a NUMA setting is asked for that the machine has no nodes for."""
    if numa != "interleaved" and len(machine.nodes) < 2:
        raise InputError(
            f"machine {machine.name}: nodes: has fewer than two; --numa {numa} needs them"
        )
