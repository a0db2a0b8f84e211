"""Time of a ubatch of a prompt, by rates alone: not fitted to measurements."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.costs.rates import gpu_read_gb_s
from moeopt.sim.machines.cores import Cores
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Counts

GPU_SHARE = 0.35
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


def activated_experts(
    model: ModelShape, tokens: int, counts: Counts | None = None
) -> NDArray[np.float64]:
    """Return how many experts of each layer with experts some of the tokens choose, on average.

    Tokens are taken to choose independently of each other, each expert as often as it was counted.

    Parameters
    ----------
    counts
        Of the model; None: a layer's experts are alike. Where few are popular, fewer are activated.

    Returns
    -------
    (layers,) array
    """
    layers, experts = len(model.moe_layers), model.routed_experts
    if counts is None:
        reached = 1.0 - (1.0 - model.top_k / experts) ** tokens
        return np.full(layers, experts * reached)
    known = counts.total()
    chosen = known.sum(axis=1, keepdims=True)
    share = np.where(chosen > 0, model.top_k * known / np.maximum(chosen, 1), model.top_k / experts)
    found: NDArray[np.float64] = (1.0 - (1.0 - np.minimum(share, 1.0)) ** tokens).sum(axis=1)
    return found


def prompt_us(
    setting: Setting,
    tokens: int,
    context: int,
    hosts: Sequence[Cores],
    counts: Counts | None = None,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return what one ubatch takes by rates alone: attention, and experts, (layers, devices) each.

    Devices are the machine's GPUs, then the hosts. Experts in host memory are computed there, or
    from a threshold on copied to the first GPU and computed as there; the copy is what counts.
    What is read are the experts that are activated, by layer where `counts` are given.
    """
    machine, model = setting.used, setting.shape
    gpus, moe = machine.gpus, np.zeros(model.layers, dtype=bool)
    moe[list(model.moe_layers)] = True
    others = model.attention_weights + (model.shared_weights if moe.any() else 0)
    dense = 2.0 * tokens * (others + context / 2 * 2 * model.hidden_size)
    touched = model.expert_bytes * activated_experts(model, tokens, counts)
    work = 2.0 * tokens * model.top_k * model.expert_weights
    attention, experts = np.zeros((2, model.layers, len(gpus) + len(hosts)))
    for number, gpu in enumerate(gpus):
        peak, read = gpu.only("gpu").peak_tflops or 0.0, gpu_read_gb_s(gpu) * 1e3
        rate = peak * 1e6 * GPU_SHARE
        size = model.bytes_of("attention", model.attention_weights)
        attention[:, number] = max(dense / rate, size / read)
        experts[moe, number] = np.maximum(work / rate, touched / read)
    for number, host in enumerate(hosts, start=len(gpus)):
        many = max(1, tokens * model.top_k // model.routed_experts)
        rate = float(host.rate_tflops(many)) * 1e6
        attention[:, number] = dense / rate
        experts[moe, number] = np.maximum(work / rate, touched / (host.local_gb_s * 1e3))
        if gpus and tokens >= upload_from(model, setting.runtime):
            copied = touched / (machine.pcie.gb_s * UPLOAD_SHARE * 1e3)
            experts[moe, number] = copied + experts[moe, 0]
    return attention, experts


def prompt_speed(setting: Setting, prompt: int, host_calls: Sequence[float]) -> float:
    """Return the tokens/s at which a prompt is read, in ubatches no longer than it."""
    tokens = min(prompt, setting.ubatch)
    hosts = [setting.cores] if setting.machine.nodes else []
    attention, experts = prompt_us(setting, tokens, prompt, hosts)
    calls, moe = np.array(host_calls), list(setting.model.moe_layers)
    here, host = experts[moe, 0], experts[moe, -1]
    return 1e6 * tokens / float(attention[:, 0].sum() + here @ (1.0 - calls) + host @ calls)
