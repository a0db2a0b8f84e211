"""K13, K14, K16 to K19, K21, K23 and K24: kernels, launches and systems, from stated numbers.

Fiddler and llama.cpp compute routed experts on the CPU and all else on the GPU, one after the other
(2.3, 6.1). A token of theirs is taken as the CPU's part, the launches and the GPU's part added up.
"""

from functools import partial
from statistics import fmean
from typing import Literal

from benchmarks.papers.figure import Ours
from benchmarks.papers.ktransformers import anchor
from benchmarks.papers.ktransformers.fiddler_layer import MODEL
from benchmarks.papers.ktransformers.step import Step, decode_step
from benchmarks.papers.ktransformers.variants import crossover_tokens, read_gb_s, with_kernel
from benchmarks.papers.seeds import over_seeds
from benchmarks.rooms.deferral import TABLE_2
from benchmarks.rooms.sim import get_model
from moeopt import generate, get_machine, solve

A100 = "ktransformers-a100"

LAWS, RATES = ("olmoe-1b-7b", "trimoe-skew"), (20.0, 60.0)
"""Laws of routing, and GB/s at which a core loads an expert's input: what K21 leaves open."""

TOKEN_MS = 1e3 / 5.87
"""A token of DeepSeek-V3 without deferral (1)."""

LAUNCHES = {"Fiddler": (7000, 0.016), "llama.cpp": (3000, 0.005)}
"""Kernel launches per token of DeepSeek-V3, and ms for each (2.3)."""

FIDDLER_LAYER_MS = 5.8
"""Experts of a layer of DeepSeek-V3 on both sockets (2.3)."""

SOCKETS_AT_MOST = 1.63
"""Gain in decoding by tensor parallelism over sockets, which other systems lack (3.3)."""

AMX, ONE_DNN, PYTORCH_AVX = 21.3, 5.4, 1.8
"""TFLOPS of a socket: KTransformers' kernel, PyTorch's with AMX and with AVX-512 (2.2, 3.2)."""

AMX_PEAK = 73.7

DYNAMIC = 1.83
"""Gain in prefill by dynamic scheduling (6.4)."""

DEFERRAL = 1.33
"""Gain in decoding of DeepSeek-V3 by deferral (4.2)."""

ADDED = (
    "a token of another system is its CPU's part, its launches and KTransformers' GPU part (28 % of"
    " its layers' time) one after the other"
)
LLAMA = (
    "llama.cpp reads experts like KTransformers' own kernel but without regard to sockets, by the"
    " 1.38 of K10's bandwidths to the published 1.63"
)
AS_LLAMA = (
    "without the graph a layer has as many launches as llama.cpp's, 49 of 5 us (6.2: invocation"
    " overhead fell from over 20 %, which is llama.cpp's share in Fig. 4, to almost zero)"
)
WIDE = "the published range is of three models and several widths, ours of DeepSeek-V3 in BF16"


def k13() -> Ours:
    """Return decoding over Fiddler and over llama.cpp, without deferral."""
    low, high = llama_ms()
    note = (
        f"DeepSeek-V3: Fiddler {_fiddler_ms():.0f} ms for a token, llama.cpp {low:.0f} to"
        f" {high:.0f}, KTransformers {TOKEN_MS:.0f}; over llama.cpp {low / TOKEN_MS:.2f} to"
        f" {high / TOKEN_MS:.2f}. {WIDE}: to lie inside says little"
    )
    values = (_fiddler_ms() / TOKEN_MS, low / TOKEN_MS)
    return Ours(values, "assumed", (ADDED, LLAMA), note)


def k14() -> Ours:
    """Return the least gain in decoding over both, with deferral."""
    low, high = (DEFERRAL * ms / TOKEN_MS for ms in llama_ms())
    note = (
        f"DeepSeek-V3: over llama.cpp {low:.2f} to {high:.2f}, which 6.3 has at 1.66 to 2.56, over"
        f" Fiddler {DEFERRAL * _fiddler_ms() / TOKEN_MS:.2f}. {WIDE}"
    )
    return Ours((low,), "assumed", (ADDED, LLAMA, "K13 times the 1.33 of 4.2"), note)


def k16() -> Ours:
    """Return the AMX kernel's rate over that of PyTorch's."""
    note = f"a quotient of stated rates; PyTorch's has {ONE_DNN / AMX_PEAK:.0%} of the peak"
    return Ours((AMX / ONE_DNN,), "input", (), note)


def k17() -> Ours:
    """Return the share of launches in the GPU's time, of Fiddler and of llama.cpp."""
    values = []
    for system in ("Fiddler", "llama.cpp"):
        launches = _launches_ms(system)
        values.append(launches / (launches + _gpu_ms()))
    note = f"{_gpu_ms():.0f} ms of a token are kernels of KTransformers on the GPU"
    return Ours(tuple(values), "assumed", ("all three systems have the same kernels",), note)


def k18() -> Ours:
    """Return the largest gain in decoding by one CUDA graph, of three models."""
    models = (MODEL, "deepseek-v2.5", "qwen2-57b-a14b")
    gains = {model: _graph_gain(model, "llama.cpp") for model in models}
    fiddlers = max(_graph_gain(model, "Fiddler") for model in models)
    each = ", ".join(f"{model} {gain:.2f}" for model, gain in gains.items())
    note = f"{each}; with as many and as long launches as Fiddler's it would be {fiddlers:.2f}"
    return Ours((max(gains.values()),), "assumed", (AS_LLAMA,), note)


