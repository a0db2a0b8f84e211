"""Widths of weights from a ``config.json``'s ``quantization_config``, or a file beside it.

A width counts what a group of weights shares: the scale that a format fixes (MXFP4, NVFP4), or one
of 16 bits where the file states the group's size, and the zero point where there is one. Embedding
and router stay as they are in all these methods, the head unless the file says so, and what the
file leaves out by name (``modules_to_not_convert``, ``ignore`` and their like) too.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.core.wording import shown
from moeopt.sim.models.model_shape import TensorKind

DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

KEYS: dict[str, list[str]] = DATA["keys"]
"""What is read -> the keys that it stands under."""

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
        return _of_algorithm(algorithm, config)
    bits = next((found for found in _widths(config) if found is not None), None)
    if isinstance(bits, bool) or not isinstance(bits, int | float) or not 1 <= bits <= 16:
        raise InputError(
            f"{at}.bits: must be from 1 to 16 for quant_method {shown(method)}, not {shown(bits)}"
        )
    return _grouped(bits, config, zero=method in DATA["keys"]["zero_points"])


SCALE_BITS = 16
"""Of a scale of integers that share one; the type of the model's other weights."""


def _of_algorithm(algorithm: str, config: Mapping[str, object]) -> float:
    """Return the width of one of ModelOpt's algorithms: whole ones have scales besides."""
    bits = float(DATA["algorithm_bits"][algorithm.upper()])
    return _grouped(bits, config, zero=False) if bits.is_integer() else bits


def _grouped(bits: float, holder: Mapping[str, object], *, zero: bool) -> float:
    """Return a width with the share of a group's scale, and of its zero point if there is one."""
    size = holder.get("group_size")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1 or bits >= SCALE_BITS:
        return float(bits)
    return bits + (SCALE_BITS + bits * zero) / size


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
    named += [name for name, width in _overrides(config) if width is None]
    return share | _shares(named, layers)


def _overrides(config: Mapping[str, object]) -> Iterator[tuple[str, float | None]]:
    """Yield modules that have a width of their own, None where they are left out.

    GPTQModel marks in `dynamic` what it leaves out with ``-:``; AutoRound gives it 16 bits.
    """
    for key in KEYS["by_module"]:
        modules = config.get(key)
        for name, how in list(modules.items())[:MAX_LISTED] if isinstance(modules, Mapping) else ():
            bits = how.get("bits") if isinstance(how, Mapping) else None
            if not isinstance(name, str):
                continue
            if name.startswith("-:") or bits == 16:
                yield name[:MAX_NAME], None
            elif not isinstance(bits, bool) and isinstance(bits, int) and 1 <= bits < 16:
                assert isinstance(how, Mapping)  # noqa: S101
                yield name[:MAX_NAME], _grouped(bits, {**config, **how}, zero=True)


def _shares(named: list[str], layers: int) -> dict[TensorKind, float]:
    """Return the share of each kind of tensor that names of modules are about."""
    share: dict[TensorKind, float] = {}
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
    yield from (config.get(key) for key in KEYS["bits"])
    for key in ("config_groups", "global_quant_config", "weight_quant_params", "quant_config"):
        inner = config.get(key)
        if isinstance(inner, Mapping):
            first = next(iter(inner.values()), None) if key == "config_groups" else inner
            yield group_width(first)
    for key in ("weights", "quant_type", "weight_format"):  # quanto, torchao, FP-Quant
        yield _in_name(config.get(key))


def group_width(group: object) -> float | None:
    """Return the width of the weights that a group of modules has, None if it states none.

    Of floating-point numbers of 4 bits the format fixes the scales: an 8-bit one per 16 (NVFP4) or
    32 (MXFP4).
    """
    if not isinstance(group, Mapping):
        return None
    weights = group.get("weights", group.get("weight", group.get("weight_quant_params")))
    for holder in (weights, group):
        if not isinstance(holder, Mapping):
            continue
        stated = [holder.get(name) for name in KEYS["bits"]]
        bits = next((n for n in stated if n is not None), None) or _in_name(holder.get("dtype"))
        if bits is None:
            continue
        if isinstance(bits, bool) or not isinstance(bits, int) or not 1 <= bits <= 16:
            return None
        if holder.get("type") == "float":
            size = holder.get("group_size")
            return 4 + 8 / int(str(size)) if bits == 4 and size in SCALED else float(bits)
        return _grouped(bits, holder, zero=holder.get("symmetric") is False)
    return None


