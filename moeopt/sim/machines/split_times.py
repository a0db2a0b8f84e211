"""What a layer's attention and experts take on each device of a machine with several of them.

A machine with several GPUs or nodes is taken apart into machines of one GPU and one host each, for
which the runtime's model of a token (`moeopt.sim.machines.runtimes`) says what it takes, and put
together again: parts and hops add. What comes on top for a second GPU stands here.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.core.units import GIB, MIB
from moeopt.sim.machines.cost import to_quanta
from moeopt.sim.machines.machine import Link, Machine
from moeopt.sim.machines.runtimes.memory import CONTEXT_MIB, buffer_bytes, host_gib
from moeopt.sim.machines.runtimes.predict import costs_of
from moeopt.sim.machines.runtimes.profile import RuntimeProfile, as_costs, get_runtime
from moeopt.sim.machines.runtimes.setting import (
    Setting,
    amounts,
    gpu_read_gb_s,
    host_read_gb_s,
    prompt_us,
)
from moeopt.sim.machines.runtimes.terms import token_us
from moeopt.sim.models.model_shape import ModelShape

Numa = Literal["interleaved", "first-touch", "nodes", "mirrored", "isolate"]
Floats = NDArray[np.float64]

LATER_GPU_LAYER_US = 80.0
"""On top of each layer whose attention is on another GPU than the first, without a link to it.

As `benchmarks/studies/split.py measured` fits it to the machine of ik_llama.cpp issue 629, on which
a second GPU makes decoding slower; of the machines with public points it is the only one without
peer access, and those with it ask for nothing. So no other machine tells whether it holds."""

THROUGH_HOST_US = 400.0
"""A hop between two GPUs without a link of their own: a copy to the host, waits, and one from it.

From the points of the same study in which experts lie on another GPU than attention."""

PEER_US = 15.0
"""A hop over a link of their own, beside its latency and bytes."""


@dataclass(frozen=True)
class SplitTimes:
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


def split_times(
    machine: Machine,
    model: ModelShape,
    *,
    context: int = 0,
    room: int = 0,
    ubatch: int = 512,
    runtime: str = "llama.cpp",
    numa: Numa = "interleaved",
    quantum_ns: int = 1000,
) -> SplitTimes:
    """Return the times and sizes of a model's parts on every device of a machine.

    Parameters
    ----------
    context, room
        Tokens in the KV cache, and how many it has room for.
    numa
        How several nodes are used.

    Raises
    ------
    InputError
        If the machine has no CPU that computes experts, or the model lacks a size.
    """
    machine.require_cpu()
    profile = get_runtime(runtime)
    gpus = [_with_one_gpu(machine, number) for number in range(len(machine.every_gpu))]
    hosts = _hosts(machine, numa)
    names = (*machine.device_names[: len(gpus)], *(name for name, _, _ in hosts))
    layers, count = model.layers, len(names)
    moe = np.zeros(layers, dtype=bool)
    moe[list(model.moe_layers)] = True
    sizes = _attention_bytes(model, max(room, context))
    held = np.where(moe, model.routed_experts * model.expert_bytes, 0).astype(float)
    attention, experts = np.zeros((layers, count)), np.full((layers, count), -1e-3)
    host = hosts[0][1]
    for number, one in enumerate(gpus):
        lone = one.model_copy(update={"cpu": host.cpu, "dram": host.dram})
        attention[:, number] = _attention_us(lone, model, context, profile)
        if number and machine.between("gpu0", f"gpu{number}") is None:
            attention[:, number] += LATER_GPU_LAYER_US
        experts[moe, number] = _experts_us(lone, model, profile, on_host=False)
    hand_over = _costs(host, model, profile)["host_layer_us"] / 2
    for number, (_, node, aware) in enumerate(hosts, start=len(gpus)):
        bare = node.model_copy(update={"gpu": None, "gpus": (), "pcie_gb_s": None})
        attention[:, number] = _attention_us(bare, model, context, profile, aware=aware)
        lone = node if gpus else bare
        experts[moe, number] = _experts_us(lone, model, profile, on_host=True, aware=aware)
        if gpus:
            experts[moe, number] -= 2 * hand_over
    hop = _hops(machine, names, len(gpus), model, 1, hand_over)
    own = [m for _, m, _ in hosts]
    prompt = prompt_us(machine, own, model, runtime, ubatch, context)
    prompt_hop = _hops(machine, names, len(gpus), model, ubatch, hand_over)
    capacity = [gpu.hbm_gb * GIB for gpu in machine.every_gpu]
    capacity += [host_gib(node) * GIB for _, node, _ in hosts]
    buffers = [
        (gpu.reserve_mib or {}).get(runtime, CONTEXT_MIB) * MIB
        + buffer_bytes(model, runtime, ubatch)
        for gpu in machine.every_gpu
    ]

    def to_ns(table: Floats) -> NDArray[np.int64]:
        return np.asarray(to_quanta(np.asarray(table) * 1e3, quantum_ns), dtype=np.int64)

    return SplitTimes(
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


def _with_one_gpu(machine: Machine, number: int) -> Machine:
    """Return the machine with one of its GPUs alone."""
    link = machine.between(f"gpu{number}", machine.device_names[-1])
    return machine.model_copy(
        update={
            "gpu": machine.every_gpu[number],
            "gpus": (),
            "pcie_gb_s": machine.pcie_gb_s if link is None else link.gb_s,
        }
    )


def _hosts(machine: Machine, numa: Numa) -> list[tuple[str, Machine, bool]]:
    """Return the host's devices: name, the machine as if it had that alone, placed by socket."""
    cpu, nodes = machine.require_cpu(), machine.nodes
    if len(nodes) < 2:
        return [(machine.device_names[-1], machine, False)]
    if numa == "nodes":
        found = []
        for node in nodes:
            share = node.cores / max(1, sum(other.cores for other in nodes))
            rate, threads = node.bandwidth_gb_s, node.cores
            changed = {"numa": None, "bandwidth_gb_s": rate, "threads": threads}
            own = cpu.of_cores(share).model_copy(update=changed)
            dram = machine.dram.model_copy(update={"capacity_gb": node.capacity_gb})
            found.append((node.name, machine.model_copy(update={"cpu": own, "dram": dram}), True))
        return found
    total = sum(node.bandwidth_gb_s for node in nodes)
    capacity = sum(node.capacity_gb for node in nodes)
    own_numa, rate, aware = cpu.numa, total, False
    if numa == "mirrored":
        own_numa, capacity, aware = None, min(node.capacity_gb for node in nodes), True
    if numa == "first-touch" and cpu.numa is not None:
        own_numa = None  # written by the threads that read it: local
    if numa == "isolate":
        first = nodes[0]
        own_numa, rate, capacity = None, first.bandwidth_gb_s, first.capacity_gb
    own = cpu.model_copy(update={"numa": own_numa, "bandwidth_gb_s": rate})
    dram = machine.dram.model_copy(update={"capacity_gb": capacity})
    return [("host", machine.model_copy(update={"cpu": own, "dram": dram}), aware)]


