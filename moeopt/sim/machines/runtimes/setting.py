"""Settings of a runtime: where each layer's experts are computed, and what a token then reads."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError, expect
from moeopt.sim.machines.cores import Cores, NumaMode, cores_of
from moeopt.sim.machines.machine import Device, Machine
from moeopt.sim.machines.runtimes.context import USUAL, Context
from moeopt.sim.machines.runtimes.memory import UBATCH, Use, gpu_use, host_use
from moeopt.sim.machines.runtimes.profile import Kind
from moeopt.sim.machines.runtimes.terms import TERMS
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan import Plan

USUAL_CLOCK_GHZ = 1.8
"""Of GPUs whose clock is not stated."""


@dataclass(frozen=True)
class Setting:
    """A model on a machine, one sequence, one token per step.

    Parameters
    ----------
    machine, model
        Without a GPU the CPU computes everything.
    host_calls
        One entry per layer with experts: the expected share of the experts a token calls there
        that the CPU computes from host memory. 0: all experts of the layer are on the GPU; 1: none.
    context
        Tokens in the KV cache, and how many it has room for.
    numa
        How weights lie on several nodes.
    """

    machine: Machine
    model: ModelShape
    host_calls: tuple[float, ...]
    context: Context = USUAL
    numa: NumaMode = "interleaved"

    def __post_init__(self) -> None:
        """Raise InputError unless the setting is one of this model and machine."""
        layers = len(self.model.moe_layers)
        if len(self.host_calls) != layers:
            got = len(self.host_calls)
            raise InputError(
                f"must have {layers} entries, one per MoE layer, not {got}", field="host_calls"
            )
        if not all(0.0 <= share <= 1.0 for share in self.host_calls):
            raise InputError("must be shares from 0 to 1", field="host_calls")
        expect("context", self.context, Context, what="a Context")
        if not self.machine.gpus and min(self.host_calls) < 1.0:
            raise InputError(
                f"machine {self.machine.name}: gpu: is missing; experts on it are asked for"
            )
        if not self.machine.nodes and max(self.host_calls) > 0.0:
            raise InputError(
                f"machine {self.machine.name}: cpu: is missing; experts on it are asked for"
            )

    @classmethod
    def with_cpu_blocks(
        cls,
        machine: Machine,
        model: ModelShape,
        n_cpu_moe: int,
        context: Context = USUAL,
        *,
        numa: NumaMode = "interleaved",
    ) -> Self:
        """Return llama.cpp's ``--n-cpu-moe N``: experts of the first `n_cpu_moe` blocks on the CPU.

        Blocks are counted as llama.cpp counts them: those without experts too, which have nothing
        to move.
        """
        if not 0 <= n_cpu_moe <= 4096:
            raise InputError(f"must be from 0 to 4096, not {n_cpu_moe}", field="n_cpu_moe")
        if not machine.gpus:
            n_cpu_moe = model.layers
        shares = tuple(float(layer < n_cpu_moe) for layer in model.moe_layers)
        return cls(machine, model, shares, context, numa)

    @classmethod
    def with_gpu_experts(
        cls,
        machine: Machine,
        model: ModelShape,
        gpu_experts: int,
        context: Context = USUAL,
        *,
        numa: NumaMode = "tensor-parallel",
    ) -> Self:
        """Return ktransformers' ``--kt-num-gpu-experts N``: so many experts of every layer.

        All experts are taken to be called equally often, which is what placing by number assumes.
        """
        if not 0 <= gpu_experts <= model.routed_experts:
            most = model.routed_experts
            raise InputError(f"must be from 0 to {most}, not {gpu_experts}", field="gpu_experts")
        share = 1.0 - gpu_experts / model.routed_experts
        return cls(machine, model, (share,) * len(model.moe_layers), context, numa)

    @classmethod
    def of_plan(
        cls,
        machine: Machine,
        model: ModelShape,
        plan: Plan,
        popularity: NDArray[np.float64] | None = None,
        context: Context = USUAL,
        *,
        numa: NumaMode = "interleaved",
    ) -> Self:
        """Return the setting of a plan's residents.

        Parameters
        ----------
        popularity
            MoE layers x experts: how often each is called, in any unit; by default all equally.
        """
        expect("plan", plan, Plan, what="a plan, from moeopt.load_plan")
        layers, experts = len(model.moe_layers), model.routed_experts
        placed = plan.resident
        if placed is None or len(placed) != layers:
            got = "none" if placed is None else len(placed)
            raise InputError(f"plan {plan.name}: resident: must be of {layers} layers, not {got}")
        if any(e >= experts for residents in placed for e in residents):
            raise InputError(f"plan {plan.name}: resident: an expert is not below {experts}")
        weights = np.ones((layers, experts)) if popularity is None else popularity
        if weights.shape != (layers, experts):
            shape = " x ".join(map(str, weights.shape))
            raise InputError(f"must be {layers} x {experts}, not {shape}", field="popularity")
        totals = weights.sum(axis=1)
        shares = [
            1.0 - float(weights[row, list(residents)].sum() / totals[row]) if totals[row] else 1.0
            for row, residents in enumerate(placed)
        ]
        return cls(machine, model, tuple(max(0.0, s) for s in shares), context, numa)

    @property
    def kind(self) -> Kind:
        """What computes: errors of predictions differ by it."""
        calls = sum(self.host_calls)
        if calls and len(self.machine.nodes) > 1 and self.numa != "isolate":
            return "several sockets"
        if not self.machine.gpus:
            return "CPU only"
        return "GPU and CPU" if calls else "all on the GPU"

    def uses(self, runtime: str, ubatch: int = UBATCH) -> tuple[Use, ...]:
        """Return what the memories of GPU and host go to; a share of experts is one of calls."""
        calls = sum(self.host_calls) / max(1, len(self.host_calls))
        on_host = host_use(self.machine, self.model, calls, self.context.allocated, self.numa)
        if not self.machine.gpus:
            return (on_host,)
        room = self.context.allocated
        on_gpu = gpu_use(self.machine, self.model, 1.0 - calls, room, runtime, ubatch)
        return on_gpu, on_host.beside(on_gpu) if self.machine.unified else on_host

    @property
    def cores(self) -> Cores:
        """The host's cores as they compute experts."""
        return cores_of(self.machine, self.numa)


