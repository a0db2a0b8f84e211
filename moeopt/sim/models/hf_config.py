"""Model shapes, and widths of weights, from the ``config.json`` of Hugging Face models.

The keys are those of the model classes in transformers: Mixtral, Phi-3.5-MoE, OLMoE, Qwen2-MoE,
Qwen3-MoE, DeepSeek (V1 to V3), GLM-4.5 and whatever else spells its shape the same way.

Widths from ``quantization_config`` are those of the weights without scales, except where a format
fixes them (MXFP4, NVFP4). Embedding and router stay as they are in all these methods, the head
unless the file says so, and what the file leaves out by name (``modules_to_not_convert``,
``ignore`` and their like) too.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from moeopt.core.errors import InputError
from moeopt.core.wording import input_error, shown

from .attention import Attention, GroupedQuery, HybridAttention, LatentAttention
from .model_shape import ModelShape, TensorKind

DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

KEYS: dict[str, list[str]] = DATA["keys"]
"""What is read -> the keys that it stands under."""

FIELDS: dict[str, str] = DATA["fields"]
"""Field of a shape -> its key, or what it is called in messages."""

NAMED: dict[TensorKind, re.Pattern[str]] = {
    "shared": re.compile(r"shared_experts?"),
    "experts": re.compile(r"(?<!shared_)experts"),
    "attention": re.compile(r"attn|attention"),
    "dense": re.compile(r"mlp\b(?!.*expert).*(gate|up|down)[^.]*_proj|dense_mlp"),
    "head": re.compile(r"lm_head"),
}
"""Kind of tensor -> what stands in the names of its modules, or in patterns of such names.