def _attention_bytes(model: ModelShape, room: int) -> Floats:
    """Return the bytes of each layer besides its routed experts; the last one has the head."""
    moe = set(model.moe_layers)
    each = model.bytes_of("attention", model.attention_weights) + model.kv_bytes(room)
    router = (model.bytes_of("router") + model.bytes_of("shared")) / max(1, len(moe))
    dense = model.bytes_of("dense") / max(1, model.layers - len(moe))
    found = np.array([each + (router if row in moe else dense) for row in range(model.layers)])
    found[-1] += model.bytes_of("head")
    return found


def _costs(machine: Machine, model: ModelShape, profile: RuntimeProfile) -> dict[str, float]:
    return as_costs(costs_of(machine, model, profile)[0])


def _token_us(setting: Setting, profile: RuntimeProfile) -> float:
    costs, _ = costs_of(setting.machine, setting.model, profile)
    return float(token_us(amounts(setting), costs))


def _attention_us(
    machine: Machine,
    model: ModelShape,
    context: int,
    profile: RuntimeProfile,
    *,
    aware: bool = False,
) -> Floats:
    """Return each layer's time but for its experts; the step's own time is in the last layer."""
    bare = model.model_copy(update={"expert_intermediate_size": 1})
    calls = (0.0 if machine.gpu is not None else 1.0,) * len(model.moe_layers)
    made = Setting(machine, bare, calls, context, aware or profile.numa_aware)
    headless = replace(made, model=bare.model_copy(update={"vocab_size": 1}))
    whole, body = _token_us(made, profile), _token_us(headless, profile)
    costs = _costs(machine, model, profile)
    body -= costs["token_us"]
    if machine.gpu is None:  # experts of one column: the hand-overs of a layer are its experts'
        body -= len(calls) * model.top_k * costs["host_expert_us"]
    sizes = _attention_bytes(model, context)
    rate = gpu_read_gb_s(machine) if machine.gpu is not None else host_read_gb_s(machine)
    sizes[-1] -= model.bytes_of("head")
    reading = sizes / (rate * 1e3)
    extra = reading - reading.min()
    found: Floats = np.maximum((body - extra.sum()) / model.layers, 0.0) + extra
    found[-1] += whole - body
    return found


def _experts_us(
    machine: Machine,
    model: ModelShape,
    profile: RuntimeProfile,
    *,
    on_host: bool,
    aware: bool = False,
) -> float:
    """Return the time of a layer's experts, on the host with its two hand-overs."""
    bare = model.model_copy(update={"expert_intermediate_size": 1})
    layers = len(model.moe_layers)
    aware = aware or profile.numa_aware
    without = 0.0 if machine.gpu is not None else 1.0
    here = (1.0 if on_host else 0.0,) * layers
    base = _token_us(Setting(machine, bare, (without,) * layers, 0, aware), profile)
    whole = _token_us(Setting(machine, model, here, 0, aware), profile)
    found = (whole - base) / layers
    if machine.gpu is None:
        found += model.top_k * _costs(machine, model, profile)["host_expert_us"]
    return found


def _hops(
    machine: Machine,
    names: tuple[str, ...],
    gpus: int,
    model: ModelShape,
    tokens: int,
    hand_over: float,
) -> Floats:
    """Return what handing the activations of so many tokens over takes, in us."""
    size = 2.0 * tokens * model.hidden_size
    found = np.zeros((len(names), len(names)))
    for i in range(len(names)):
        for j in range(len(names)):
            if i == j:
                continue
            ends = [names[i], names[j]]
            link: Link | None = None
            if max(i, j) < gpus:
                link = machine.between(*ends)
                fixed = THROUGH_HOST_US if link is None else PEER_US
            elif min(i, j) < gpus:
                link = machine.between(names[min(i, j)], machine.device_names[-1])
                fixed = hand_over
            else:
                fixed = hand_over / 2  # between nodes
            gb_s = machine.pcie_gb_s or 50.0 if link is None else link.gb_s
            bytes_us = size / (gb_s * 1e3) * (2 if link is None and max(i, j) < gpus else 1)
            found[i, j] = fixed + bytes_us
    return found


def refuse_numa(machine: Machine, numa: Numa) -> None:
    """Raise InputError where a NUMA setting is asked for that the machine has no nodes for."""
    if numa != "interleaved" and len(machine.nodes) < 2:
        raise InputError(
            f"machine {machine.name}: nodes: has fewer than two; --numa {numa} needs them"
        )
