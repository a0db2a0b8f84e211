"""The tensor types of GGML and ik_llama.cpp, and named mixes of them.

How many bytes a row of weights has: GGML's types are those of ``ggml.h`` and ``ggml-common.h``
(numbers that are missing were taken out of the format), ik_llama.cpp's of its own ``ggml.h`` and
the traits in its ``ggml.c``. Left out are types of activations (Q8_1, Q8_K), those for BitNet, and
repackings of llama.cpp, which no file holds any more.

**Mixes**: what ``llama-quantize`` makes of a model has a name. A file called Q4_K_M is a mix: most
matrices are Q4_K, some have more bits. The rules are those of ``llama_tensor_get_type_impl`` and
``tensor_type_fallback`` in ggml-org/llama.cpp, ``src/llama-quant.cpp`` (commit 007dbbf), and of
``llama_tensor_get_type`` in ikawrakow/ik_llama.cpp, ``src/llama-quantize.cpp`` (commit 8337e4c),
for models with experts. I-quants are taken to be made with an importance matrix, all others
without.
"""

import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from moeopt.sim.models.attention import (
    Attention,
    AttentionByLayer,
    GroupedQuery,
    HybridAttention,
    LatentAttention,
)
from moeopt.sim.models.model_shape import ModelShape, TensorKind


@dataclass(frozen=True)
class TensorType:
    """A block of `weights` numbers takes `size` bytes, and each row `row_bytes` more."""

    name: str
    weights: int
    size: int
    row_bytes: int = 0

    def row_size(self, weights: int) -> int | None:
        """Return the bytes of a row, or None if it is no whole number of blocks."""
        blocks, rest = divmod(weights, self.weights)
        return None if rest else blocks * self.size + self.row_bytes


DATA = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

TYPES = {number: TensorType(name, *sizes) for name, (number, *sizes) in DATA["types"].items()}
"""A tensor's type in the file -> what it is."""

BY_NAME = {kind.name: kind for kind in TYPES.values()}


@dataclass(frozen=True)
class Matrix:
    """A matrix, or those of a layer's experts together.

    Attributes
    ----------
    name
        Within its layer, as ``gguf-py/gguf/constants.py`` calls it, e.g. ``ffn_down_exps``.
    layer
        Counted from 0; None for embedding and head.
    columns
        Weights of a row: what a quantised type's blocks must divide.
    weights
        All weights.
    """

    name: str
    kind: TensorKind
    layer: int | None
    columns: int
    weights: int


def matrices(model: ModelShape) -> Iterator[Matrix]:
    """Yield all matrices, layer by layer; norms and biases are left out.

    Raises
    ------
    InputError
        If the shape lacks one of the sizes.
    """
    hidden = model.hidden_size
    if embedding := model.weights_of("embedding"):
        yield Matrix("token_embd", "embedding", None, hidden, embedding)
    with_experts = set(model.moe_layers)
    for layer in range(model.layers):
        for name, columns, rows in _attention(model, layer):
            yield Matrix(name, "attention", layer, columns, columns * rows)
        if layer not in with_experts:
            yield from _feed_forward(model, "", "dense", layer, hidden, model.dense_weights)
            continue
        router = hidden * model.routed_experts
        yield Matrix("ffn_gate_inp", "router", layer, hidden, router)
        routed = model.routed_experts * model.expert_weights
        latent = model.expert_hidden_size
        yield from _feed_forward(
            *(model, "_exps", "experts", layer, latent or hidden, routed),
            model.expert_intermediate_size,
        )
        if latent:
            yield Matrix("ffn_latent_down", "shared", layer, hidden, hidden * latent)
            yield Matrix("ffn_latent_up", "shared", layer, latent, hidden * latent)
        shared = model.shared_weights - 2 * hidden * (latent or 0)
        yield from _feed_forward(model, "_shexp", "shared", layer, hidden, shared)
    yield Matrix("output", "head", None, hidden, model.weights_of("head"))


