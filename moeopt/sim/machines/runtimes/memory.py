"""What a runtime takes of the memories of GPU and host: one sum for predictions, plans, exports."""

from collections.abc import Sequence
from dataclasses import dataclass

from moeopt.core.units import GIB, MIB
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Device, Machine
from moeopt.sim.machines.runtimes.setting import UBATCH, Setting
from moeopt.sim.models.model_shape import ModelShape

CONTEXT_MIB = 1024.0
"""Of a GPU's memory without `reserve_mib`: the driver's context (300 to 500 MiB), the display, and
what stays free for fragmentation; llama.cpp's own ``--fit`` leaves as much."""

HOST_SHARE, HOST_LEAST_GIB = 0.05, 2.0
"""Of the host's memory the system has this share, and at least so much."""

DESKTOP_GIB, SERVER_GIB = 96.0, 128.0
"""Memory per channel that a host with at most four of them takes at most, and one with more: two
DIMMs of 48 GiB, one of 128. What is checked where nobody says how much there is."""

IK_LATENT_MIB = 256
"""What ik_llama.cpp computes of latent attention at once at most (its ``-amb``)."""

WITH_GRAPH = ("llama.cpp", "ik_llama.cpp")
"""Runtimes whose compute buffers are those of a graph of ggml."""


@dataclass(frozen=True)
class Use:
    """What one memory goes to, in bytes; `total` is None if the machine does not state it."""

    name: str
    parts: dict[str, int]
    total: int | None

    @property
    def needed(self) -> int:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def missing(self) -> int:
        """How many bytes are missing; 0 if it fits or the total is not known."""
        return 0 if self.total is None else max(0, self.needed - self.total)

    def beside(self, other: "Use") -> "Use":
        """Return what this one and another, which lies in the same memory, take together."""
        parts = {**self.parts, other.name: other.needed}
        return Use(self.name, parts, self.total)

    def in_words(self) -> str:
        """Return the sum in MiB, on one line."""
        parts = [f"{name} {-(-size // MIB):,}" for name, size in self.parts.items() if size]
        return f"{self.name}: {' + '.join(parts)} = {-(-self.needed // MIB):,} MiB"


def buffer_bytes(
    model: ModelShape, runtime: str | None, ubatch: int = UBATCH, *, experts_off_gpu: bool = True
) -> int:
    """Return the bytes of the compute buffers on a GPU.

    Parameters
    ----------
    runtime
        `WITH_GRAPH` or others, which are taken to need as much.
    ubatch
        Tokens that are computed together.
    experts_off_gpu
        Whether experts lie in host memory: for prompts one matrix of a layer's experts is copied.

    Notes
    -----
    The largest of what a graph holds at once: logits of a ubatch in 32 bits; or the activations of
    a layer: those of all chosen experts (three widths) and of the attention's projections. It fits
    published logs of llama.cpp: 300 MiB for Qwen3-30B at 512 tokens are its logits. Runtimes
    without such a graph (ktransformers on SGLang) are taken to need the same; their logs are not
    public.
    """
    logits = 4 * ubatch * (model.vocab_size or 0)
    inner = 3 * model.top_k * model.expert_intermediate_size + model.top_k * model.hidden_size
    activations = 4 * ubatch * (inner + 6 * model.hidden_size)
    staged = model.routed_experts * model.expert_bytes // 3 if experts_off_gpu else 0
    return max(logits, activations) + (staged if ubatch >= 32 else 0)


