"""Widths of weights from the ``quantization_config`` of a Hugging Face ``config.json``.

Widths are those of the weights without scales, except where a format fixes them (MXFP4, NVFP4).
Embedding and router stay as they are in all these methods, the head unless the file says so, and
what the file leaves out by name (``modules_to_not_convert``, ``ignore`` and their like) too.
"""

import re
from collections.abc import Iterator, Mapping

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.models.model_shape import TensorKind

FIXED_BITS = {
    "fp8": 8.0,
    "fbgemm_fp8": 8.0,
    "eetq": 8.0,
    "finegrained_fp8": 8.0,
    "mxfp4": 4.25,
    "bitnet": 2.0,
}
"""Methods of one width; MXFP4 has an 8-bit scale per 32 weights of 4 bits, BitNet's three values
are packed into 2 bits."""

ALGORITHM_BITS = {
    "FP8": 8.0,
    "FP8_PER_CHANNEL_PER_TOKEN": 8.0,
    "NVFP4": 4.5,
    "W4A8_AWQ": 4.0,
    "W4A16_AWQ": 4.0,
    "W8A8_SQ_PER_CHANNEL": 8.0,
    "W8A16": 8.0,
    "W4A16": 4.0,
    "MXFP4": 4.25,
    "W4A8_MXFP4_FP8": 4.25,
}
"""Algorithms of NVIDIA's ModelOpt; NVFP4 has an 8-bit scale per 16 weights of 4 bits."""

LEFT_OUT = (
    "modules_to_not_convert",
    "ignore",
    "ignored_layers",
    "ignored_modules",
    "exclude",
    "exclude_modules",
    "modules_to_not_quantize",
    "llm_int8_skip_modules",
    "skip_modules",
)
"""Where methods list modules that keep their type."""

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

BIT_KEYS = ("bits", "w_bit", "nbits", "num_bits", "w_bits", "weight_bits")

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
    if isinstance(method, str) and method in FIXED_BITS:
        return FIXED_BITS[method]
    if method == "bitsandbytes":
        return 4.0 if config.get("load_in_4bit") else 8.0
    algorithm = config.get("quant_algo")
    if isinstance(algorithm, str) and algorithm.upper() in ALGORITHM_BITS:
        return ALGORITHM_BITS[algorithm.upper()]
    bits = next((found for found in _widths(config) if found is not None), None)
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
    named = [name for key in LEFT_OUT for name in _listed(config.get(key))]
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


def _widths(config: Mapping[str, object]) -> Iterator[object]:
    """Yield the widths that a configuration states, where methods state them."""
    yield from (config.get(key) for key in BIT_KEYS)
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
                yield from (holder.get(name) for name in BIT_KEYS)
                yield _in_name(holder.get("dtype"))
    for key in ("weights", "quant_type", "weight_format"):  # quanto, torchao, FP-Quant
        yield _in_name(config.get(key))


def _in_name(name: object) -> int | None:
    """Return the width in a name such as "int4_weight_only", "qint8" or "float8_e4m3fn"."""
    match = WIDTH_IN_NAME.search(name.lower()[:MAX_NAME]) if isinstance(name, str) else None
    return int(match[1]) if match else None