def k19() -> Ours:
    """Return what switching kernels gains in decoding over AMX, in prefill over AVX-512."""
    machine = get_machine(A100)
    ours = next(k for k in machine.nodes[0].only("cpu").kernels if k.name == "AVX-512")
    ours_tflops = float(ours.tflops(1))
    decode = _decode_ms(decode_step(with_kernel(machine, "AMX"), MODEL))
    same = decode / _decode_ms(decode_step(machine, MODEL))
    note = (
        f"in prefill {AMX} / {PYTORCH_AVX}; the machine's preset has {ours_tflops:g} TFLOPS for"
        f" AVX-512, from the crossover at {crossover_tokens(machine, MODEL)} tokens (K9), which"
        f" would give {AMX / ours_tflops:.2f} and disagrees with Fig. 14, where AVX-512 is slower"
        f" than PyTorch's {ONE_DNN}; in decoding both kernels are bound by memory here: {same:.2f}"
    )
    return Ours(
        (None, AMX / PYTORCH_AVX),
        "assumed",
        ("KTransformers' AVX-512 kernel reaches as much as PyTorch's in prefill",),
        note,
        missing="what AMX takes for tiles that one token does not fill",
    )


def k21() -> Ours:
    """Return the gain in prefill by dynamic scheduling of tasks over threads."""
    found = {
        (law, rate): over_seeds(partial(_dynamic, law, rate)) for law in LAWS for rate in RATES
    }
    farthest = max(found.values(), key=lambda one: abs(one.values[0] - DYNAMIC))
    said = "; ".join(
        f"{law} at {rate:g} GB/s {drawn.text()}" for (law, rate), drawn in found.items()
    )
    return Ours(
        farthest.values,
        "assumed",
        (
            "a layer of DeepSeek-V3 with prompts of 8,192 tokens on one socket, both fused batches;"
            " static: blocks of as many experts for each thread, dynamic: the finest parts from a"
            " queue (problem `threads`)",
            "routing: a prompt's is not stated; the farthest of two laws and two rates at which a"
            " core may load an expert's input",
        ),
        f"it measures how uneven experts are: {said}",
        intervals=farthest.intervals,
        seeds=farthest.seeds,
    )


def _dynamic(law: str, rate: float, seed: int) -> tuple[float]:
    """Return static over dynamic for a layer's two batches."""
    total = {"static": 0, "dynamic": 0}
    for matrices in ("gate-up", "down"):
        instance = generate(
            "threads",
            machine=A100,
            model=MODEL,
            workload=law,
            batch=8192,
            matrices=matrices,
            input_gb_s=rate,
            seed=seed,
        )
        for method in total:
            total[method] += solve(instance, method).objective
    return (total["static"] / total["dynamic"],)


def k23() -> Ours:
    """Return the largest change of a score by deferral, from the paper's own table."""
    pairs = {name: list(zip(*scores, strict=True)) for name, (_, *scores) in TABLE_2.items()}
    most = max(abs(after - before) for of in pairs.values() for before, after in of)
    means = ", ".join(
        f"{name} {fmean(after - before for before, after in of):+.2f}" for name, of in pairs.items()
    )
    return Ours((most,), "input", (), f"from Table 2; nothing is modelled. Mean changes: {means}")


def k24() -> Ours:
    """Return what deferring and skipping six experts cost in accuracy."""
    note = "no model is run; the values of Fig. 13 are not in the text"
    return Ours((None, None), "assumed", (), note)


def _layers_ms() -> float:
    """Return the time of the layers with experts of DeepSeek-V3, 58 of 2.8 ms."""
    step = decode_step(A100, MODEL)
    return _decode_ms(step) - step.outside_ns / 1e6


def _decode_ms(step: Step) -> float:
    return step.time_ns(step.without_deferral()) / 1e6


def _gpu_ms() -> float:
    """Return the GPU's part of those layers: 28 % (4.2)."""
    return anchor.GPU / 1000 * _layers_ms()


def _launches_ms(system: Literal["Fiddler", "llama.cpp"]) -> float:
    number, each = LAUNCHES[system]
    return number * each


def _fiddler_ms() -> float:
    """Return the time of a token under Fiddler."""
    return anchor.LAYERS * FIDDLER_LAYER_MS + _launches_ms("Fiddler") + _gpu_ms()


def _llama_cpu_ms() -> tuple[float, float]:
    """Return the CPU's part of a token under llama.cpp, least and most."""
    machine = get_machine(A100)
    least = read_gb_s(machine, "tensor-parallel") / read_gb_s(machine, "oblivious")
    cpu_ms = anchor.CPU / 1000 * _layers_ms()
    return cpu_ms * least, cpu_ms * SOCKETS_AT_MOST


def llama_ms() -> tuple[float, float]:
    """Return the time of a token under llama.cpp, least and most."""
    rest = _launches_ms("llama.cpp") + _gpu_ms()
    least, most = _llama_cpu_ms()
    return least + rest, most + rest


def _graph_gain(model: str, launches_of: Literal["Fiddler", "llama.cpp"]) -> float:
    """Return the gain by a graph if every layer of a model has a system's launches without it."""
    of_layer = _launches_ms(launches_of) / get_model(MODEL).layers
    token_ms = _decode_ms(decode_step(A100, model))
    return 1 + get_model(model).layers * of_layer / token_ms