def ik_buffer_bytes(model: ModelShape, ubatch: int, context: int) -> int:
    """Return the compute buffer of a GPU by which ik_llama.cpp shares layers out.

    Its own estimate (``get_layer_sizes``): the largest of a layer's feed-forward activations with
    its input, and under ``-mla 3`` of keys and values in 32 bits, by heads so that they take at
    most `IK_LATENT_MIB`.
    """
    hidden, shared = model.hidden_size, model.shared_experts * (model.shared_intermediate_size or 0)
    widths = [model.top_k * (2 * model.expert_intermediate_size + hidden)]
    widths += [2 * own + hidden for own in (shared, model.dense_intermediate_size or 0) if own]
    found = 4 * ubatch * (max(widths) + 2 * hidden)
    if model.attention is None or model.attention.kind != "latent":
        return found
    heads, each = model.attention.heads, 8 * model.attention.value_dim * context
    parts = [
        n for n in range(1, heads) if heads % n == 0 and heads // n * each <= IK_LATENT_MIB * MIB
    ]
    return max(found, each * (heads // parts[0] if parts else 1))


def reserved_bytes(machine: Machine, runtime: str | None) -> int:
    """Return what stays free of all GPUs beside the compute buffers."""
    total = 0.0
    for gpu in machine.gpus:
        stated = (gpu.only("gpu").reserve_mib or {}).get(runtime or "")
        total += CONTEXT_MIB if stated is None else stated
    return int(total * MIB)


def host_reserved_bytes(total: int) -> int:
    """Return what the host's system keeps of its memory."""
    return int(max(HOST_LEAST_GIB * GIB, HOST_SHARE * total))


def uses(setting: Setting, host_calls: Sequence[float]) -> tuple[Use, ...]:
    """Return what the memories of GPUs and host go to; a share of experts is one of calls.

    Parameters
    ----------
    host_calls
        For each layer with experts, the share of calls to those on the host.
    """
    calls = sum(host_calls) / max(1, len(host_calls))
    on_host = _host_use(setting, calls)
    if not setting.machine.gpus:
        return (on_host,)
    on_gpu = _gpu_use(setting, 1.0 - calls)
    return on_gpu, on_host.beside(on_gpu) if setting.machine.unified else on_host


def _gpu_use(setting: Setting, experts: float) -> Use:
    """Return what the GPUs' memory goes to, with a share of the routed experts from 0 to 1."""
    machine, model, runtime = setting.machine, setting.shape, setting.runtime
    total = sum(gpu.gpu_gib for gpu in machine.gpus)
    off = experts < 1.0 and not machine.unified
    several = max(1, len(machine.gpus))
    each = buffer_bytes(model, runtime, setting.ubatch, experts_off_gpu=off)
    return Use(
        "GPU memory",
        {
            "weights": model.resident_bytes - model.bytes_of("embedding"),
            "experts": round(experts * experts_bytes(model)),
            "KV cache": model.cache_bytes(setting.context.allocated),
            "buffers": several * each,
            "reserved": reserved_bytes(machine, runtime),
        },
        int(total * GIB),
    )


def _host_use(setting: Setting, experts: float) -> Use:
    """Return what the host's memory goes to: the experts there, or the whole model without a GPU.

    Where GPU and host share one memory, what the GPU has of it comes on top (`Use.beside`).
    """
    machine, model = setting.machine, setting.shape
    total = int(host_gib(machine, setting.numa) * GIB)
    parts = {"experts": round(experts * experts_bytes(model))}
    if not machine.gpus:
        parts["weights"] = model.resident_bytes
        parts["KV cache"] = model.cache_bytes(setting.context.allocated)
        parts["buffers"] = buffer_bytes(model, None, experts_off_gpu=False)
    else:
        parts["embedding"] = model.bytes_of("embedding")
    if is_stated(machine) and not machine.unified:
        parts["system"] = host_reserved_bytes(total)
    return Use("host memory", parts, total)


def host_gib(machine: Machine, numa: NumaMode = "interleaved") -> float:
    """Return the host's memory in GiB; where it is not stated, the most that such a host takes."""
    sizes = [node_gib(node) for node in machine.offload]
    if numa == "isolate":
        return sizes[0]
    return min(sizes) if numa == "mirrored" else sum(sizes)


def node_gib(node: Device) -> float:
    """Return a memory's size in GiB; where it is not stated, the most that such a host takes."""
    if node.memory.capacity_gib is not None:
        return node.memory.capacity_gib
    dimms = node.memory.dimms
    channels = 1 if dimms is None else dimms.channels or dimms.count
    return channels * (DESKTOP_GIB if channels <= 4 else SERVER_GIB)


def is_stated(machine: Machine) -> bool:
    """Return whether the machine says what its host's memory holds."""
    return all(node.memory.capacity_gib is not None for node in machine.offload)


def unstated(machine: Machine, needed: int) -> str:
    """Return that the host's memory is assumed, where nobody states it."""
    return (
        f"host memory: not stated; {needed / GIB:.1f} GiB are needed, {host_gib(machine):g} GiB,"
        " the most that such a host takes, are assumed (dram.capacity_gib)"
    )


def experts_bytes(model: ModelShape) -> int:
    """Return the bytes of all routed experts."""
    return len(model.moe_layers) * model.routed_experts * model.expert_bytes
