"""Model shapes, and widths of weights, from the ``config.json`` of Hugging Face models.

The keys are those of the model classes in transformers and in the models' own files. What a key is
about is in `config`: attention by layer, layers with experts, quantisation. A key about sizes that
nobody reads is refused or warned of (`config.unread`).
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from moeopt.core.wording import input_error, shown
from moeopt.sim.models.config import quantisation
from moeopt.sim.models.config.attention import attention
from moeopt.sim.models.config.experts import (
    MOE_BLOCKS,
    dense_layers,
    dense_width,
    experts,
    refuse_unread,
    shared_experts,
)
from moeopt.sim.models.config.keys import Keys
from moeopt.sim.models.config.layer_kinds import blocks, layer_count, named
from moeopt.sim.models.config.unread import warn_of_unread
from moeopt.sim.models.model_shape import ModelShape

DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

KEYS: dict[str, list[str]] = DATA["keys"]
"""What is read -> the keys that it stands under."""

FIELDS: dict[str, str] = DATA["fields"]
"""Field of a shape -> its key, or what it is called in messages."""

EXPERT_DTYPE_BITS = {"fp4": 4.25, "mxfp4": 4.25, "nvfp4": 4.5, "fp8": 8.0}
"""DeepSeek-V4's `expert_dtype` -> bits, scales included where the format fixes them."""

NO_GATE = "relu2"
"""An activation without a gate: experts are two matrices (Nemotron-H)."""

MOST_LAYERS = 2**12


def dtype_bytes(keys: Keys, outer: Keys) -> tuple[int, str]:
    """Return the bytes per weight, and a note for the source if they are assumed."""
    for holder in (keys, outer):
        for key in KEYS["dtype"]:
            value = holder.value(key)
            if value is None or value == "auto":
                continue
            plain = value.removeprefix("torch.") if isinstance(value, str) else ""
            if plain not in DATA["dtype_bytes"]:
                choice = ", ".join(DATA["dtype_bytes"])
                keys.fail((key,), f"must be one of {choice}, not {shown(value)}")
            return DATA["dtype_bytes"][plain], ""
    return 2, "; no torch_dtype, BF16 assumed"


CLASS = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,199}")


def is_config_json(data: Mapping[str, object]) -> bool:
    """Return whether a JSON object is such a configuration, by its keys."""
    known = ("num_hidden_layers", "model_type", "architectures", *KEYS["inner"])
    return "layers" not in data and any(key in data for key in known)


