"""Time of a token in a runtime: what it needs of each term, and what the runtime's terms cost."""

from collections.abc import Sequence
from datetime import date

import numpy as np
from numpy.typing import ArrayLike, NDArray

from moeopt.core.errors import InputError
from moeopt.sim.costs.rates import gpus_read_gb_s
from moeopt.sim.costs.terms import PRIOR, TERMS, Vector, factored, term_times
from moeopt.sim.costs.vendors import vendor_of
from moeopt.sim.machines.cores import cores_of
from moeopt.sim.machines.runtimes.profile import costs_of
from moeopt.sim.machines.runtimes.setting import Setting

USUAL_CLOCK_GHZ = 1.8
"""Of GPUs whose clock is not stated."""

VERSIONS_FROM = date(2026, 1, 1)
"""Runtimes of this date are what factors of versions are relative to."""

NEWEST = date(2026, 9, 1)
"""Taken where no date of a runtime is stated: of the newest that were measured."""

FACTOR_NAMES = frozenset(name for name, term in PRIOR.items() if "of" in term)

WIDE_HOST_GB_S = 80.0
WIDE_GPU_GB_S = 1000.0
"""Rates of memories that reads are said to take so long of."""

BARRIER_THREADS = 16
"""So many threads wait for each other in what a barrier is said to take."""

DECODE_FACTORS = (
    *(("IQ1_S", 3.0), ("IQ1_M", 3.0), ("IQ2_XXS", 3.0), ("IQ2_XS", 3.0), ("IQ2_S", 3.0)),
    *(("IQ2_M", 3.0), ("IQ3_XXS", 3.0), ("IQ3_XS", 3.0), ("IQ3_S", 3.0), ("IQ3_M", 3.0)),
    *(("IQ", 1.5), ("Q8", 1.0), ("BF16", 1.0), ("F16", 1.0), ("Q4_0", 1.2), ("Q", 1.5)),
    *(("MXFP4", 1.5), ("FP8", 1.5)),
)
"""Beginning of a format's name -> `decode_factor`; the first that fits."""


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


def decode_times(setting: Setting, host_calls: Sequence[float]) -> Vector:
    """Return what each term adds to the time of a token, in us; see `amounts`."""
    return term_times(amounts(setting, host_calls), costs_of(setting)[0])


def doublings(threads: ArrayLike) -> NDArray[np.float64]:
    """Return how often threads are twice those of a stated barrier."""
    return np.asarray(np.log2(np.asarray(threads, dtype=float) / BARRIER_THREADS))


def years(setting: Setting) -> float:
    """Return by how many years a setting's runtime is newer than `VERSIONS_FROM`."""
    return ((setting.runtime_date or NEWEST) - VERSIONS_FROM).days / 365.25


def unit_costs(setting: Setting) -> dict[str, float]:
    """Return what one unit of each term costs in a setting, factors included."""
    calls = (1.0 if setting.used.nodes else 0.0,) * len(setting.model.moe_layers)
    rows, costs = amounts(setting, calls), costs_of(setting)[0]
    ones = np.where([name in FACTOR_NAMES for name in TERMS], rows, 1.0)
    return dict(zip(TERMS, factored(ones, costs).tolist(), strict=True))


def decode_us(setting: Setting, host_calls: Sequence[float]) -> float:
    """Return the time of a token in us; see `amounts`."""
    return float(decode_times(setting, host_calls).sum())


