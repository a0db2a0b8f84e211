"""Quantisations by name: Q4_K_M, MXFP4, AWQ and others -> bits per weight of each kind of tensor.

Names of GGUF files' types are the mixes that ``llama-quantize`` makes (`gguf.types`): which tensors
get more bits depends on the model's layers, heads and experts, and a matrix whose rows are no whole
number of blocks gets another type. Scales count in.
"""

import difflib
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import lru_cache

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.models.gguf.types import (
    BY_NAME,
    MIXES,
    SORTS,
    TYPES,
    Matrix,
    Mix,
    Place,
    TensorType,
    matrices,
    type_of,
)
from moeopt.sim.models.model_shape import KINDS, ModelShape, TensorKind

Bits = dict[TensorKind, float]
"""Kind of tensor -> bits per weight, scales included."""

ALIASES = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M", "MXFP4": "MXFP4_MOE"} | {
    **{"FP16": "F16", "FP32": "F32", "GPTQ_INT4": "GPTQ"}
}
"""What ``llama-quantize`` and others call the same."""

UNQUANTISED: dict[str, float] = {"BF16": 16.0, "F16": 16.0, "F32": 32.0}

LINEAR: dict[str, float] = {"FP8": 8 + 32 / 128**2, "AWQ": 4 + 20 / 128, "GPTQ": 4 + 20 / 128}
"""Formats that quantise all matrices but embedding, head and router, which stay 16-bit: FP8 has a
32-bit scale per 128 x 128 weights (DeepSeek-V3 technical report, arXiv 2412.19437, section 3.3.2),
AWQ (arXiv 2306.00978) and GPTQ (arXiv 2210.17323) as published have a 16-bit scale and a 4-bit zero
point per group of 128."""

KEPT: tuple[TensorKind, ...] = ("embedding", "head", "router")

UPSTREAM = {kind.name for number, kind in TYPES.items() if number < 133}
"""Types that llama.cpp reads; ik_llama.cpp reads them and its own."""

REPACKED = re.compile(r"_R(4|8|16)")


def names() -> list[str]:
    """Return all names that are known, without aliases."""
    return [*MIXES, *UNQUANTISED, *LINEAR]


def is_name(bits: str | float) -> bool:
    """Return whether bits are given by a name, not as a number or list of numbers."""
    if not isinstance(bits, str) or not re.search(r"[A-Za-z_]", bits):
        return False
    try:
        float(bits)  # nan, inf, 1e3
    except ValueError:
        return True
    return False


def named_bits(name: str, model: ModelShape) -> Bits:
    """Return the bits per weight of each kind of tensor of a quantised model.

    Parameters
    ----------
    name
        As files are called: Q4_K_M, q4_k_m, IQ4_XS, MXFP4, BF16, FP8, AWQ. ik_llama.cpp's
        row-interleaved types (``_R4``) have the bits of the plain ones.
    model
        Its sizes decide which matrices get more bits. Experts that are MXFP4 beside 16-bit weights,
        as gpt-oss is published, stay MXFP4 in every file; llama-quantize refuses to quantise twice.

    Returns
    -------
    Bits
        The mean over the layers, by weights; kinds that the model does not have are missing.

    Raises
    ------
    InputError
        If the name is not known, or the model lacks a size.

    Examples
    --------
    >>> from moeopt.sim.presets import get_model
    >>> bits = named_bits("Q4_K_M", get_model("mixtral-8x7b"))
    >>> bits["head"], bits["router"], round(bits["experts"], 3)
    (6.5625, 32.0, 4.844)
    """
    return dict(_named_bits(_known(name), model))


@lru_cache(maxsize=256)
def _named_bits(known: str, model: ModelShape) -> Bits:
    """Return what `named_bits` does: whoever tries all names on a model asks again and again."""
    there = [kind for kind in KINDS if model.weights_of(kind)]
    if known in UNQUANTISED:
        kept: Bits = {"experts": model.bits} if _has_mxfp4_experts(model) else {}
        return dict.fromkeys(there, UNQUANTISED[known]) | kept
    if known in LINEAR:
        return {kind: 16.0 if kind in KEPT else LINEAR[known] for kind in there}
    return dict(_mixed_bits(known, model))