def model_from_config(data: Mapping[str, Any], path: Path) -> ModelShape:
    """Return the shape of the model that a ``config.json`` describes.

    Parameters
    ----------
    data
        The file's content.
    path
        The file. The model is called like its folder, or like the file if that has a name of its
        own. ``hf_quant_config.json`` beside it counts, too.

    Raises
    ------
    InputError
        If it has no routed experts, lacks a key, two of its keys contradict each other, or a key
        is known and not supported.

    Warns
    -----
    MoeoptWarning
        Of keys about layers, experts, heads or attention that are not read.

    Notes
    -----
    Layers for multi-token prediction are not counted, nor are parts for images and sound. Quantized
    weights have the width that the file states, with scales where it or the format says how many
    weights share one; what it leaves out has that of the model's type, the mean over the layers
    where it leaves out some.
    """
    outer = Keys(path, data)
    inner = next((key for key in KEYS["inner"] if isinstance(data.get(key), Mapping)), None)
    keys = outer if inner is None else Keys(path, data[inner], f"{inner}.")
    parts = [Keys(path, _flat(keys.data), keys.prefix)]
    keys = parts[0]
    if inner is not None:
        outer.value(inner)
        parts.append(outer)
    refuse_unread(keys)
    count = experts(keys, KEYS["experts"])
    top_k = keys.number(KEYS["top_k"])
    layers = layer_count(keys, keys.optional(KEYS["layers"])) or keys.number(KEYS["layers"][:1])
    if layers > MOST_LAYERS:
        keys.fail(KEYS["layers"], f"must be at most {MOST_LAYERS}, not {layers}")
    if top_k > count:
        keys.fail(KEYS["top_k"], f"must be at most the {count} experts, not {top_k}")
    dense, width = dense_layers(keys, layers), dense_width(keys)
    size = keys.optional(KEYS["expert_size"])
    size = size or keys.optional(KEYS["width"])
    if size is None:
        keys.fail((*KEYS["expert_size"], "intermediate_size"), "is missing")
    own_bytes, note = dtype_bytes(keys, outer)
    hidden = keys.optional(KEYS["hidden"]) or keys.number(KEYS["hidden"][:1])
    shared = shared_experts(keys, KEYS["shared"], KEYS["shared_size"], hidden)
    leading = dense == tuple(range(len(dense)))
    gated = NO_GATE not in (keys.value("mlp_hidden_act"), keys.value("hidden_act"))
    tied = outer.value("tie_word_embeddings"), keys.value("tie_word_embeddings")
    try:
        shape = ModelShape(
            name=_name(path),
            layers=layers,
            dense_layers=len(dense),
            routed_experts=count,
            shared_experts=shared.number,
            top_k=top_k,
            hidden_size=hidden,
            expert_intermediate_size=size,
            bytes_per_weight=own_bytes,
            source=f"config.json at {path}{note}",
            dense_layer_ids=None if leading else dense,
            shared_intermediate_size=shared.size,
            dense_intermediate_size=_dense_width(keys, dense, width),
            vocab_size=keys.optional(("vocab_size",)),
            attention=attention(keys, layers, hidden),
            tied_embedding=True in tied,
            model_class=_class(data.get("architectures")),
            expert_matrices=None if gated else 2,
            expert_hidden_size=keys.optional(KEYS["expert_hidden"]),
            context_length=keys.optional(KEYS["context"]),
            **_widths(keys, outer, 8.0 * own_bytes, layers),
        )
    except ValidationError as error:
        found = input_error(error)
        field = found.field or ""
        keys.fail((FIELDS.get(field, field),), found.reason)
    warn_of_unread(*parts)
    return shape


def _flat(data: Mapping[str, object]) -> dict[str, object]:
    """Return the keys with those that DBRX keeps in objects by part."""
    found = dict(data)
    for part in KEYS["parts"]:
        own = found.pop(part, None)
        if isinstance(own, Mapping):
            found = dict(own) | found
        elif own is not None:
            found[part] = own
    return found


def _dense_width(keys: Keys, dense: tuple[int, ...], width: int | None) -> int | None:
    """Return the width of layers without experts, 0 if they have no feed-forward part."""
    if not dense:
        return None
    block = blocks(keys)
    if block is None:
        return width
    kinds = named(keys, block, max(dense) + 1)
    if not set(kinds) & set(MOE_BLOCKS):
        return width
    if {"mlp", "-"} & set(kinds):
        keys.fail((block,), "has dense layers beside experts and others, which is not supported")
    return 0


def _widths(keys: Keys, outer: Keys, own: float, layers: int) -> dict[str, float]:
    """Return the widths of quantized weights and, by kind, of those that are left out."""
    config = keys.value("quantization_config") or outer.value("quantization_config")
    at = f"{keys.path}: quantization_config"
    beside = quantisation.beside(keys.path) if config is None else None
    if beside is not None:
        config, at = beside[0], f"{beside[1]}: quantization"
    found = quantisation.widths(at, config, own, layers)
    stated = keys.value("expert_dtype")
    if stated is None:
        return found
    if not isinstance(stated, str) or stated not in EXPERT_DTYPE_BITS:
        choice = ", ".join(EXPERT_DTYPE_BITS)
        keys.fail(("expert_dtype",), f"must be one of {choice}, not {shown(stated)}")
    return found | {"expert_bits": EXPERT_DTYPE_BITS[stated]}


def _class(listed: object) -> str | None:
    """Return the first of the architectures, or None if that is no name of a class."""
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, str) and CLASS.fullmatch(first) else None


def _name(path: Path) -> str:
    if path.stem.removesuffix(".json") == "config" and (folder := path.absolute().parent.name):
        return folder
    return path.name.removesuffix(".gz").removesuffix(".json")
