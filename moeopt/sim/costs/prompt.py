"""Time of a ubatch of a prompt: products, reads and copies of experts, by fitted costs."""

import tomllib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.costs.rates import gpu_read_gb_s
from moeopt.sim.costs.token import decode_factor
from moeopt.sim.costs.vendors import vendor_of
from moeopt.sim.machines.cores import Cores
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Counts

Floats = NDArray[np.float64]

PROMPT_PRIOR = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())
"""What is expected of each term of a prompt before any measurement is seen."""

PROMPT_TERMS = tuple(PROMPT_PRIOR)

FACTORS = tuple(
    (PROMPT_TERMS.index(name), [PROMPT_TERMS.index(of) for of in term["of"]])
    for name, term in PROMPT_PRIOR.items()
    if "of" in term
)

OVERLAP = 4.0
"""How nearly products and reads overlap, as in decoding."""

MANY_TOKENS = 512
"""Tokens of an expert at which products are said to take so long."""

TILE = 64
"""Kernels have smaller tiles for fewer tokens of an expert, which fill them no worse."""

UPLOAD_FROM = 32
"""Tokens from which llama.cpp copies experts to the GPU instead of computing them on the CPU."""

SMALL = 1e-4


def upload_from(model: ModelShape, runtime: str) -> int:
    """Return from how many tokens of a ubatch on a runtime copies experts to the GPU.

    llama.cpp: 32. ik_llama.cpp: 32 x experts / experts per token (its issue 520).
    """
    if runtime != "ik_llama.cpp":
        return UPLOAD_FROM
    return -(-UPLOAD_FROM * model.routed_experts // model.top_k)


def activated_experts(model: ModelShape, tokens: int, counts: Counts | None = None) -> Floats:
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
    found: Floats = (1.0 - (1.0 - np.minimum(share, 1.0)) ** tokens).sum(axis=1)
    return found


def prompt_amounts(
    setting: Setting,
    tokens: int,
    context: int,
    hosts: Sequence[Cores],
    counts: Counts | None = None,
) -> tuple[Floats, Floats]:
    """Return what one ubatch needs of each term: attention, and experts.

    What is read are the experts that are activated, by layer where `counts` are given.

    Returns
    -------
    (layers, devices, terms) arrays
        Devices are the machine's GPUs, then the hosts. Microseconds at the machine's rates, powers
        of factors. Experts in host memory are computed there, or from a threshold on copied to the
        first GPU and computed as there.
    """
    machine, model = setting.used, setting.shape
    gpus, moe = machine.gpus, np.zeros(model.layers, dtype=bool)
    moe[list(model.moe_layers)] = True
    others = model.attention_weights + (model.shared_weights if moe.any() else 0)
    dense = 2.0 * tokens * (others + context / 2 * 2 * model.hidden_size)
    active = np.ones(model.layers)
    active[moe] = np.maximum(activated_experts(model, tokens, counts), 1e-9)
    touched = model.expert_bytes * active
    work = 2.0 * tokens * model.top_k * model.expert_weights
    each = tokens * model.top_k / active[:, None]
    own = model.bytes_of("attention", model.attention_weights)
    at = {name: number for number, name in enumerate(PROMPT_TERMS)}
    attention, experts = np.zeros((2, model.layers, len(gpus) + len(hosts), len(at)))
    attention[..., at["unpacking"]] = np.log2(decode_factor(model.bits_of("attention")))
    experts[..., at["unpacking"]] = np.log2(decode_factor(model.bits, model.quantisation))
    for table, many in ((attention, tokens), (experts, each)):
        table[..., at["few_tokens"]] = np.log2(MANY_TOKENS / np.clip(many, TILE, MANY_TOKENS))
    attention[..., at["layer_us"]] = 1.0
    for number, gpu in enumerate(gpus):
        compute = gpu.only("gpu")
        peak, read = (compute.peak_tflops or 0.0) * 1e6, gpu_read_gb_s(gpu) * 1e3
        for table, operations, size in ((attention, dense, own), (experts, work, touched)):
            table[:, number, at["gpu_products"]] = operations / peak
            table[:, number, at["gpu_reads"]] = size / read
            table[:, number, at["other_vendor"]] = vendor_of(compute.name) is not None
    for number, host in enumerate(hosts, start=len(gpus)):
        many = max(1, tokens * model.top_k // model.routed_experts)
        rate = float(host.rate_tflops(many)) * 1e6
        attention[:, number, at["cpu_products"]] = dense / rate
        attention[:, number, at["cpu_reads"]] = own / (host.local_gb_s * 1e3)
        if gpus and tokens >= upload_from(model, setting.runtime):
            experts[:, number] = experts[:, 0]
            experts[:, number, at["upload"]] = touched / (machine.pcie.gb_s * 1e3)
        else:
            experts[:, number, at["cpu_products"]] = work / rate
            experts[:, number, at["cpu_reads"]] = touched / (host.local_gb_s * 1e3)
    experts[~moe] = 0.0
    return attention, experts


def priced_prompt(rows: Floats, costs: Floats) -> Floats:
    """Return the times of (..., terms) amounts: products and reads overlap, the rest adds."""
    times = rows * costs
    for factor, of in FACTORS:
        times[..., of] *= (costs[factor] ** rows[..., factor])[..., None]
        times[..., factor] = 0.0
    found = times[..., PROMPT_TERMS.index("upload")] + times[..., PROMPT_TERMS.index("layer_us")]
    for device in ("gpu", "cpu"):
        pair = [PROMPT_TERMS.index(f"{device}_{what}") for what in ("products", "reads")]
        both = times[..., pair]
        found = found + (both**OVERLAP).sum(axis=-1) ** (1.0 / OVERLAP)
    return np.asarray(found)


def prompt_us(
    setting: Setting,
    tokens: int,
    context: int,
    hosts: Sequence[Cores],
    counts: Counts | None = None,
) -> tuple[Floats, Floats]:
    """Return what one ubatch takes: attention, and experts, (layers, devices) each."""
    costs = get_runtime(setting.runtime).prompt.vector
    attention, experts = prompt_amounts(setting, tokens, context, hosts, counts)
    return priced_prompt(attention, costs), priced_prompt(experts, costs)


def placed_rows(
    setting: Setting, tokens: int, context: int, host_calls: Sequence[float]
) -> tuple[Floats, Floats]:
    """Return the amounts of all parts of a ubatch, (parts, terms), and how often each is, (parts,).

    Of a machine whose first GPU has all attention.
    """
    hosts = [setting.cores] if setting.machine.nodes else []
    attention, experts = prompt_amounts(setting, tokens, context, hosts)
    calls, moe = np.array(host_calls), list(setting.model.moe_layers)
    rows = [attention[:, 0], experts[moe, 0], experts[moe, -1]]
    often = [np.ones(len(attention)), 1.0 - calls, calls]
    return np.concatenate(rows), np.concatenate(often)


def prompt_speed(setting: Setting, prompt: int, host_calls: Sequence[float]) -> float:
    """Return the tokens/s at which a prompt is read, in ubatches no longer than it."""
    tokens = min(prompt, setting.ubatch)
    rows, often = placed_rows(setting, tokens, prompt, host_calls)
    costs = get_runtime(setting.runtime).prompt.vector
    return 1e6 * tokens / float(often @ priced_prompt(rows, costs))


def prompt_slopes(rows: Floats, often: Floats, costs: Floats) -> tuple[float, Floats]:
    """Return a ubatch's time, and by how much its logarithm follows each cost's, (terms,)."""
    total = float(often @ priced_prompt(rows, costs))
    steps = costs * np.exp(SMALL * np.eye(len(costs)))
    longer = np.array([float(often @ priced_prompt(rows, changed)) for changed in steps])
    return total, np.log(longer / total) / SMALL


def prompt_factor(setting: Setting, prompt: int, host_calls: Sequence[float]) -> float:
    """Return the factor of the 80 % interval around the speed at which a prompt is read."""
    known = get_runtime(setting.runtime).prompt
    rows, often = placed_rows(setting, min(prompt, setting.ubatch), prompt, host_calls)
    _, slopes = prompt_slopes(rows, often, known.vector)
    sd = np.sqrt(slopes @ known.matrix @ slopes + known.machine**2 + known.noise**2)
    return float(np.exp(known.scale * sd))