def gpu_read_gb_s(machine: Machine) -> float:
    """Return the rate at which GPU kernels read weights: measured, else as GPUs usually do.

    Several GPUs read one after the other, each what it has room for.
    """
    machine.require("gpu")
    seconds = [gpu.gpu_gib / _read_gb_s(gpu) for gpu in machine.gpus]
    return sum(gpu.gpu_gib for gpu in machine.gpus) / sum(seconds)


def _read_gb_s(gpu: Device) -> float:
    usual = 1762 / 2039  # an A100's measured read rate over its peak: measured.csv
    return gpu.memory.measured_gb_s or gpu.memory.gb_s * (gpu.memory.reached or usual)


def decode_factor(bits: float, name: str | None = None) -> float:
    """Return how much dearer a quantised weight is to unpack on a CPU than one of Q8_0.

    By the format's name where it is known, else by its width. Before any measurement: a codebook
    look-up per few weights (IQ1 to IQ3, IQ4_XS less) costs more than shifts and masks (Q2_K to
    Q6_K, MXFP4, ik_llama.cpp's IQn_K), these more than bytes; 16-bit weights are widened.
    """
    for begin, factor in DECODE_FACTORS:
        if name is not None and name.upper().removeprefix("UD_").startswith(begin):
            return factor
    return 1.0 if bits >= 6.75 else 1.5 if bits >= 4 else 2.0


DECODE_FACTORS = (
    *(("IQ1_S", 3.0), ("IQ1_M", 3.0), ("IQ2_XXS", 3.0), ("IQ2_XS", 3.0), ("IQ2_S", 3.0)),
    *(("IQ2_M", 3.0), ("IQ3_XXS", 3.0), ("IQ3_XS", 3.0), ("IQ3_S", 3.0), ("IQ3_M", 3.0)),
    *(("IQ", 1.5), ("Q8", 1.0), ("BF16", 1.0), ("F16", 1.0), ("Q4_0", 1.2), ("Q", 1.5)),
    *(("MXFP4", 1.5), ("FP8", 1.5)),
)
"""Beginning of a format's name -> `decode_factor`; the first that fits."""


