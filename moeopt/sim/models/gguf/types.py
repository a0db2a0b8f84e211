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

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from moeopt.sim.models.attention import Attention, GroupedQuery, HybridAttention, LatentAttention
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


BY_NAME = {kind.name: kind for kind in TYPES.values()}


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

SORTS: dict[str, tuple[str, ...]] = {
    "value": ("attn_v", "attn_qkv"),
    "key": ("attn_k",),
    "query": ("attn_q",),
    "out": ("attn_output",),
    "down": ("ffn_down", "ffn_down_exps", "ffn_down_shexp"),
    "gate and up": (
        *("ffn_gate", "ffn_gate_exps", "ffn_gate_shexp"),
        *("ffn_up", "ffn_up_exps", "ffn_up_shexp"),
    ),
    "routed": ("ffn_down_exps", "ffn_gate_exps", "ffn_up_exps"),
    "shared": ("ffn_down_shexp", "ffn_gate_shexp", "ffn_up_shexp"),
    "latent key": ("attn_k", "attn_kv_a_mqa", "attn_k_b"),
    "any query": ("attn_q", "attn_q_a", "attn_q_b"),
}
"""Sorts of matrices that rules speak of; the last two are ik_llama.cpp's."""

Rule = tuple[str, str, str]
"""Sort of matrix, where, and its type; the first rule that fits counts."""

NEVER = ("ffn_gate_inp", "ssm_conv1d")
"""Matrices that stay F32 in every file."""

EIGHT: tuple[Rule, ...] = (("value", "8 experts", "Q8_0"), ("key", "8 experts", "Q8_0"))
OUT: Rule = ("out", "8 experts", "Q5_K")


@dataclass(frozen=True)
class Mix:
    """What type a matrix gets: the first of `rules` that fits, else `base`.

    `embedding` is by default the base, too.
    """

    base: str
    head: str = "Q6_K"
    embedding: str | None = None
    rules: tuple[Rule, ...] = EIGHT


def _low(base: str, down: str, out: tuple[Rule, ...], embedding: str) -> Mix:
    """Return a mix of llama.cpp with about two bits or fewer."""
    rules: tuple[Rule, ...] = (
        ("value", "everywhere", "Q4_K"),
        ("key", "8 experts", "Q4_K"),
        ("down", "first of an eighth", down),
        OUT,
        *out,
    )
    return Mix(base, "Q5_K", embedding, rules)


def _ik(base: str, head: str = "Q6_K", out: str = "Q5_K", *rules: Rule) -> Mix:
    """Return a mix of ik_llama.cpp for models with four experts or more."""
    keys: tuple[Rule, ...] = (("value", "everywhere", "Q8_0"), ("latent key", "everywhere", "Q8_0"))
    return Mix(base, head, None, (*rules, *keys, ("out", "everywhere", out)))


def _ik_low(base: str, embedding: str | None, down: str) -> Mix:
    """Return a mix of ik_llama.cpp with two bits or fewer, for models with eight experts or more.

    The first layer is told before the shared experts, as in the source.
    """
    rules: tuple[Rule, ...] = (
        ("value", "everywhere", "IQ4_K"),
        ("latent key", "everywhere", "Q4_K"),
        ("down", "first layer", "IQ3_K"),
        ("gate and up", "first layer", "IQ3_K"),
        ("any query", "everywhere", "Q4_K"),
        ("shared", "everywhere", "IQ4_K"),
        ("down", "first eighth", down),
        ("out", "everywhere", "Q5_K"),
    )
    return Mix(base, "Q5_K", embedding, rules)


IQ1_OUT: tuple[Rule, ...] = (("out", "everywhere", "IQ2_XXS"),)
IQ2_OUT: tuple[Rule, ...] = (("out", "everywhere", "IQ3_S"),)

