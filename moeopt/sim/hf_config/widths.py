"""How wide the weights of a ``config.json`` are: its type, and its quantization."""

from collections.abc import Mapping
from typing import Any

from moeopt.errors import InputError
from moeopt.problems.wording import shown
from moeopt.sim.hf_config.keys import Keys

DTYPE_BYTES = {
    "bfloat16": 2,
    "float16": 2,
    "half": 2,
    "float32": 4,
    "float": 4,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
DTYPE = ("torch_dtype", "dtype")
FIXED_BITS = {"fp8": 8.0, "fbgemm_fp8": 8.0, "mxfp4": 4.25}
"""Methods of one width; MXFP4 has an 8-bit scale per 32 weights of 4 bits."""


def dtype_bytes(keys: Keys, outer: Mapping[str, Any]) -> tuple[int, str]:
    """Return the bytes per weight, and a note for the source if they are assumed."""
    for holder in (keys.data, outer):
        for key in DTYPE:
            value = holder.get(key)
            if value is None or value == "auto":
                continue
            size = DTYPE_BYTES.get(value.removeprefix("torch.")) if isinstance(value, str) else None
            if size is None:
                choice = ", ".join(DTYPE_BYTES)
                keys.fail((key,), f"must be one of {choice}, not {shown(value)}")
            return size, ""
    return 2, "; no torch_dtype, BF16 assumed"


def quantized_bits(keys: Keys, outer: Mapping[str, Any]) -> float | None:
    """Return the bits per weight that `quantization_config` states, or None without one."""
    config = keys.data.get("quantization_config") or outer.get("quantization_config")
    if config is None:
        return None
    at = f"{keys.path}: quantization_config"
    if not isinstance(config, Mapping):
        raise InputError(f"{at}: must be an object, not {shown(config)}")
    method = config.get("quant_method")
    if isinstance(method, str) and method in FIXED_BITS:
        return FIXED_BITS[method]
    if method == "bitsandbytes":
        return 4.0 if config.get("load_in_4bit") else 8.0
    bits = config.get("bits")
    if bits is None and method == "compressed-tensors":
        bits = _group_bits(config)
    if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
        raise InputError(
            f"{at}.bits: must be from 1 to 16 for quant_method {shown(method)}, not {shown(bits)}"
        )
    return float(bits)


def _group_bits(config: Mapping[str, Any]) -> Any:
    """Return the bits of the first group's weights in a compressed-tensors configuration."""
    groups = config.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, Mapping) else None
    weights = first.get("weights") if isinstance(first, Mapping) else None
    return weights.get("num_bits") if isinstance(weights, Mapping) else None
