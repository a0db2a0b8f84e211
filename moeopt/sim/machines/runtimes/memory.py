"""What a runtime takes of the memories of GPU and host: one sum for predictions, plans, exports."""

from dataclasses import dataclass

from moeopt.core.errors import InputError
from moeopt.core.units import GIB, MIB
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Device, Machine
from moeopt.sim.models.model_shape import ModelShape

CONTEXT_MIB = 1024.0
"""Of a GPU's memory without `reserve_mib`: the driver's context (300 to 500 MiB), the display, and
what stays free for fragmentation; llama.cpp's own ``--fit`` leaves as much."""

HOST_SHARE, HOST_LEAST_GIB = 0.05, 2.0
"""Of the host's memory the system has this share, and at least so much."""

DESKTOP_GIB, SERVER_GIB = 96.0, 128.0
"""Memory per channel that a host with at most four of them takes at most, and one with more: two
DIMMs of 48 GiB, one of 128. What is checked where nobody says how much there is."""

UBATCH = 512
"""llama.cpp's default of ``--ubatch-size``: tokens of a prompt that are computed together."""

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


def kv_bytes(model: ModelShape, allocated: int) -> int:
    """Return the bytes of the KV cache of all layers, with room for so many tokens."""
    return model.layers * model.kv_bytes(allocated)


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


def gpu_use(
    machine: Machine,
    model: ModelShape,
    experts: float,
    context: int,
    runtime: str | None,
    ubatch: int = UBATCH,
) -> Use:
    """Return what the GPUs' memory goes to.

    Parameters
    ----------
    experts
        Share of the routed experts that lie there, from 0 to 1.
    """
    total = sum(gpu.gpu_gib for gpu in machine.gpus)
    off = experts < 1.0 and not machine.unified
    several = max(1, len(machine.gpus))
    return Use(
        "GPU memory",
        {
            "weights": model.resident_bytes - model.bytes_of("embedding"),
            "experts": round(experts * experts_bytes(model)),
            "KV cache": kv_bytes(model, context),
            "buffers": several * buffer_bytes(model, runtime, ubatch, experts_off_gpu=off),
            "reserved": reserved_bytes(machine, runtime),
        },
        int(total * GIB),
    )


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


def host_use(
    machine: Machine,
    model: ModelShape,
    experts: float,
    context: int,
    numa: NumaMode = "interleaved",
) -> Use:
    """Return what the host's memory goes to: the experts there, or the whole model without a GPU.

    Where GPU and host share one memory, what the GPU has of it comes on top (`Use.beside`).
    """
    total = int(host_gib(machine, numa) * GIB)
    parts = {"experts": round(experts * experts_bytes(model))}
    if not machine.gpus:
        parts["weights"] = model.resident_bytes
        parts["KV cache"] = kv_bytes(model, context)
        parts["buffers"] = buffer_bytes(model, None, experts_off_gpu=False)
    else:
        parts["embedding"] = model.bytes_of("embedding")
    if is_stated(machine) and not machine.unified:
        parts["system"] = host_reserved_bytes(total)
    return Use("host memory", parts, total)


def experts_bytes(model: ModelShape) -> int:
    """Return the bytes of all routed experts."""
    return len(model.moe_layers) * model.routed_experts * model.expert_bytes


def cache_type(bits: float) -> str:
    """Return llama.cpp's ``-ctk`` of a KV cache of so many bits.

    Raises
    ------
    InputError
        If there is none.
    """
    for name, width in CACHE_TYPES.items():
        if abs(width - bits) < 0.01:
            return name
    known = ", ".join(f"{width:g} ({name})" for name, width in CACHE_TYPES.items())
    raise InputError(f"kv_bits: llama.cpp has caches of {known} bits, not {bits:g}")


CACHE_TYPES = {"f32": 32.0, "f16": 16.0, "q8_0": 8.5, "q5_1": 6.0, "q5_0": 5.5} | {
    **{"q4_1": 5.0, "q4_0": 4.5}
}
"""Names of ``-ctk`` and ``-ctv`` -> bits of a number, scales included."""

PLAIN_WIDTHS = {8.0: 8.5, 4.0: 4.5}
"""What people call the widths of q8_0 and q4_0."""


def kv_bits_of(text: str | float) -> float:
    """Return the bits of a number in a KV cache from a width or a name such as q8_0.

    Raises
    ------
    InputError
        If it is neither.
    """
    if isinstance(text, str) and text.strip().lower() in (*CACHE_TYPES, "bf16", "fp16", "fp8"):
        name = text.strip().lower()
        return {"bf16": 16.0, "fp16": 16.0, "fp8": 8.0}.get(name) or CACHE_TYPES[name]
    try:
        width = float(text)
    except (TypeError, ValueError):
        known = ", ".join(CACHE_TYPES)
        raise InputError(f"kv_bits: must be a width or one of {known}, not {text!r:.40}") from None
    if not 0.5 <= width <= 64:
        raise InputError(f"kv_bits: must be from 0.5 to 64, not {width:g}")
    return width