Patterns from a file are searched for words, never run.
"""

LAYER = re.compile(r"layers\.([0-9]{1,5})(?:\.|$)")

MAX_LISTED, MAX_NAME = 2**16, 200
"""Most names of a list that are read, and most characters of each."""

WIDTH_IN_NAME = re.compile(r"(?:u?int|float|fp)_?([1-8]|16)(?![0-9])")


def quantized_bits(at: str, config: object) -> float | None:
    """Return the bits of a quantized weight that a configuration states; None without one.

    Parameters
    ----------
    at
        File and key, for messages.
    config
        The value of ``quantization_config``.

    Raises
    ------
    InputError
        If it is no object, or states no width.
    """
    if config is None:
        return None
    if not isinstance(config, Mapping):
        raise InputError(f"{at}: must be an object, not {shown(config)}")
    method = config.get("quant_method")
    if isinstance(method, str) and method in DATA["method_bits"]:
        return float(DATA["method_bits"][method])
    if method == "bitsandbytes":
        return 4.0 if config.get("load_in_4bit") else 8.0
    algorithm = config.get("quant_algo")
    if isinstance(algorithm, str) and algorithm.upper() in DATA["algorithm_bits"]:
        return float(DATA["algorithm_bits"][algorithm.upper()])
    bits = next((found for found in _group_widths(config) if found is not None), None)
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        raise InputError(
            f"{at}.bits: must be from 1 to 16 for quant_method {shown(method)}, not {shown(bits)}"
        )
    return float(bits)


def kept_share(config: Mapping[str, object], layers: int) -> dict[TensorKind, float]:
    """Return the share of each kind of tensor that the configuration leaves as it is.

    Parameters
    ----------
    layers
        Layers of the model; a list may name modules of some of them.
    """
    share: dict[TensorKind, float] = {"embedding": 1.0, "router": 1.0}
    if config.get("lm_head") is not True:
        share["head"] = 1.0
    named = [name for key in KEYS["left_out"] for name in _listed(config.get(key))]
    for kind, pattern in NAMED.items():
        found = [name for name in named if pattern.search(name)]
        numbers = [LAYER.search(name) for name in found]
        some = {int(number[1]) for number in numbers if number is not None}
        if any(number is None for number in numbers) or len(some) >= layers:
            share[kind] = 1.0
        elif some:
            share[kind] = len(some) / layers
    return share


def _listed(names: object) -> list[str]:
    found = list(names)[:MAX_LISTED] if isinstance(names, list | dict) else []
    return [name[:MAX_NAME] for name in found if isinstance(name, str)]


def _group_widths(config: Mapping[str, object]) -> Iterator[object]:
    """Yield the widths that a configuration states, where methods state them."""
    yield from (config.get(key) for key in KEYS["bits"])
    for key in ("config_groups", "global_quant_config", "weight_quant_params", "quant_config"):
        inner = config.get(key)
        if not isinstance(inner, Mapping):
            continue
        first = next(iter(inner.values()), None) if key == "config_groups" else inner
        if not isinstance(first, Mapping):
            continue
        weights = first.get("weights", first.get("weight", first.get("weight_quant_params")))
        for holder in (weights, first):
            if isinstance(holder, Mapping):
                yield from (holder.get(name) for name in KEYS["bits"])
                yield _in_name(holder.get("dtype"))
    for key in ("weights", "quant_type", "weight_format"):  # quanto, torchao, FP-Quant
        yield _in_name(config.get(key))


def _in_name(name: object) -> int | None:
    """Return the width in a name such as "int4_weight_only", "qint8" or "float8_e4m3fn"."""
    match = WIDTH_IN_NAME.search(name.lower()[:MAX_NAME]) if isinstance(name, str) else None
    return int(match[1]) if match else None


MOST = 2**24


class Keys:
    """The numbers of one configuration, read by any of their names.

    Parameters
    ----------
    path
        The file, for messages.
    data
        The object that holds the keys.
    prefix
        Where that object stands in the file, e.g. "text_config.".
    """

    def __init__(self, path: Path, data: Mapping[str, object], prefix: str = "") -> None:
        self.path, self.data, self.prefix = path, data, prefix

    def has(self, key: str) -> bool:
        """Return whether a key is there and not null."""
        return self.data.get(key) is not None

    def found(self, names: Sequence[str]) -> str:
        """Return the name under which a number stands, or all its names if under none."""
        present = [key for key in names if self.has(key)]
        return present[0] if present else " | ".join(names)

    def fail(self, names: Sequence[str], reason: str) -> NoReturn:
        """Raise InputError for a key: file, key and reason on one line."""
        raise InputError(f"{self.prefix}{self.found(names)}: {reason}", where=self.path)

    def number(self, names: Sequence[str], least: int = 1) -> int:
        """Return a whole number that must be there."""
        value = self.optional(names, least)
        if value is None:
            self.fail(names, "is missing")
        return value

    def optional(self, names: Sequence[str], least: int = 1) -> int | None:
        """Return a whole number, or None if no name has it; all names that do must agree.

        A list of one number per layer counts as that number if it is the same in all layers.
        """
        present = {key: self._whole(key, least) for key in names if self.has(key)}
        if not present:
            return None
        first, value = next(iter(present.items()))
        for key, other in present.items():
            if other != value:
                self.fail((key,), f"is {other} and contradicts {first}, which is {value}")
        return value

    def _whole(self, key: str, least: int) -> int:
        value = self.data[key]
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail((key,), f"must be an integer, not {shown(value)}")
        if not least <= value <= MOST:
            self.fail((key,), f"must be from {least} to {MOST}, not {value}")
        return value

    def experts(self) -> int:
        """Return the number of routed experts; a model without any is refused."""
        value = self.optional(KEYS["experts"], least=0)
        if value is None:
            self.fail(KEYS["experts"], "is missing; a model without experts has nothing to place")
        if value < 2:
            self.fail(KEYS["experts"], f"must be at least 2, not {value}: the model has no experts")
        return value

    def layer_list(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a list of layers, empty if the key is absent."""
        value = self.data.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item < layers
            for item in value
        ):
            self.fail((key,), f"must be a list of layers from 0 to {layers - 1}")
        return tuple(value)

    def frequency(self, key: str, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether a frequency, or a list of 0 and 1, gives it experts."""
        value = self.data.get(key)
        if isinstance(value, list):
            if len(value) != layers or any(item not in (0, 1) for item in value):
                self.fail((key,), f"must be a number, or 0 or 1 for each of {layers} layers")
            return tuple(item == 1 for item in value)
        step = self.optional((key,)) or 1
        return tuple(layer % step == 0 for layer in range(layers))


def attention(keys: Keys) -> Attention | None:
    """Return the attention's shape, or None if the configuration gives no heads.

    `kv_lora_rank` marks latent attention. Otherwise `num_key_value_heads` is by default as many as
    there are heads, and `head_dim` the hidden size over the heads, as in transformers.
    """
    heads = keys.optional(("num_attention_heads",))
    if heads is None:
        return None
    if keys.has("kv_lora_rank"):
        return LatentAttention(
            heads=heads,
            query_rank=keys.optional(("q_lora_rank",), least=0) or 0,
            kv_rank=keys.number(("kv_lora_rank",)),
            nope_dim=keys.number(("qk_nope_head_dim",)),
            rope_dim=keys.number(("qk_rope_head_dim",)),
            value_dim=keys.number(("v_head_dim",)),
        )
    head_dim = keys.optional(("head_dim",))
    hidden = keys.number(("hidden_size",))
    if head_dim is None and hidden % heads:
        keys.fail(("num_attention_heads",), f"must divide hidden_size = {hidden}, not {heads}")
    sizes = {
        "heads": heads,
        "kv_heads": keys.optional(("num_key_value_heads",)) or heads,
        "head_dim": head_dim or hidden // heads,
    }
    try:
        if keys.has("linear_num_value_heads"):
            return _hybrid(keys, sizes)
        return GroupedQuery(**sizes, **_window(keys))
    except ValidationError as error:
        found = input_error(error)
        field = found.field or ""
        keys.fail((FIELDS.get(field, field),), found.reason)


def _window(keys: Keys) -> dict[str, int]:
    """Return the window that some layers see, if `layer_types` says which (gpt-oss)."""
    kinds, window = keys.data.get("layer_types"), keys.optional(("sliding_window",), least=0)
    if not (isinstance(kinds, list) and window and "sliding_attention" in kinds):
        return {}
    full = kinds.count("full_attention")
    if not full or len(kinds) % full or len(kinds) != full + kinds.count("sliding_attention"):
        keys.fail(("layer_types",), "must repeat one pattern of sliding and full attention")
    return {"window": window, "full_every": len(kinds) // full}


def _interval(keys: Keys) -> int:
    """Return how many layers there are for one with full attention, as stated or as listed."""
    kinds = keys.data.get("layer_types")
    if keys.has("full_attention_interval") or not isinstance(kinds, list):
        return keys.number(("full_attention_interval",))
    full = kinds.count("full_attention")
    if not full or len(kinds) % full:
        keys.fail(("layer_types",), "must repeat one pattern with full attention")
    return len(kinds) // full


def _hybrid(keys: Keys, sizes: dict[str, int]) -> HybridAttention:
    """Return the attention of Qwen3-Next: Gated DeltaNet in all but every n-th layer."""
    return HybridAttention(
        **sizes,
        full_every=_interval(keys),
        key_heads=keys.number(("linear_num_key_heads",)),
        key_dim=keys.number(("linear_key_head_dim",)),
        value_heads=keys.number(("linear_num_value_heads",)),
        value_dim=keys.number(("linear_value_head_dim",)),
        conv_width=keys.number(("linear_conv_kernel_dim",)),
    )


def dtype_bytes(keys: Keys, outer: Mapping[str, object]) -> tuple[int, str]:
    """Return the bytes per weight, and a note for the source if they are assumed."""
    for holder in (keys.data, outer):
        for key in KEYS["dtype"]:
            value = holder.get(key)
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
    `quantization_config` states, without scales; what it leaves out has that of the model's type,
    the mean over the layers where it leaves out some.
    """
    inner = next((key for key in KEYS["inner"] if isinstance(data.get(key), Mapping)), None)
    keys = Keys(path, data if inner is None else data[inner], "" if inner is None else f"{inner}.")
    experts = keys.experts()
    top_k = keys.number(KEYS["top_k"])
    layers = keys.number(("num_hidden_layers",))
    if top_k > experts:
        keys.fail(KEYS["top_k"], f"must be at most the {experts} experts, not {top_k}")
    dense = _dense_layers(keys, layers)
    width = keys.optional(("intermediate_size",))
    size = keys.optional(KEYS["expert_size"]) or width
    if size is None:
        keys.fail((*KEYS["expert_size"], "intermediate_size"), "is missing")
    own_bytes, note = dtype_bytes(keys, data)
    quantization = keys.data.get("quantization_config") or data.get("quantization_config")
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
            tied_embedding=data.get("tie_word_embeddings") is True,
            model_class=_class(data.get("architectures")),
            **_widths(path, quantization, 8.0 * own_bytes, layers),
        )
    except ValidationError as error:
        found = input_error(error)
        field = found.field or ""
        keys.fail((FIELDS.get(field, field),), found.reason)


