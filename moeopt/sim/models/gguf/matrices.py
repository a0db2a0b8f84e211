"""The matrices of a model shape as llama.cpp has them in a GGUF file: names, rows, kinds."""

from collections.abc import Iterator
from dataclasses import dataclass

from moeopt.sim.models.attention import Attention, GroupedQuery, LatentAttention
from moeopt.sim.models.model_shape import ModelShape, TensorKind


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
