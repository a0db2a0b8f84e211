"""What a layer costs besides its routed experts: bytes over bandwidth, and a fixed time."""

from dataclasses import dataclass

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.machines.cost import DEFAULT_QUANTUM_NS, NS_PER_S, gpu_roofline_s, to_quanta
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape, TensorKind


@dataclass(frozen=True)
class LayerCosts:
    """Times on the GPU in ns, multiples of the quantum.

    Attributes
    ----------
    attention_ns
        Attention of one layer, with its fixed time.
    shared_ns
        The shared experts of one layer together; 0 without any.
    dense_ns
        The feed-forward part of a layer without experts; 0 if the model has no such layer.
    head_ns
        The matrix to the vocabulary, once per step.
    sync_ns
        Handing a layer's activations from GPU to CPU or back, one way.
    """

    attention_ns: int
    shared_ns: int
    dense_ns: int
    head_ns: int
    sync_ns: int


def layer_costs(
    machine: Machine,
    model: ModelShape,
    tokens: int = 1,
    context: int = 0,
    quantum_ns: int = DEFAULT_QUANTUM_NS,
) -> LayerCosts:
    """Return what a layer of `model` costs on the GPU besides its routed experts.

    Parameters
    ----------
    tokens
        Tokens in the step, at least 1.
    context
        Tokens in the KV cache of each of them.
    quantum_ns
        Every time is rounded up to a multiple of this.

    Raises
    ------
    InputError
        If the model lacks `attention`, `vocab_size` or, with dense layers,
        `dense_intermediate_size`.

    Notes
    -----
    The model of KTransformers' decode step: the time of a layer's attention is what its weights
    need at a stated fraction of the GPU's bandwidth, plus a fixed time. Assumed, all of it:

    - weights are read once per step, the KV cache once per token; both lie on the GPU;
    - operations of the projections count (at the rate that experts reach with as many tokens),
      those of scores and values do not;
    - router, norms and rotary positions are in the fixed time `gpu.layer_us`;
    - shared experts, dense layers and the head are matrices like an expert: they reach
      `reached` of its bandwidth and have the fixed time `gpu.kernel_us` each.

    With 0.44, 0.8 and 100 us on the A100 this gives the 0.64 ms per layer that the utilizations in
    KTransformers 4.2 imply for DeepSeek-V3.
    """
    for name, value, least in (("tokens", tokens, 1), ("context", context, 0)):
        if value < least:
            raise InputError(f"{name}: must be at least {least}, not {value}")
    dense = model.dense_weights
    if model.vocab_size is None:
        raise InputError(f"model {model.name}: vocab_size: is missing")
    seconds = (
        attention_s(machine, model, tokens, context),
        shared_experts_s(machine, model, tokens),
        _matrices_s(machine, model, "dense", dense if model.dense_layers else 0, tokens),
        _matrices_s(machine, model, "head", model.vocab_size * model.hidden_size, tokens),
        (machine.sync_us or 0.0) / 1e6,
    )
    rounded = to_quanta(np.array(seconds) * NS_PER_S, quantum_ns)
    return LayerCosts(*rounded.tolist())


def attention_s(machine: Machine, model: ModelShape, tokens: int = 1, context: int = 0) -> float:
    """Return the time in s of one layer's attention; assumptions as in `layer_costs`."""
    device = machine.require("gpu")
    gpu, memory = device.only("gpu"), device.memory
    weights = model.attention_weights
    size = model.bytes_of("attention", weights) + tokens * model.kv_bytes(context)
    bandwidth = memory.gb_s * (memory.attention_reached or 1.0) * 1e9
    rate = float(gpu.rate_tflops(tokens)) * 1e12
    busy = max(size / bandwidth, 2.0 * weights * tokens / rate)
    return (gpu.layer_us or 0.0) / 1e6 + busy


def shared_experts_s(machine: Machine, model: ModelShape, tokens: int) -> float:
    """Return the time in s of one layer's shared experts; assumptions as in `layer_costs`."""
    return _matrices_s(machine, model, "shared", model.shared_weights, tokens)


def _matrices_s(
    machine: Machine, model: ModelShape, kind: TensorKind, weights: int, tokens: int
) -> float:
    if not weights:
        return 0.0
    size = float(model.bytes_of(kind, weights))
    gpu = machine.require("gpu")
    busy = float(gpu_roofline_s(gpu, 2.0 * weights * tokens, size, tokens))
    return (gpu.only("gpu").kernel_us or 0.0) / 1e6 + busy