MIXES: dict[str, Mix] = {
    "Q4_0": Mix("Q4_0"),
    "Q4_1": Mix("Q4_1"),
    "Q5_0": Mix("Q5_0"),
    "Q5_1": Mix("Q5_1"),
    "Q8_0": Mix("Q8_0", head="Q8_0"),
    "Q2_K": Mix(
        "Q2_K",
        rules=(
            *EIGHT,
            OUT,
            ("value", "4 queries a key", "Q4_K"),
            ("value", "everywhere", "Q3_K"),
            ("down", "everywhere", "Q3_K"),
            ("out", "everywhere", "Q3_K"),
        ),
    ),
    "Q2_K_S": Mix(
        "Q2_K",
        rules=(*EIGHT, ("value", "4 queries a key", "Q4_K"), ("down", "first eighth", "Q4_K")),
    ),
    "Q3_K_S": Mix("Q3_K", rules=(*EIGHT, OUT)),
    "Q3_K_M": Mix(
        "Q3_K",
        rules=(
            *EIGHT,
            OUT,
            ("value", "first 2", "Q5_K"),
            ("value", "everywhere", "Q4_K"),
            ("down", "first sixteenth", "Q5_K"),
            ("down", "everywhere", "Q4_K"),
            ("out", "everywhere", "Q4_K"),
        ),
    ),
    "Q3_K_L": Mix(
        "Q3_K",
        rules=(
            *EIGHT,
            ("value", "everywhere", "Q5_K"),
            ("down", "everywhere", "Q5_K"),
            ("out", "other than 8 experts", "Q5_K"),
        ),
    ),
    "Q4_K_S": Mix(
        "Q4_K",
        rules=(*EIGHT, OUT, ("value", "first 4", "Q5_K"), ("down", "first eighth", "Q5_K")),
    ),
    "Q4_K_M": Mix(
        "Q4_K",
        rules=(*EIGHT, OUT, ("value", "more bits", "Q6_K"), ("down", "more bits", "Q6_K")),
    ),
    "Q5_K_S": Mix("Q5_K"),
    "Q5_K_M": Mix(
        "Q5_K",
        rules=(*EIGHT, ("value", "more bits", "Q6_K"), ("down", "more bits", "Q6_K")),
    ),
    "Q6_K": Mix("Q6_K"),
    "IQ1_S": _low("IQ1_S", "Q2_K", IQ1_OUT, "Q2_K"),
    "IQ1_M": _low("IQ1_M", "Q2_K", IQ1_OUT, "Q2_K"),
    "IQ2_XXS": _low("IQ2_XXS", "Q2_K", (), "Q2_K"),
    "IQ2_XS": _low("IQ2_XS", "Q2_K", (), "Q2_K"),
    "IQ2_S": _low("IQ2_XS", "IQ3_S", IQ2_OUT, "IQ3_S"),
    "IQ2_M": _low("IQ2_S", "IQ3_S", IQ2_OUT, "IQ3_S"),
    "IQ3_XXS": Mix(
        "IQ3_XXS",
        head="Q5_K",
        embedding="IQ3_S",
        rules=(
            *EIGHT,
            OUT,
            ("value", "4 queries a key", "Q4_K"),
            ("key", "everywhere", "IQ2_S"),
            ("query", "everywhere", "IQ2_S"),
            ("out", "everywhere", "IQ3_S"),
        ),
    ),
    "IQ3_XS": Mix(
        "IQ3_S",
        rules=(
            *EIGHT,
            OUT,
            ("value", "4 queries a key", "Q4_K"),
            ("key", "everywhere", "IQ3_XXS"),
            ("query", "everywhere", "IQ3_XXS"),
            ("gate and up", "middle", "IQ3_XXS"),
        ),
    ),
    "IQ3_S": Mix("IQ3_S", rules=(*EIGHT, OUT, ("value", "4 queries a key", "Q4_K"))),
    "IQ3_M": Mix(
        "IQ3_S",
        rules=(
            *EIGHT,
            OUT,
            ("value", "everywhere", "Q4_K"),
            ("down", "first eighth", "Q4_K"),
            ("down", "more bits of 8 experts", "Q4_K"),
            ("out", "everywhere", "Q4_K"),
        ),
    ),
    "IQ4_XS": Mix("IQ4_XS", rules=(*EIGHT, OUT, ("value", "4 queries a key", "Q5_K"))),
    "IQ4_NL": Mix("IQ4_NL", rules=(*EIGHT, OUT, ("value", "4 queries a key", "Q5_K"))),
    "MXFP4_MOE": Mix("Q8_0", head="Q8_0", rules=(("routed", "everywhere", "MXFP4"),)),
    "IQ2_KS": Mix(
        "IQ2_KS",
        head="Q5_K",
        rules=(
            ("value", "everywhere", "IQ4_K"),
            ("latent key", "everywhere", "Q4_K"),
            ("any query", "everywhere", "Q4_K"),
            ("down", "first of an eighth", "Q2_K"),
            ("out", "everywhere", "Q5_K"),
        ),
    ),
    "IQ1_S_R4": _ik_low("IQ1_S_R4", "Q2_K", "Q2_K"),
    "IQ1_M_R4": _ik_low("IQ1_M_R4", "Q2_K", "Q2_K"),
    "IQ1_KT": _ik("IQ1_KT", "Q5_K", "IQ1_KT"),
    "IQ2_KT": _ik_low("IQ2_KT", None, "IQ3_K"),
    "IQ3_KT": replace(_ik("IQ3_KT", "Q5_K"), embedding="IQ3_S"),
    "IQ4_KT": _ik("IQ4_KT", "Q6_K", "IQ4_KT"),
    "IQ2_K": _ik("IQ2_K", "Q5_K"),
    "IQ2_KL": _ik("IQ2_KL", "Q5_K", "IQ4_KS"),
    "IQ3_KS": _ik("IQ3_KS", "Q5_K"),
    "IQ3_K": _ik("IQ3_K", "Q5_K"),
    "IQ4_KSS": _ik("IQ4_KSS"),
    "IQ4_KS": _ik("IQ4_KS"),
    "IQ4_K": _ik("IQ4_K"),
    "IQ5_KS": _ik("IQ5_KS"),
    "IQ5_K": _ik("IQ5_K", "Q6_K", "IQ5_K"),
    "IQ6_K": _ik("IQ6_K", "IQ6_K", "IQ6_K"),
}
"""Name of a file's type, as ``llama-quantize`` takes it -> the types of its matrices."""

FALLBACKS = {
    **dict.fromkeys(("Q2_K", "Q3_K"), "Q4_0"),
    **{"Q4_K": "Q5_0", "Q5_K": "Q5_1", "Q6_K": "Q8_0"},
    **{"IQ4_K": "Q5_0", "IQ5_KS": "Q5_0", "IQ5_K": "Q6_0", "IQ6_K": "Q8_0"},
}
"""What a type becomes whose blocks do not divide a row, if it is not IQ4_NL."""


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
    other = BY_NAME[FALLBACKS.get(kind.name, "IQ4_NL")]
    return other if columns % other.weights == 0 else BY_NAME["F16"]