def amounts(setting: Setting) -> NDArray[np.float64]:
    """Return what a token needs of each of `TERMS`.

    Returns
    -------
    (terms,) array
        Microseconds that reads would take at the machine's bandwidths and operations at its rates;
        numbers of tokens (1), layers, layers by kind of attention, expected layers in which the
        CPU computes some expert, and expected experts that it computes.
    """
    machine, model = setting.machine, setting.model
    top_k, layers = model.top_k, model.layers
    calls = np.array(setting.host_calls)
    expert_bytes = model.expert_weights * model.bits / 8
    rest = model.resident_bytes - model.bytes_of("embedding")  # besides routed experts
    kv_bytes = layers * model.kv_bytes(setting.context.depth)
    attention = model.attention
    kind = None if attention is None else attention.kind
    score_ops = (
        0.0 if attention is None else 2.0 * layers * attention.products(setting.context.depth)
    )
    host_weights = float(calls.sum()) * top_k * model.expert_weights
    host_bytes = float(calls.sum()) * top_k * expert_bytes
    found = dict.fromkeys(TERMS, 0.0) | {"token_us": 1.0}
    cores = setting.cores if machine.nodes else None
    tops = 0.0 if cores is None else max(float(cores.rate_tflops(1)), 1e-6)
    decode_ops = 2.0 * host_weights * decode_factor(model.bits, model.quantisation)
    other_bits = model.bits_of("attention")
    others = rest * 8 / other_bits
    if not machine.gpus:
        assert cores is not None  # noqa: S101
        host_bytes += rest
        decode_ops += 2.0 * others * decode_factor(other_bits)
        found["cpu_layer_us"] = layers
        if kind == "latent":
            found["host_latent"] = score_ops / tops / 1e6
        else:
            # Where one node computes, too, costs were fitted with the rate of all memories.
            local = (
                replace(setting, numa="interleaved") if setting.numa == "one-computes" else setting
            )
            found["host_kv"] = kv_bytes / local.cores.local_gb_s / 1e3
    else:
        gpu_bytes = rest + float((1.0 - calls).sum()) * top_k * expert_bytes
        found["gpu_read"] = gpu_bytes / gpu_read_gb_s(machine) / 1e3
        gpu_weights = float((1.0 - calls).sum()) * top_k * model.expert_weights
        gpu_ops = 2.0 * gpu_weights * decode_factor(model.bits, model.quantisation)
        gpu_ops += 2.0 * others * decode_factor(other_bits)
        gpu = machine.gpus[0].only("gpu")
        peak = gpu.peak_tflops or 0.0
        vector = gpu.vector_tflops or peak / 4
        found["gpu_decode"] = gpu_ops / vector / 1e6
        slower = USUAL_CLOCK_GHZ / (gpu.clock_ghz or USUAL_CLOCK_GHZ)
        found["layer_us"] = layers * slower
        if kind == "latent":
            found["gpu_latent"] = score_ops / peak / 1e6
            found["latent_layer_us"] = layers * slower
        else:
            found["gpu_kv"] = max(1.0, 16 / model.bits_of("kv")) * kv_bytes
            found["gpu_kv"] /= gpu_read_gb_s(machine) * 1e3
            found["gpu_scores"] = score_ops / vector / 1e6
        if attention is not None and attention.kind in ("hybrid", "by_layer"):
            found["linear_layer_us"] = slower * layers * attention.linear_share
        found["host_layer_us"] = float((1.0 - (1.0 - calls) ** top_k).sum())
    if host_bytes:
        assert cores is not None  # noqa: S101
        spread = len(machine.nodes) > 1 and setting.numa in ("interleaved", "one-computes")
        found["oblivious_read" if spread else "host_read"] = host_bytes / cores.read_gb_s / 1e3
        found["host_decode"] = decode_ops / tops / 1e6
        barrier = (cores.threads or 16) / 16
        found["host_expert_us"] = float(calls.sum()) * top_k * barrier
    return np.array([found[term] for term in TERMS])


GPU_PROMPT_SHARE = 0.35
"""Of a GPU's peak that products with quantised weights reach on a ubatch; assumed."""

UPLOAD_SHARE = 0.8
"""Of PCIe's rate that copies of experts reach."""

UPLOAD_FROM = 32
"""Tokens from which llama.cpp copies experts to the GPU instead of computing them on the CPU."""


def upload_from(model: ModelShape, runtime: str) -> int:
    """Return from how many tokens of a ubatch on a runtime copies experts to the GPU.

    llama.cpp: 32. ik_llama.cpp: 32 x experts / experts per token (its issue 520).
    """
    if runtime != "ik_llama.cpp":
        return UPLOAD_FROM
    return -(-UPLOAD_FROM * model.routed_experts // model.top_k)


def prompt_us(
    machine: Machine,
    hosts: Sequence[Cores],
    model: ModelShape,
    runtime: str,
    tokens: int,
    context: int,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what one ubatch takes by rates alone: attention, and experts, (layers, devices) each.

    Devices are the machine's GPUs, then the hosts. Experts in host memory are computed there, or
    from a threshold on copied to the first GPU and computed as there; the copy is what counts.
    """
    gpus, moe = machine.gpus, np.zeros(model.layers, dtype=bool)
    moe[list(model.moe_layers)] = True
    others = model.attention_weights + (model.shared_weights if moe.any() else 0)
    dense = 2.0 * tokens * (others + context / 2 * 2 * model.hidden_size)
    reached = 1.0 - (1.0 - model.top_k / model.routed_experts) ** tokens
    touched = model.routed_experts * model.expert_bytes * reached
    work = 2.0 * tokens * model.top_k * model.expert_weights
    attention, experts = np.zeros((2, model.layers, len(gpus) + len(hosts)))
    for number, gpu in enumerate(gpus):
        peak, read = gpu.only("gpu").peak_tflops or 0.0, _read_gb_s(gpu) * 1e3
        rate = peak * 1e6 * GPU_PROMPT_SHARE
        size = model.bytes_of("attention", model.attention_weights)
        attention[:, number] = max(dense / rate, size / read)
        experts[moe, number] = max(work / rate, touched / read)
    for number, host in enumerate(hosts, start=len(gpus)):
        many = max(1, tokens * model.top_k // model.routed_experts)
        rate = float(host.rate_tflops(many)) * 1e6
        attention[:, number] = dense / rate
        experts[moe, number] = max(work / rate, touched / (host.local_gb_s * 1e3))
        if gpus and tokens >= upload_from(model, runtime):
            copied = touched / (machine.pcie.gb_s * UPLOAD_SHARE * 1e3)
            experts[moe, number] = copied + experts[moe, 0]
    return attention, experts
