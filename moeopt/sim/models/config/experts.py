"""Which layers have experts, how many shared ones, and their sizes, from a ``config.json``."""

from collections.abc import Iterator
from typing import NamedTuple

from moeopt.sim.models.config.keys import Keys
from moeopt.sim.models.config.layer_kinds import blocks, named

MOE_BLOCKS = ("moe", "E")
"""Kinds of blocks that are experts and nothing else (Nemotron-H)."""

UNREAD = {
    "use_cla": "layers that share the cache of others are not read",
    "zero_expert_num": "experts without weights are not read",
    "residual_moe": "a dense part of another width beside the experts is not read",
}
"""Keys that change what is counted, and why they are refused if set."""


class SharedExperts(NamedTuple):
    """Shared experts: how many, their size together if stated."""

    number: int
    size: int | None


def experts(keys: Keys, names: list[str]) -> int:
    """Return the number of routed experts; a model without any is refused."""
    value = keys.optional(names, least=0)
    if value is None:
        keys.fail(names, "is missing; a model without experts has nothing to place")
    if value < 2:
        keys.fail(names, f"must be at least 2, not {value}: the model has no experts")
    return value


UNREAD_CLASSES = {"jetmoe": "attention made of experts is not read"}
"""Classes with parts that no key of theirs mentions, by `model_type`."""


def refuse_unread(keys: Keys) -> None:
    """Raise InputError for keys and classes that are known and not supported."""
    if keys.model_type in UNREAD_CLASSES:
        keys.fail(("model_type",), f"is not supported: {UNREAD_CLASSES[keys.model_type]}")
    for key, why in UNREAD.items():
        if keys.value(key) not in (None, False, 0):
            keys.fail((key,), f"is not supported: {why}")


def shared_experts(keys: Keys, names: list[str], sizes: list[str], hidden: int) -> SharedExperts:
    """Return the shared experts; a dense part that runs beside the experts counts as one."""
    count, size = keys.optional(names, least=0), keys.optional(sizes, least=0)
    if size:
        if count == 0:
            other = keys.found(names)
            keys.fail(sizes, f"must be 0 as {other} is, not {size}")
        return SharedExperts(count or 1, size)
    if count is None and is_llama_4(keys):
        return SharedExperts(1, keys.number(("intermediate_size",)))
    if count is None and keys.value("enable_moe_block") is True:  # Gemma-4
        return SharedExperts(1, keys.number(("intermediate_size",)))
    if count is None and keys.value("parallel_attn_mlp_res") is True:  # Arctic
        return SharedExperts(1, hidden)
    return SharedExperts(count or 0, None)


def is_llama_4(keys: Keys) -> bool:
    """Return whether each layer with experts has a shared one that the file does not mention."""
    return keys.model_type.startswith("llama4") or keys.has("intermediate_size_mlp")


def dense_width(keys: Keys) -> int | None:
    """Return the width of the feed-forward part of layers without experts."""
    own = keys.optional(("dense_intermediate_size", "intermediate_size_mlp"))
    return own or keys.optional(("intermediate_size", "ffn_hidden_size"))


def dense_layers(keys: Keys, layers: int) -> tuple[int, ...]:
    """Return the layers without experts, rising.

    A layer has experts if every key says so: its number, from 0, is at least the number of dense
    layers (`first_k_dense_replace` and its like) and a multiple of `moe_layer_freq` (or that list
    has a 1 there); it is not in `mlp_only_layers`; its number, from 1, is a multiple of
    `decoder_sparse_step`; a list of layers with experts has it.
    """
    dense = set(_without(keys, layers))
    if len(dense) == layers:
        which = next((key for key in WHICH if keys.has(key)), WHICH[0])
        keys.fail((which,), f"leaves none of {layers} layers with experts")
    return tuple(sorted(dense))


