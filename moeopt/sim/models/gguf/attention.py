"""Attention of a GGUF file's model: one kind for all layers, or layer by layer from its tensors."""

import warnings
from collections import defaultdict
from dataclasses import dataclass

from moeopt.core.errors import MoeoptWarning
from moeopt.sim.models.attention import (
    Attention,
    AttentionByLayer,
    GroupedQuery,
    HybridAttention,
    LatentAttention,
    Mixer,
    Projection,
)
from moeopt.sim.models.gguf.file import Tensor
from moeopt.sim.models.gguf.reader import Reader
from moeopt.sim.models.mixers import Mixing

WINDOW_EVERY = {"gpt-oss": 2, "llama4": 4, "afmoe": 4, "exaone-moe": 4}
"""Architecture -> every so-manieth layer sees the whole context: llama.cpp's own constants, as the
files do not say it."""

CHUNK = {"llama4": 8192}
"""Architecture -> tokens of a chunk, llama.cpp's own constant."""

FULL_EVERY = 4
"""Layers for one with attention in Qwen3-Next, if a file has no `full_attention_interval`."""

PATTERN = "attention.sliding_window_pattern"


def attention(reader: Reader) -> Attention | None:
    """Return the attention's shape, or None if the file gives no heads.

    Layers that differ are described by their tensors: which have a cache, and how wide.
    """
    counts = reader.by_layer("attention.head_count")
    heads = max(counts or (0,))
    if not heads:
        return None
    rank = reader.optional("attention.kv_lora_rank", 0) or 0
    kinds = _kinds(reader)
    recurrent = any(kind in ("mamba", "conv", "none") for kind in kinds)
    if rank and not recurrent:
        return _latent(reader, heads, rank)
    kv = reader.by_layer("attention.head_count_kv") or counts or ()
    width, value = reader.optional("attention.key_length"), _value_length(reader)
    hidden = reader.number("embedding_length")
    if width is None and hidden % heads:
        reader.fail("attention.head_count", f"must divide embedding_length, not {heads}")
    width = width or hidden // heads
    same = len({*(counts or ()), 0}) == 2 and len({number for number in kv if number}) <= 1
    kv_heads = max(kv) or heads
    if same and recurrent and (found := _hybrid(reader, heads, kv_heads, width)) is not None:
        return found
    every, window = WINDOW_EVERY.get(reader.architecture, 1), _window(reader)
    swa = reader.optional("attention.key_length_swa")
    plain = same and not recurrent and value in (None, width) and swa in (None, width)
    regular = PATTERN not in _keys(reader) and (window is None or reader.layers % every == 0)
    if plain and 0 not in kv and regular:
        usual = GroupedQuery(heads=heads, kv_heads=kv_heads, head_dim=width)
        if window is None or every == 1:
            return usual
        return usual.model_copy(update={"window": window, "full_every": every})
    return _by_layer(reader, counts or (), kv, kinds, Widths(width, value or width, window, rank))


def _keys(reader: Reader) -> set[str]:
    own = f"{reader.architecture}."
    return {key.removeprefix(own) for key in reader.gguf.metadata if key.startswith(own)}


def _value_length(reader: Reader) -> int | None:
    return reader.optional("attention.value_length")


def _window(reader: Reader) -> int | None:
    """Return how many tokens layers with a window keep, if it is known which layers those are."""
    size = reader.optional("attention.sliding_window", 0) or reader.optional("attention.chunk_size")
    size = size or CHUNK.get(reader.architecture)
    if not size:
        return None
    known = {PATTERN, "attention.key_length_swa"} & _keys(reader)
    if known or reader.architecture in WINDOW_EVERY:
        return size
    if size < (reader.optional("context_length") or size):
        told = "nothing says of which layers; all are taken to see every token"
        text = f"{reader.path}: {reader.architecture}.attention.sliding_window: {told}"
        warnings.warn(text, MoeoptWarning, stacklevel=2)
    return None


@dataclass(frozen=True)
class Widths:
    """Of a key and a value, of the window, and the rank of a latent cache."""

    key: int
    value: int
    window: int | None
    rank: int


def _matrices(reader: Reader) -> dict[int, dict[str, Tensor]]:
    found: dict[int, dict[str, Tensor]] = defaultdict(dict)
    for layer, name, tensor in reader.parts("attention"):
        found[layer][name] = tensor
    return found


def _kinds(reader: Reader) -> tuple[Mixer, ...]:
    """Return what mixes the tokens in each layer, by its tensors; "full" for any attention."""
    kv, matrices = reader.by_layer("attention.head_count_kv"), _matrices(reader)
    found: list[Mixer] = []
    for layer in range(reader.layers):
        names = matrices.get(layer, {})
        if any(name.startswith("ssm_") for name in names):
            found.append("mamba")
        elif any(name.startswith("shortconv") for name in names):
            found.append("conv")
        else:
            found.append("none" if kv is not None and kv[layer] == 0 else "full")
    return tuple(found)


