"""KTransformers' machine with other kernels, or with its sockets used in another way."""

from typing import Literal

import numpy as np

from benchmarks.rooms.sim import Cpu, Machine, Numa, computation_s, get_model
from moeopt import InputError, get_machine

Kernel = Literal["hybrid", "AMX", "AVX-512"]

Sockets = Literal["tensor-parallel", "one socket", "oblivious", "oblivious, shared link"]
"""How experts lie in the memories of two sockets.

- one socket: only one computes, from its own memory.
- tensor-parallel: each socket holds its slice of every expert and reads locally (3.3).

The paper does not say how its "NUMA-oblivious baseline" reads. Two readings:

- oblivious: each socket reads half from its own memory and half from the other's, one after the
  other, at the measured 220 and 125 GB/s.
- oblivious, shared link: half of all bytes cross one link of 125 GB/s, which takes longer than the
  rest. So it is if all experts lie with one socket, and the other reads its half from there.
"""


def with_kernel(machine: Machine, kernel: Kernel) -> Machine:
    """Return a machine whose CPU has one kernel alone; "hybrid" is the preset (3.2)."""
    cpu = machine.require_cpu()
    if kernel == "hybrid":
        return machine
    changes: dict[str, object] = {"few_token_kernels": ()}
    if kernel == "AVX-512":
        few = cpu.few_token_kernels[0]
        changes |= {"kernel": few.name, "tflops": few.tflops}
    return _with_cpu(machine, cpu.model_copy(update=changes))


def with_sockets(machine: Machine, sockets: Sockets) -> Machine:
    """Return a machine whose sockets read as stated."""
    cpu, numa = machine.require_cpu(), numa_of(machine)
    if sockets == "one socket":
        numa = numa.model_copy(update={"placement": "one-socket"})
    elif sockets == "oblivious":
        numa = numa.model_copy(update={"placement": "interleaved"})
    elif sockets == "oblivious, shared link":
        remote = 1 - 1 / numa.sockets
        numa = Numa(
            sockets=1,
            local_gb_s=numa.cross_socket_gb_s / remote,
            cross_socket_gb_s=numa.cross_socket_gb_s,
            placement="one-socket",
        )
    return _with_cpu(machine, cpu.model_copy(update={"numa": numa}))


def with_fixed_time(machine: Machine, fixed_us: float) -> Machine:
    """Return a machine of which so much of a layer's attention is a fixed time.

    The rest follows, so that attention of DeepSeek-V3 in BF16 on the A100 still takes what it does.
    """
    gpu = get_machine("ktransformers-a100").require_gpu()
    size = get_model("deepseek-v3").attention_weights * 2
    reached = gpu.attention_bandwidth_efficiency or 1.0
    total_us = (gpu.layer_fixed_us or 0.0) + size / (gpu.hbm_gb_s * reached) / 1e3
    efficiency = size / (gpu.hbm_gb_s * (total_us - fixed_us)) / 1e3
    changes = {"layer_fixed_us": fixed_us, "attention_bandwidth_efficiency": efficiency}
    changed = machine.require_gpu().model_copy(update=changes)
    return machine.model_copy(update={"gpu": changed})


def numa_of(machine: Machine) -> Numa:
    """Return how the machine's sockets read; InputError if it has one memory only."""
    numa = machine.require_cpu().numa
    if numa is None:
        raise InputError(f"machine {machine.name}: cpu.numa: is missing")
    return numa


def crossover_tokens(machine: Machine, model: str, most: int = 64) -> int:
    """Return the most tokens per expert at which AVX-512 computes no slower than AMX; 0 if none."""
    tokens = np.arange(1, most + 1)
    seconds = {
        kernel: computation_s(with_kernel(machine, kernel), get_model(model), "cpu", tokens)
        for kernel in ("AMX", "AVX-512")
    }
    faster = tokens[seconds["AVX-512"] <= seconds["AMX"]]
    return int(faster.max(initial=0))


def _with_cpu(machine: Machine, cpu: Cpu) -> Machine:
    return machine.model_copy(update={"cpu": cpu})