FIRST = ("first_k_dense_replace", "num_dense_layers", "moe_layer_num_skipped")
STEPS = ("decoder_sparse_step", "interleave_moe_layer_step")
WHICH = (
    *(*FIRST, "moe_layer_freq", *STEPS, "mlp_only_layers", "mlp_layer_types", "moe_layers"),
    *("moe_layers_enum", "moe_layer_interval", "moe_layer_start_index", "moe_layer_end_index"),
    *("expert_layer_period", "expert_layer_offset", "layer_types", "layers_block_type"),
    *("hybrid_override_pattern", "moe_layer_frequency", "moe_layer_layout", "is_moe_layer"),
)
"""Keys that say which layers have experts."""


MARKS = ("moe_layer_layout", "is_moe_layer")
"""Lists with a 1 or true for each layer that has experts (SmallThinker, EXAONE)."""


def _without(keys: Keys, layers: int) -> Iterator[int]:
    first, step = keys.optional(FIRST, least=0) or 0, 1
    for key in STEPS:
        step *= keys.optional((key,)) or 1
    excepted = set(keys.layer_list("mlp_only_layers", layers))
    every = keys.frequency("moe_layer_freq", layers)
    frequency = keys.optional(("moe_layer_frequency",)) or 1
    if isinstance(keys.value("mlp_layer_types"), list):
        kinds = named(keys, "mlp_layer_types", layers)
        excepted |= {layer for layer in range(layers) if kinds[layer] == "dense"}
    if keys.value("moe_layers"):
        excepted |= set(range(layers)) - set(keys.layer_list("moe_layers", layers))
    for key in MARKS:
        if keys.value(key):
            marks = keys.marks(key, layers)
            excepted |= {layer for layer in range(layers) if not marks[layer]}
    if keys.value("moe_layers_enum"):
        keys.seen |= {"moe_every_n_layer", "moe_layer_offset"}
        excepted |= set(range(layers)) - set(_enumerated(keys, layers))
    block = blocks(keys)
    kinds = () if block is None else named(keys, block, layers)
    if set(kinds) & set(MOE_BLOCKS):
        excepted |= {layer for layer in range(layers) if kinds[layer] not in MOE_BLOCKS}
    excepted |= set(range(layers)) - _of_ernie(keys, layers)
    excepted |= set(range(layers)) - _of_jamba(keys, layers)
    for layer in range(layers):
        interleaved = (layer + 1) % step or (layer + 1) % frequency
        if layer < first or not every[layer] or layer in excepted or interleaved:
            yield layer


def _enumerated(keys: Keys, layers: int) -> tuple[int, ...]:
    """Return the layers with experts that a list or a text such as "3,4,5" names (Step-3)."""
    value = keys.value("moe_layers_enum")
    given = value.split(",") if isinstance(value, str) else value
    if not isinstance(given, list) or len(given) > layers + 64:
        keys.fail(("moe_layers_enum",), f"must be a list of layers from 0 to {layers - 1}")
    found = []
    for item in given:
        text = str(item).strip()
        if not text.isascii() or not text.isdecimal() or len(text) > 8:
            keys.fail(("moe_layers_enum",), f"must be a list of layers from 0 to {layers - 1}")
        found.append(int(text))
    return tuple(layer for layer in found if layer < layers)  # the others predict further


def _of_ernie(keys: Keys, layers: int) -> set[int]:
    """Return the layers between two that are multiples of an interval, from 1 (ERNIE-4.5)."""
    step = keys.optional(("moe_layer_interval",)) or 1
    first = keys.optional(("moe_layer_start_index",), least=0) or 0
    last = keys.optional(("moe_layer_end_index",), least=-1)
    end = layers - 1 if last is None or last < 0 else last
    return {layer for layer in range(layers) if (layer + 1) % step == 0 and first <= layer <= end}


def _of_jamba(keys: Keys, layers: int) -> set[int]:
    """Return the layers at an offset within a period (Jamba)."""
    period = keys.optional(("expert_layer_period",)) or 1
    offset = keys.optional(("expert_layer_offset",), least=0) or 0
    return {layer for layer in range(layers) if layer % period == offset % period}