def _by_layer(
    reader: Reader,
    heads: tuple[int, ...],
    kv_heads: tuple[int, ...],
    kinds: tuple[Mixer, ...],
    widths: Widths,
) -> AttentionByLayer:
    matrices, groups = _matrices(reader), defaultdict[Mixing, list[int]](list)
    windowed = _windowed(reader, kv_heads, widths, matrices)
    for layer, kind in enumerate(kinds):
        own = tuple(
            Projection(name=name, columns=tensor.shape[0], rows=tensor.weights // tensor.shape[0])
            for name, tensor in sorted(matrices.get(layer, {}).items())
        )
        if kind == "full":
            mixing = _mixing(reader, own, heads[layer], kv_heads[layer], widths, windowed[layer])
        else:
            mixing = Mixing(kind, own)
        groups[mixing].append(layer)
    made = tuple(mixing.group(layers) for mixing, layers in groups.items())
    return AttentionByLayer(heads=max(heads), groups=made)


def _mixing(
    reader: Reader,
    own: tuple[Projection, ...],
    heads: int,
    kv_heads: int,
    widths: Widths,
    windowed: bool,
) -> Mixing:
    """Return a layer with attention."""
    if widths.rank:
        cached = widths.rank + reader.number("rope.dimension_count")
        return Mixing("latent", own, 1, cached, heads * (cached + widths.rank))
    key, value = widths.key, widths.value
    if windowed:
        key = reader.optional("attention.key_length_swa") or key
        value = reader.optional("attention.value_length_swa") or value
    if heads % kv_heads:
        reader.fail("attention.head_count_kv", f"must divide heads = {heads}, not {kv_heads}")
    return Mixing(
        "window" if windowed else "full",
        own,
        heads // kv_heads,
        kv_heads * (key + value),
        heads * (key + value),
        widths.window if windowed else None,
    )


def _windowed(
    reader: Reader,
    kv_heads: tuple[int, ...],
    widths: Widths,
    matrices: dict[int, dict[str, Tensor]],
) -> tuple[bool, ...]:
    """Return which layers have a window: as listed, by the width of their keys, or by rule."""
    layers = range(reader.layers)
    if widths.window is None:
        return tuple(False for _ in layers)
    value = reader.gguf.metadata.get(f"{reader.architecture}.{PATTERN}")
    if isinstance(value, tuple):
        return tuple(map(bool, reader.by_layer(PATTERN) or ()))
    every = value if type(value) is int and value > 0 else None
    every = every or WINDOW_EVERY.get(reader.architecture)
    if every is not None:
        return tuple((layer + 1) % every != 0 for layer in layers)
    narrow = reader.optional("attention.key_length_swa") or widths.key
    keys = [matrices.get(layer, {}).get("attn_k") for layer in layers]
    return tuple(
        key is not None and key.shape[1] == kv_heads[layer] * narrow and narrow != widths.key
        for layer, key in enumerate(keys)
    )


def _latent(reader: Reader, heads: int, rank: int) -> LatentAttention:
    key = "attention.key_length"
    # newer files give the compressed widths there and those of the heads under _mla
    width = reader.optional(f"{key}_mla") or reader.number(key)
    value = reader.optional("attention.value_length_mla") or reader.number("attention.value_length")
    rope = reader.number("rope.dimension_count")
    if rope >= width:
        reader.fail("rope.dimension_count", f"must be below the key's {width}, not {rope}")
    return LatentAttention(
        heads=heads,
        query_rank=reader.optional("attention.q_lora_rank", 0) or 0,
        kv_rank=rank,
        nope_dim=width - rope,
        rope_dim=rope,
        value_dim=value,
    )


def _hybrid(reader: Reader, heads: int, kv_heads: int, head_dim: int) -> HybridAttention | None:
    """Return attention beside Gated DeltaNet; None for other state-space models."""
    value_heads = reader.optional("ssm.time_step_rank")
    key_heads, key_dim = reader.optional("ssm.group_count"), reader.optional("ssm.state_size")
    inner, conv = reader.optional("ssm.inner_size"), reader.optional("ssm.conv_kernel")
    known = reader.architecture.startswith(("qwen3next", "qwen35"))
    if not (known and value_heads and key_heads and key_dim and inner and conv):
        return None
    if inner % value_heads:
        reader.fail("ssm.inner_size", f"must be a multiple of {value_heads} heads, not {inner}")
    return HybridAttention(
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        full_every=reader.optional("full_attention_interval") or FULL_EVERY,
        key_heads=key_heads,
        key_dim=key_dim,
        value_heads=value_heads,
        value_dim=inner // value_heads,
        conv_width=conv,
    )