def amounts(setting: Setting, host_calls: Sequence[float]) -> NDArray[np.float64]:
    """Return what a token needs of each of `TERMS`.

    Parameters
    ----------
    host_calls
        One entry per layer with experts: the expected share of the experts a token calls there
        that the CPU computes from host memory. 0: all experts of the layer are on the GPU; 1: none.

    Returns
    -------
    (terms,) array
        Microseconds that reads would take at the machine's bandwidths and operations at its rates;
        numbers of tokens (1), layers, layers by kind of attention, expected layers in which the
        CPU computes some expert, and expected experts that it computes; and the powers of factors:
        doublings of threads, years, 1 for the vendor of the GPU. Of hops between GPUs, which
        depend on what lies where, nothing: `moeopt.sim.costs.devices` counts them.
    """
    machine, model, depth = setting.used, setting.shape, setting.context.depth
    _check(setting, host_calls)
    top_k, layers = model.top_k, model.layers
    calls = np.array(host_calls)
    expert_bytes = model.expert_weights * model.bits / 8
    rest = model.resident_bytes - model.bytes_of("embedding")  # besides routed experts
    cache_bytes = model.cache_bytes(depth)
    attention = model.attention
    kind = None if attention is None else attention.kind
    score_ops = 0.0 if attention is None else 2.0 * layers * attention.products(depth)
    host_weights = float(calls.sum()) * top_k * model.expert_weights
    host_bytes = float(calls.sum()) * top_k * expert_bytes
    found = dict.fromkeys(TERMS, 0.0) | {"token_us": 1.0}
    found["version"] = found["linear_version"] = years(setting)
    linear = 0.0
    if attention is not None and attention.kind in ("hybrid", "by_layer"):
        linear = attention.linear_share
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
        found["cpu_linear_layer_us"] = layers * linear
        if kind == "latent":
            found["cpu_latent_layer_us"] = layers
            found["host_latent"] = score_ops / tops / 1e6
        else:
            # Where one node computes, too, costs were fitted with the rate of all memories.
            alone = setting.numa == "one-computes"
            local = cores_of(machine, "interleaved") if alone else cores
            found["host_kv"] = cache_bytes / local.local_gb_s / 1e3
    else:
        gpu_bytes = rest + float((1.0 - calls).sum()) * top_k * expert_bytes
        found["gpu_read"] = gpu_bytes / gpus_read_gb_s(machine) / 1e3
        found["gpu_width"] = float(np.log2(gpus_read_gb_s(machine) / WIDE_GPU_GB_S))
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
            found["gpu_kv"] = max(1.0, 16 / model.bits_of("kv")) * cache_bytes
            found["gpu_kv"] /= gpus_read_gb_s(machine) * 1e3
            found["gpu_scores"] = score_ops / vector / 1e6
        found["linear_layer_us"] = slower * layers * linear
        if (vendor := vendor_of(gpu.name)) is not None:
            found[vendor] = found["other_hand_overs"] = 1.0
        found["host_layer_us"] = float((1.0 - (1.0 - calls) ** top_k).sum())
    if host_bytes:
        assert cores is not None  # noqa: S101
        spread = len(machine.nodes) > 1 and setting.numa in ("interleaved", "one-computes")
        found["oblivious_read" if spread else "host_read"] = host_bytes / cores.read_gb_s / 1e3
        found["host_width"] = float(np.log2(cores.local_gb_s / WIDE_HOST_GB_S))
        found["host_decode"] = decode_ops / tops / 1e6
        found["host_expert_us"] = float(calls.sum()) * top_k
        found["barrier_threads"] = float(doublings(cores.threads or BARRIER_THREADS))
    return np.array([found[term] for term in TERMS])


def _check(setting: Setting, host_calls: Sequence[float]) -> None:
    """Raise InputError unless the shares are of this model and machine."""
    layers, machine = len(setting.model.moe_layers), setting.machine
    if len(host_calls) != layers:
        said = f"must have {layers} entries, one per MoE layer, not {len(host_calls)}"
        raise InputError(said, field="host_calls")
    if not all(0.0 <= share <= 1.0 for share in host_calls):
        raise InputError("must be shares from 0 to 1", field="host_calls")
    for missing, name in (
        (not machine.gpus and min(host_calls) < 1.0, "gpu"),
        (not machine.nodes and max(host_calls) > 0.0, "cpu"),
    ):
        if missing:
            said = f"{name}: is missing; experts on it are asked for"
            raise InputError(f"machine {machine.name}: {said}")
