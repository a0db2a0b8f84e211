"""The tensor types of GGML and ik_llama.cpp: how many bytes a row of weights has.

GGML's are those of ``ggml.h`` and ``ggml-common.h`` (numbers that are missing were taken out of the
format), ik_llama.cpp's of its own ``ggml.h`` and the traits in its ``ggml.c``. Left out are types
of activations (Q8_1, Q8_K), those for BitNet, and repackings of llama.cpp, which no file
holds any more.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from moeopt.sim.models.attention import Attention, GroupedQuery, LatentAttention
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


TYPES = {
    0: TensorType("F32", 1, 4),
    1: TensorType("F16", 1, 2),
    2: TensorType("Q4_0", 32, 18),
    3: TensorType("Q4_1", 32, 20),
    6: TensorType("Q5_0", 32, 22),
    7: TensorType("Q5_1", 32, 24),
    8: TensorType("Q8_0", 32, 34),
    10: TensorType("Q2_K", 256, 84),
    11: TensorType("Q3_K", 256, 110),
    12: TensorType("Q4_K", 256, 144),
    13: TensorType("Q5_K", 256, 176),
    14: TensorType("Q6_K", 256, 210),
    16: TensorType("IQ2_XXS", 256, 66),
    17: TensorType("IQ2_XS", 256, 74),
    18: TensorType("IQ3_XXS", 256, 98),
    19: TensorType("IQ1_S", 256, 50),
    20: TensorType("IQ4_NL", 32, 18),
    21: TensorType("IQ3_S", 256, 110),
    22: TensorType("IQ2_S", 256, 82),
    23: TensorType("IQ4_XS", 256, 136),
    24: TensorType("I8", 1, 1),
    25: TensorType("I16", 1, 2),
    26: TensorType("I32", 1, 4),
    27: TensorType("I64", 1, 8),
    28: TensorType("F64", 1, 8),
    29: TensorType("IQ1_M", 256, 56),
    30: TensorType("BF16", 1, 2),
    34: TensorType("TQ1_0", 256, 54),
    35: TensorType("TQ2_0", 256, 66),
    39: TensorType("MXFP4", 32, 17),
    40: TensorType("NVFP4", 64, 36),
    41: TensorType("Q1_0", 128, 18),
    42: TensorType("Q2_0", 64, 18),
    133: TensorType("Q6_0", 32, 26),
    137: TensorType("IQ2_K", 256, 76),
    138: TensorType("IQ3_K", 256, 110),
    139: TensorType("IQ4_K", 256, 144),
    140: TensorType("IQ5_K", 256, 176),
    141: TensorType("IQ6_K", 256, 212),
    144: TensorType("IQ4_KS", 256, 136, 4),
    145: TensorType("IQ2_KS", 256, 70, 2),
    146: TensorType("IQ4_KSS", 256, 128, 4),
    152: TensorType("IQ5_KS", 256, 168, 4),
    153: TensorType("IQ2_KT", 256, 68, 4),
    154: TensorType("IQ3_KT", 256, 100, 4),
    155: TensorType("IQ4_KT", 256, 128, 4),
    156: TensorType("IQ3_KS", 256, 102, 2),
    157: TensorType("IQ2_KL", 256, 86, 2),
    158: TensorType("IQ1_KT", 256, 56, 4),
}
"""A tensor's type in the file -> what it is; 133 and above are ik_llama.cpp's."""

INTERLEAVED = {
    **{202: "Q4_0_R8", 206: "Q5_0_R4", 208: "Q8_0_R8", 210: "Q2_K_R4", 211: "Q3_K_R4"},
    **{212: "Q4_K_R4", 213: "Q5_K_R4", 214: "Q6_K_R4", 216: "IQ2_XXS_R4", 217: "IQ2_XS_R4"},
    **{218: "IQ3_XXS_R4", 220: "IQ4_NL_R4", 221: "IQ3_S_R4", 222: "IQ2_S_R4", 223: "IQ4_XS_R8"},
    **{230: "BF16_R16", 233: "Q6_0_R4", 337: "IQ2_K_R4", 338: "IQ3_K_R4", 339: "IQ4_K_R4"},
    **{340: "IQ5_K_R4", 344: "IQ4_KS_R4", 352: "IQ5_KS_R4", 353: "MXFP4_R8"},
}
"""ik_llama.cpp's types whose rows are interleaved by 4, 8 or 16: as large as the plain ones."""

_PLAIN = {kind.name: kind for kind in TYPES.values()}

TYPES |= {
    number: replace(_PLAIN[name.rpartition("_R")[0]], name=name)
    for number, name in INTERLEAVED.items()
}
TYPES |= {
    151: TensorType("Q8_KV", 32, 32, 8),
    219: TensorType("IQ1_S_R4", 32, 6, 2),
    229: TensorType("IQ1_M_R4", 32, 7, 2),
    398: TensorType("Q8_KV_R8", 32, 32, 4),
    399: TensorType("Q8_K_R8", 256, 258),
}


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
            dense = model.weights_of("dense") // model.dense_layers
            yield from _feed_forward("", "dense", layer, hidden, dense)
            continue
        router = hidden * model.routed_experts
        yield Matrix("ffn_gate_inp", "router", layer, hidden, router)
        routed = model.routed_experts * model.expert_weights
        yield from _feed_forward(
            "_exps", "experts", layer, hidden, routed, model.expert_intermediate_size
        )
        yield from _feed_forward("_shexp", "shared", layer, hidden, model.shared_weights)
    yield Matrix("output", "head", None, hidden, model.weights_of("head"))


def _feed_forward(
    suffix: str,
    kind: TensorKind,
    layer: int,
    hidden: int,
    weights: int,
    width: int | None = None,
) -> Iterator[Matrix]:
    """Yield down, gate and up, of a third of the weights each."""
    third = weights // 3
    if not third:
        return
    yield Matrix(f"ffn_down{suffix}", kind, layer, width or third // hidden, third)
    yield Matrix(f"ffn_gate{suffix}", kind, layer, hidden, third)
    yield Matrix(f"ffn_up{suffix}", kind, layer, hidden, third)


def _attention(model: ModelShape, layer: int) -> Iterator[tuple[str, int, int]]:
    """Yield name, columns and rows of a layer's attention, in the order of their names."""
    model.weights_of("attention")  # refuses a shape without attention
    shape: Attention | None = model.attention
    hidden = model.hidden_size
    if shape is None:
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