SCALED = (16, 32)
"""Weights that share a scale in NVFP4 and in MXFP4."""


def kind_widths(config: Mapping[str, object]) -> dict[TensorKind, float] | None:
    """Return the widths of the kinds of tensors that groups name; None if they name no modules.

    A kind that several groups name has their mean, by the number of names; a kind that none names
    keeps its type. Which of a kind's layers are named does not matter.
    """
    found: dict[TensorKind, list[float]] = {}
    for names, width in _groups(config):
        for name in names:
            kind = next((kind for kind, pattern in NAMED.items() if pattern.search(name)), None)
            if kind is not None and width is not None:
                found.setdefault(kind, []).append(width)
    return {kind: sum(widths) / len(widths) for kind, widths in found.items()} or None


def _groups(config: Mapping[str, object]) -> Iterator[tuple[list[str], float | None]]:
    """Yield the modules that each group names, and its width."""
    groups = config.get("config_groups")
    for group in list(groups.values())[:MAX_LISTED] if isinstance(groups, Mapping) else []:
        if isinstance(group, Mapping):
            yield _listed(group.get("targets")), group_width(group)
    modules = config.get("quantized_layers")  # ModelOpt's MIXED_PRECISION
    for name, how in list(modules.items())[:MAX_LISTED] if isinstance(modules, Mapping) else []:
        algorithm = how.get("quant_algo") if isinstance(how, Mapping) else None
        if isinstance(name, str) and isinstance(algorithm, str) and isinstance(how, Mapping):
            known = algorithm.upper() in DATA["algorithm_bits"]
            yield [name[:MAX_NAME]], _of_algorithm(algorithm, how) if known else None


def _in_name(name: object) -> int | None:
    """Return the width in a name such as "int4_weight_only", "qint8" or "float8_e4m3fn"."""
    match = WIDTH_IN_NAME.search(name.lower()[:MAX_NAME]) if isinstance(name, str) else None
    return int(match[1]) if match else None


SIDECAR = "hf_quant_config.json"
"""ModelOpt's file beside a ``config.json``."""


def beside(path: Path) -> tuple[Mapping[str, object], Path] | None:
    """Return the quantisation that a file beside a ``config.json`` states, and that file."""
    file = path.with_name(SIDECAR)
    try:
        there = file.is_file()
    except OSError:
        return None
    if not there or path.name != "config.json":
        return None
    quantization = read_object(file).get("quantization")
    if not isinstance(quantization, Mapping):
        reason = f"must be an object, not {shown(quantization)}"
        raise InputError(f"quantization: {reason}", where=file)
    return quantization, file


def widths(at: str, config: object, own: float, layers: int) -> dict[str, float]:
    """Return the widths of quantized weights and, by kind, of those that are left out.

    Parameters
    ----------
    at
        File and key, for messages.
    config
        The configuration, None without one.
    own
        Bits of weights that are not quantized.
    layers
        Layers of the model.
    """
    if config is None:
        return {}
    named = kind_widths(config) if isinstance(config, Mapping) else None
    if named is None or not isinstance(config, Mapping):
        bits = quantized_bits(at, config)
        if bits is None or not isinstance(config, Mapping):
            return {}
        found = {"expert_bits": bits, "other_bits": bits}
    else:
        bits = own
        found = {"other_bits": own}
        found |= {_field(kind): width for kind, width in named.items()}
    by_width: dict[float, list[str]] = {}
    for name, width in _overrides(config):
        if width is not None:
            by_width.setdefault(width, []).append(name)
    for width, names in by_width.items():
        for kind, share in _shares(names, layers).items():
            quantized = found.get(_field(kind), bits)
            found[_field(kind)] = share * width + (1 - share) * quantized
    for kind, share in kept_share(config, layers).items():
        quantized = found.get(_field(kind), bits)
        found[_field(kind)] = share * own + (1 - share) * quantized
    cache = config.get("kv_cache_quant_algo")
    if isinstance(cache, str) and cache.upper() in DATA["algorithm_bits"]:
        found["kv_bits"] = float(DATA["algorithm_bits"][cache.upper()])
    return found


def _field(kind: TensorKind) -> str:
    return "expert_bits" if kind == "experts" else f"{kind}_bits"