def _widths(path: Path, config: Any, own: float, layers: int) -> dict[str, float]:
    """Return the widths of quantized weights and, by kind, of those that are left out."""
    bits = quantized_bits(f"{path}: quantization_config", config)
    if bits is None:
        return {}
    widths = {"expert_bits": bits, "other_bits": bits}
    for kind, share in kept_share(config, layers).items():
        field = "expert_bits" if kind == "experts" else f"{kind}_bits"
        widths[field] = share * own + (1 - share) * bits
    return widths


def _class(listed: object) -> str | None:
    """Return the first of the architectures, or None if that is no name of a class."""
    first = listed[0] if isinstance(listed, list) and listed else None
    return first if isinstance(first, str) and CLASS.fullmatch(first) else None


def _name(path: Path) -> str:
    if path.stem.removesuffix(".json") == "config" and (folder := path.absolute().parent.name):
        return folder
    return path.name.removesuffix(".gz").removesuffix(".json")


def _shared(keys: Keys) -> tuple[int, int | None]:
    """Return the number of shared experts and, if stated, their size together."""
    count, size = (keys.optional(KEYS[k], least=0) for k in ("shared", "shared_size"))
    if not size:
        return count or 0, None
    if count == 0:
        other = keys.found(KEYS["shared"])
        keys.fail(KEYS["shared_size"], f"must be 0 as {other} is, not {size}")
    return count or 1, size


def _dense_layers(keys: Keys, layers: int) -> tuple[int, ...]:
    """Return the layers without experts, rising."""
    for key in KEYS["unread"]:
        if keys.has(key) and keys.data[key] != 1:
            keys.fail((key,), "is not supported: it moves the layers that have experts")
    first = keys.optional(("first_k_dense_replace",), least=0) or 0
    step = keys.optional(("decoder_sparse_step",)) or 1
    excepted = set(keys.layer_list("mlp_only_layers", layers))
    step *= keys.optional(("interleave_moe_layer_step",)) or 1
    every = keys.frequency("moe_layer_freq", layers)
    kinds = keys.data.get("mlp_layer_types")
    if isinstance(kinds, list) and len(kinds) >= layers:
        excepted |= {layer for layer in range(layers) if kinds[layer] == "dense"}
    if keys.has("moe_layers"):
        excepted |= set(range(layers)) - set(keys.layer_list("moe_layers", layers))
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