def _feed_forward(
    model: ModelShape,
    suffix: str,
    kind: TensorKind,
    layer: int,
    hidden: int,
    weights: int,
    width: int | None = None,
) -> Iterator[Matrix]:
    """Yield down, gate (if there is one) and up, of as many weights each."""
    each = weights // model.matrices
    if not each:
        return
    yield Matrix(f"ffn_down{suffix}", kind, layer, width or each // hidden, each)
    if model.matrices == 3:
        yield Matrix(f"ffn_gate{suffix}", kind, layer, hidden, each)
    yield Matrix(f"ffn_up{suffix}", kind, layer, hidden, each)


def _attention(model: ModelShape, layer: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, columns and rows of a layer's attention, in the order of their names."""
    model.weights_of("attention")  # refuses a shape without attention
    shape: Attention | None = model.attention
    hidden = model.hidden_size
    if shape is None:
        return
    if isinstance(shape, AttentionByLayer):
        for matrix in sorted(shape.of_layer(layer).matrices, key=lambda matrix: matrix.name):
            yield matrix.name, matrix.columns, matrix.rows
        return
    if isinstance(shape, LatentAttention):
        query = shape.heads * (shape.nope_dim + shape.rope_dim)
        yield "attn_k_b", shape.nope_dim, shape.heads * shape.kv_rank
        yield "attn_kv_a_mqa", hidden, shape.kv_rank + shape.rope_dim
        yield "attn_output", shape.heads * shape.value_dim, hidden
        if shape.query_rank:
            yield "attn_q_a", hidden, shape.query_rank
            yield "attn_q_b", shape.query_rank, query
        else:
            yield "attn_q", hidden, query
        yield "attn_v_b", shape.kv_rank, shape.heads * shape.value_dim
        if shape.index_heads and shape.index_dim:
            query = shape.index_heads * shape.index_dim
            yield "indexer.attn_k", hidden, shape.index_dim
            yield "indexer.attn_q_b", shape.query_rank or hidden, query
            yield "indexer.proj", hidden, shape.index_heads
        return
    gate = 0
    if not isinstance(shape, GroupedQuery):
        if (layer + 1) % shape.full_every:
            keys, values = shape.key_heads * shape.key_dim, shape.value_heads * shape.value_dim
            yield "attn_gate", hidden, values
            yield "attn_qkv", hidden, 2 * keys + values
            yield "ssm_ba", hidden, 2 * shape.value_heads
            yield "ssm_conv1d", shape.conv_width, 2 * keys + values
            yield "ssm_out", values, hidden
            return
        gate = shape.heads
    yield "attn_k", hidden, shape.kv_heads * shape.head_dim
    yield "attn_output", shape.heads * shape.head_dim, hidden
    yield "attn_q", hidden, (shape.heads + gate) * shape.head_dim
    yield "attn_v", hidden, shape.kv_heads * shape.head_dim


@dataclass(frozen=True)
class Place:
    """Where a matrix stands: in layer `layer` of `layers`, the `nth` of its sort in the file."""

    layer: int
    layers: int
    nth: int
    model: ModelShape

    @property
    def queries_per_key(self) -> int:
        """Query heads that share a key head."""
        shape = self.model.attention
        if isinstance(shape, GroupedQuery | HybridAttention):
            return shape.heads // shape.kv_heads
        if isinstance(shape, AttentionByLayer):
            return shape.of_layer(self.layer).queries_per_key
        return 1


def _more(layer: int, layers: int) -> bool:
    """Return whether a layer is of the first or last eighth, or every third between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


WHERE: dict[str, Callable[[Place], bool]] = {
    "everywhere": lambda _: True,
    "more bits": lambda at: _more(at.layer, at.layers),
    "more bits of 8 experts": lambda at: (
        at.model.routed_experts == 8 and _more(at.layer, at.layers)
    ),
    "first layer": lambda at: at.layer == 0,
    "first 2": lambda at: at.nth < 2,
    "first 4": lambda at: at.nth < 4,
    "first of an eighth": lambda at: at.nth < at.layers // 8,
    "first eighth": lambda at: at.layer < at.layers // 8,
    "first sixteenth": lambda at: at.layer < at.layers // 16,
    "middle": lambda at: at.layers // 8 <= at.layer < 7 * at.layers // 8,
    "4 queries a key": lambda at: at.queries_per_key >= 4,
    "8 experts": lambda at: at.model.routed_experts == 8,
    "other than 8 experts": lambda at: at.model.routed_experts != 8,
}
"""Where a rule holds; `nth` counts the matrices of a sort in the order of the file."""

NEVER = ("ffn_gate_inp", "ssm_conv1d", "shortconv.conv")
"""Matrices that stay F32 in every file."""


@dataclass(frozen=True)
class Mix:
    """What type a matrix gets: the first of `rules` that fits, else `base`.

    `embedding` is by default the base, too. A rule says sort of matrix, where, and its type.
    """

    base: str
    head: str
    embedding: str | None = None
    rules: Sequence[tuple[str, str, str]] = ()


SORTS: dict[str, list[str]] = DATA["sorts"]
"""Sort of matrices that rules speak of -> their names."""

MIXES = {name: Mix(**given) for name, given in DATA["mixes"].items()}
"""Name of a file's type, as ``llama-quantize`` takes it -> the types of its matrices."""


def type_of(mix: Mix, matrix: Matrix, at: Place) -> TensorType:
    """Return the type that a matrix gets in a mix."""
    if matrix.name in NEVER:
        return BY_NAME["F32"]
    if matrix.kind == "head":
        name = mix.head
    elif matrix.kind == "embedding":
        name = mix.embedding or mix.base
    else:
        fits = (
            kind
            for sort, where, kind in mix.rules
            if matrix.name in SORTS[sort] and WHERE[where](at)
        )
        name = next(fits, mix.base)
    return _dividing(BY_NAME[name], matrix.columns)


def _dividing(kind: TensorType, columns: int) -> TensorType:
    """Return a type whose blocks divide a row of so many weights."""
    if columns % kind.weights == 0:
        return kind
    other = BY_NAME[DATA["fallbacks"].get(kind.name, "IQ4_NL")]
    return other if columns % other.weights == 0 else BY_NAME["F16"]
