"""Model shapes from the ``config.json`` that Hugging Face models carry.

The keys are those of the model classes in transformers: Mixtral, Phi-3.5-MoE, OLMoE, Qwen2-MoE,
Qwen3-MoE, DeepSeek (V1 to V3), GLM-4.5 and whatever else spells its shape the same way.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from moeopt.problems.wording import describe
from moeopt.sim.hf_config.attention import attention
from moeopt.sim.hf_config.keys import Keys
from moeopt.sim.hf_config.widths import dtype_bytes, quantized_bits
from moeopt.sim.model_shape import ModelShape

TOP_K = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_top_k",
    "moe_topk",
    "moe_k",
    "top_k_experts",
)
EXPERT_SIZE = ("moe_intermediate_size", "moe_ffn_hidden_size", "expert_intermediate_size")
SHARED = ("n_shared_experts", "num_shared_experts", "moe_num_shared_experts", "num_shared_expert")
SHARED_SIZE = ("shared_expert_intermediate_size", "shared_intermediate_size")
INNER = ("text_config", "llm_config", "language_config")
"""Where models of text and images keep the configuration of their language model."""

UNREAD = (
    "interleave_moe_layer_step",
    "moe_layer_interval",
    "moe_layer_start_index",
    "moe_layers",
    "expert_layer_period",
    "hybrid_override_pattern",
    "layers_block_type",
)
"""Keys that say which layers have experts in ways that are not read here."""

_KEYS_OF_FIELDS = {
    "layers": "num_hidden_layers",
    "routed_experts": "the number of experts",
    "top_k": "the experts per token",
    "expert_intermediate_size": "the size of an expert",
}


def is_config_json(data: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is such a configuration, by its keys."""
    return "layers" not in data and any(
        key in data for key in ("num_hidden_layers", "model_type", "architectures", *INNER)
    )


def model_from_config(data: Mapping[str, Any], path: Path) -> ModelShape:
    """Return the shape of the model that a ``config.json`` describes.

    Parameters
    ----------
    data
        The file's content.
    path
        The file. The model is called like its folder, or like the file if that has a name of its
        own.

    Raises
    ------
    InputError
        If it has no routed experts, lacks a key, or two of its keys contradict each other.

    Notes
    -----
    A layer has experts if all of these say so: its number, from 0, is at least
    `first_k_dense_replace` and a multiple of `moe_layer_freq` (or that list has a 1 there); it is
    not in `mlp_only_layers`; its number, from 1, is a multiple of `decoder_sparse_step`. Layers
    for multi-token prediction are not counted. Quantized weights have the width that
    `quantization_config` states, without scales; embedding and head are counted as if quantized
    too.
    """
    inner = next((key for key in INNER if isinstance(data.get(key), Mapping)), None)
    keys = Keys(path, data if inner is None else data[inner], "" if inner is None else f"{inner}.")
    experts = keys.experts()
    top_k = keys.number(TOP_K)
    layers = keys.number(("num_hidden_layers",))
    if top_k > experts:
        keys.fail(TOP_K, f"must be at most the {experts} experts, not {top_k}")
    dense = _dense_layers(keys, layers)
    width = keys.optional(("intermediate_size",))
    size = keys.optional(EXPERT_SIZE) or width
    if size is None:
        keys.fail((*EXPERT_SIZE, "intermediate_size"), "is missing")
    own_bytes, note = dtype_bytes(keys, data)
    bits = quantized_bits(keys, data)
    shared, shared_size = _shared(keys)
    leading = dense == tuple(range(len(dense)))
    try:
        return ModelShape(
            name=_name(path),
            layers=layers,
            dense_layers=len(dense),
            routed_experts=experts,
            shared_experts=shared,
            top_k=top_k,
            hidden_size=keys.number(("hidden_size",)),
            expert_intermediate_size=size,
            bytes_per_weight=own_bytes,
            source=f"config.json at {path}{note}",
            dense_layer_ids=None if leading else dense,
            shared_intermediate_size=shared_size,
            dense_intermediate_size=width if dense else None,
            vocab_size=keys.optional(("vocab_size",)),
            attention=attention(keys),
            expert_bits=bits,
            other_bits=bits,
        )
    except ValidationError as error:
        field, _, reason = describe(error).partition(": ")
        keys.fail((_KEYS_OF_FIELDS.get(field, field),), reason)


def _name(path: Path) -> str:
    if path.stem.removesuffix(".json") == "config" and (folder := path.absolute().parent.name):
        return folder
    return path.name.removesuffix(".gz").removesuffix(".json")


def _shared(keys: Keys) -> tuple[int, int | None]:
    """Return the number of shared experts and, if stated, their size together."""
    count, size = keys.optional(SHARED, least=0), keys.optional(SHARED_SIZE, least=0)
    if not size:
        return count or 0, None
    if count == 0:
        keys.fail(SHARED_SIZE, f"must be 0 as {keys.found(SHARED)} is, not {size}")
    return count or 1, size


def _dense_layers(keys: Keys, layers: int) -> tuple[int, ...]:
    """Return the layers without experts, rising."""
    for key in UNREAD:
        if keys.has(key) and keys.data[key] != 1:
            keys.fail((key,), "is not supported: it moves the layers that have experts")
    first = keys.optional(("first_k_dense_replace",), least=0) or 0
    step = keys.optional(("decoder_sparse_step",)) or 1
    excepted = set(keys.layer_list("mlp_only_layers", layers))
    every = keys.frequency("moe_layer_freq", layers)
    dense = tuple(
        layer
        for layer in range(layers)
        if layer < first or not every[layer] or layer in excepted or (layer + 1) % step
    )
    if len(dense) == layers:
        which = [k for k in ("first_k_dense_replace", "moe_layer_freq") if keys.has(k)]
        which += [k for k in ("decoder_sparse_step", "mlp_only_layers") if keys.has(k)]
        keys.fail((which[0],), f"leaves none of {layers} layers with experts")
    return dense
