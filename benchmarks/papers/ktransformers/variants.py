"""KTransformers' machine with other kernels, or with its sockets used in another way."""

from typing import Literal

import numpy as np

from benchmarks.rooms.sim import (
    Device,
    Machine,
    cores_of,
    get_model,
    step_costs,
)
from moeopt import InputError, get_machine

Kernel = Literal["hybrid", "AMX", "AVX-512"]

Sockets = Literal["tensor-parallel", "one socket", "oblivious", "oblivious, shared link"]
"""How experts lie in the memories of two sockets.

- one socket: all are read from one socket's memory. The kernels stay those of both: it is reads
  that are compared.
- tensor-parallel: each socket holds its slice of every expert and reads locally (3.3).

The paper does not say how its "NUMA-oblivious baseline" reads. Two readings:

- oblivious: each socket reads half from its own memory and half from the other's, one after the
  other, at the measured 220 and 125 GB/s.
- oblivious, shared link: half of all bytes cross one link of 125 GB/s, which takes longer than the
  rest. So it is if all experts lie with one socket, and the other reads its half from there.
"""


def with_kernel(machine: Machine, kernel: Kernel) -> Machine:
    """Return a machine whose CPU has one kernel alone; "hybrid" is the preset (3.2)."""
    if kernel == "hybrid":
        return machine
    return machine.with_devices(*(_with_kernel(node, kernel) for node in machine.nodes))


def with_sockets(machine: Machine, sockets: Sockets) -> Machine:
    """Return a machine whose sockets together read as stated."""
    return machine.with_devices(
        *(
            node.with_memory(measured_gb_s=read_gb_s(machine, sockets) / len(machine.nodes))
            for node in machine.nodes
        )
    )


def with_fixed_time(machine: Machine, fixed_us: float) -> Machine:
    """Return a machine of which so much of a layer's attention is a fixed time.

    The rest follows, so that attention of DeepSeek-V3 in BF16 on the A100 still takes what it does.
    """
    a100 = get_machine("ktransformers-a100").require("gpu")
    size, gb_s = get_model("deepseek-v3").attention_weights * 2, a100.memory.gb_s
    reached = a100.memory.attention_reached or 1.0
    total_us = (a100.only("gpu").layer_us or 0.0) + size / (gb_s * reached) / 1e3
    share = size / (gb_s * (total_us - fixed_us)) / 1e3
    gpu = machine.require("gpu").with_part("gpu", layer_us=fixed_us)
    return machine.with_devices(gpu.with_memory(attention_reached=share))


def read_gb_s(machine: Machine, sockets: Sockets) -> float:
    """Return what the sockets read together; InputError if the machine has one memory only."""
    nodes = machine.nodes
    link = None if len(nodes) < 2 else machine.between(nodes[0].id, nodes[1].id)
    if link is None:
        raise InputError(f"machine {machine.name}: links: there is none between two sockets")
    if sockets == "one socket":
        return cores_of(machine, "isolate").read_gb_s
    if sockets == "oblivious":
        return cores_of(machine, "interleaved").read_gb_s
    if sockets == "oblivious, shared link":
        return link.gb_s / (1 - 1 / len(nodes))
    return cores_of(machine, "tensor-parallel").read_gb_s


def crossover_tokens(machine: Machine, model: str, most: int = 64) -> int:
    """Return the most tokens per expert at which AVX-512 computes no slower than AMX; 0 if none."""
    tokens = np.arange(1, most + 1)
    seconds = {
        kernel: step_costs(with_kernel(machine, kernel), get_model(model)).computation_s(
            "cpu", tokens
        )
        for kernel in ("AMX", "AVX-512")
    }
    faster = tokens[seconds["AVX-512"] <= seconds["AMX"]]
    return int(faster.max(initial=0))


def _with_kernel(node: Device, kernel: Kernel) -> Device:
    own = next(one for one in node.only("cpu").kernels if one.name == kernel)
    return node.with_part("cpu", kernels=(own.model_copy(update={"max_tokens": None}),))