@lru_cache(maxsize=16)
def _mixed_bits(known: str, model: ModelShape) -> Bits:
    """Return the mean bits of each kind of tensor in a mix, by the types of all matrices."""
    total: dict[TensorKind, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for matrix, kind in matrix_types(MIXES[known], model):
        row = kind.row_size(matrix.columns) or 0
        total[matrix.kind][0] += 8 * row * matrix.weights / matrix.columns
        total[matrix.kind][1] += matrix.weights
    return {kind: bits / weights for kind, (bits, weights) in total.items()}


def quantised(model: ModelShape, name: str) -> ModelShape:
    """Return a model whose weights have the widths of a quantisation; the KV cache keeps its own.

    Raises
    ------
    InputError
        As `named_bits`.
    """
    bits = named_bits(name, model)
    if model.tied_embedding:  # the matrix is there once, and read as both
        bits["embedding"] = bits["head"]
    widths = {f"{kind}_bits": bits.get(kind) for kind in KINDS if kind != "experts"}
    changes: dict[str, float | str | None] = {
        "expert_bits": bits["experts"],
        "other_bits": None,
        **widths,
    }
    changes |= {"kv_bits": model.kv_widths[0], "quantisation": _known(name)}
    return model.model_copy(update=changes)


def at_bits(model: ModelShape, bits: str | float) -> ModelShape:
    """Return a model at the width of all weights, or as a quantisation of that name makes it.

    Raises
    ------
    InputError
        If it is neither a width from 0.5 to 64 nor a known name.
    """
    if isinstance(bits, str) and is_name(bits):
        return quantised(model, bits)
    try:
        width = float(bits)
    except (TypeError, ValueError):
        raise InputError(
            f"bits: must be a width or a quantisation's name, not {bits!r:.40}"
        ) from None
    if not 0.5 <= width <= 64:
        raise InputError(f"bits: must be from 0.5 to 64, not {width:g}")
    return model.quantized(width, width)


def weight_bytes(model: ModelShape) -> int:
    """Return the bytes of all weights: what a file of the model has, less norms and biases.

    Raises
    ------
    InputError
        If the model lacks a size.
    """
    return math.ceil(sum(model.weights_of(kind) * model.bits_of(kind) for kind in KINDS) / 8)


def narrower(model: ModelShape, bits: str | float | None, runtime: str) -> Iterator[str]:
    """Yield the mixes that a runtime reads and that make a model smaller, the largest first."""
    width = weight_bytes(model if bits is None else at_bits(model, bits))
    sizes = {name: weight_bytes(quantised(model, name)) for name in MIXES}
    for name in sorted(sizes, key=lambda name: (-sizes[name], name)):
        if sizes[name] < width and not not_read(name, runtime):
            yield name


def not_read(name: str | None, runtime: str) -> tuple[str, ...]:
    """Return, in words, that a runtime does not read files of a quantisation; nothing if it does.

    Of ktransformers nothing is said: its command line names a file of its own (``--kt-method``).
    """
    if name is None or runtime == "ktransformers":
        return ()
    if name in LINEAR:
        return (f"bits: {runtime} reads no files of {name}: it reads GGUF",)
    mix = MIXES.get(name)
    if mix is None or runtime == "ik_llama.cpp":
        return ()
    kinds = {mix.base, mix.head, mix.embedding, *(kind for _, _, kind in mix.rules)} - {None}
    if kinds <= UPSTREAM:
        return ()
    return (f"bits: {name} is a type of ik_llama.cpp, which {runtime} does not read",)


def _known(name: str) -> str:
    upper = re.sub(r"[-\s]+", "_", name.strip().upper())
    everything = [*names(), *ALIASES]
    for candidate in (upper, REPACKED.sub("", upper)):
        if candidate in everything:
            return ALIASES.get(candidate, candidate)
    if upper.startswith("UD_"):
        reason = "is a recipe by tensor, not a rule: give the GGUF file as the model"
    else:
        close = difflib.get_close_matches(upper, everything, n=4, cutoff=0.5)
        reason = f"is not known; like it: {', '.join(close)}" if close else "is not known"
        reason = f"{reason} (moeopt list quantisations)"
    raise InputError(f"bits: the quantisation {shown(name)} {reason}")


def published_as(model: ModelShape) -> str | None:
    """Return the quantisation of the files that are published of a model; None: not known.

    Of gpt-oss there are none but with experts in MXFP4, as it was trained.
    """
    return "MXFP4" if model.quantisation is None and _has_mxfp4_experts(model) else None


def _has_mxfp4_experts(model: ModelShape) -> bool:
    """Return whether the experts alone have the width of MXFP4, as gpt-oss is published."""
    mxfp4 = BY_NAME["MXFP4"]
    return model.bits == 8 * mxfp4.size / mxfp4.weights and model.bits_of("attention") == 16


def matrix_types(mix: Mix, model: ModelShape) -> list[tuple[Matrix, TensorType]]:
    """Return the matrices of a model and what type each gets in a mix."""
    native = _has_mxfp4_experts(model)
    nth: Counter[str] = Counter()
    found = []
    for matrix in matrices(model):
        sort = next((sort for sort in ("value", "down") if matrix.name in SORTS[sort]), "")
        at = Place(matrix.layer or 0, model.layers, nth[sort], model)
        nth[sort] += 1
        kept = native and matrix.kind == "experts"
        found.append((matrix, BY_NAME["MXFP4"] if kept else type_of(mix, matrix, at)))
    return found
