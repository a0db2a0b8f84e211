"""Matrices and cache of one layer by what mixes its tokens: attention, recurrences, convolutions.

Names of matrices are those of llama.cpp's files (``gguf-py/gguf/constants.py``), where it has them.
Projections of parts that it does not have (Kimi's decay, DeepSeek-V4's compression) have names of
the same form.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from moeopt.sim.models.attention import LayerGroup, Mixer, Projection

Matrices = tuple[Projection, ...]


@dataclass(frozen=True)
class Mixing:
    """What mixes the tokens of a layer: all of a `LayerGroup` but which layers it is."""

    mixer: Mixer
    matrices: Matrices = ()
    queries_per_key: int = 1
    cache_values: int = 0
    score_products: int = 0
    window: int | None = None
    compressed_every: int | None = None
    compressed_values: int = 0

    def group(self, layers: Sequence[int]) -> LayerGroup:
        """Return the group of these layers."""
        fields: dict[str, Any] = dict(vars(self))
        return LayerGroup(layers=tuple(layers), **fields)


def matrix(name: str, columns: int, rows: int) -> Projection:
    """Return a matrix from `columns` to `rows` numbers."""
    return Projection(name=name, columns=columns, rows=rows)


NONE = Mixing("none")
"""A layer that has only a feed-forward part (Nemotron-H)."""


@dataclass(frozen=True)
class Heads:
    """Sizes of attention with grouped queries.

    Attributes
    ----------
    value_dim
        Width of a value's head.
    gate_width
        Numbers of a gate that is projected beside the queries.
    shared_query
        Rank of a compressed query (Step-3), or 0.
    values_are_keys
        Whether there is no matrix for the values (Gemma-4); the cache has both.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    gate_width: int = 0
    shared_query: int = 0
    values_are_keys: bool = False

    def mixing(self, hidden: int, window: int | None = None) -> Mixing:
        """Return the layer, with a window or without."""
        keys, values = self.kv_heads * self.head_dim, self.kv_heads * self.value_dim
        query = self.heads * self.head_dim
        found = [matrix("attn_k", hidden, keys)]
        found.append(matrix("attn_output", self.heads * self.value_dim, hidden))
        if self.shared_query:
            found.append(matrix("attn_q_a", hidden, self.shared_query))
            found.append(matrix("attn_q_b", self.shared_query, query))
        else:
            found.append(matrix("attn_q", hidden, query))
        if not self.values_are_keys:
            found.append(matrix("attn_v", hidden, values))
        if self.gate_width:
            found.append(matrix("attn_gate", hidden, self.gate_width))
        return Mixing(
            "full" if window is None else "window",
            tuple(found),
            self.heads // self.kv_heads,
            keys + values,
            self.heads * (self.head_dim + self.value_dim),
            window,
        )


def delta_net(
    hidden: int, key_heads: int, key_dim: int, value_heads: int, value_dim: int, conv_width: int
) -> Mixing:
    """Return a layer of Gated DeltaNet (Qwen3-Next)."""
    keys, values = key_heads * key_dim, value_heads * value_dim
    return Mixing(
        "linear",
        (
            matrix("attn_gate", hidden, values),
            matrix("attn_qkv", hidden, 2 * keys + values),
            matrix("ssm_ba", hidden, 2 * value_heads),
            matrix("ssm_conv1d", conv_width, 2 * keys + values),
            matrix("ssm_out", values, hidden),
        ),
    )


def kimi_delta(hidden: int, heads: int, head_dim: int, conv: int) -> Mixing:
    """Return a layer of Kimi Delta Attention: decay and gate of the rank of a head."""
    width = heads * head_dim
    return Mixing(
        "linear",
        (
            *(matrix(f"attn_{part}", hidden, width) for part in "qkv"),
            matrix("attn_output", width, hidden),
            matrix("ssm_beta", hidden, heads),
            *(matrix(f"ssm_{part}_a", hidden, head_dim) for part in "fg"),
            *(matrix(f"ssm_{part}_b", head_dim, width) for part in "fg"),
            matrix("ssm_conv1d", conv, 3 * width),
        ),
    )


def lightning(hidden: int, heads: int, kv_heads: int, head_dim: int) -> Mixing:
    """Return a layer of lightning attention with its gate (MiniMax-01, Ling and Ring linear)."""
    width = heads * head_dim
    return Mixing(
        "linear",
        (
            matrix("attn_gate", hidden, width),
            matrix("attn_output", width, hidden),
            matrix("attn_qkv", hidden, width + 2 * kv_heads * head_dim),
        ),
    )


def mamba_1(hidden: int, inner: int, state: int, dt_rank: int, conv: int) -> Mixing:
    """Return a layer of Mamba (Jamba)."""
    return Mixing(
        "mamba",
        (
            matrix("ssm_conv1d", conv, inner),
            matrix("ssm_dt", dt_rank, inner),
            matrix("ssm_in", hidden, 2 * inner),
            matrix("ssm_out", inner, hidden),
            matrix("ssm_x", inner, dt_rank + 2 * state),
        ),
    )


def mamba_2(hidden: int, heads: int, head_dim: int, state: int, groups: int, conv: int) -> Mixing:
    """Return a layer of Mamba-2 (Nemotron-H, Granite-4)."""
    inner, states = heads * head_dim, 2 * groups * state
    return Mixing(
        "mamba",
        (
            matrix("ssm_conv1d", conv, inner + states),
            matrix("ssm_in", hidden, 2 * inner + states + heads),
            matrix("ssm_out", inner, hidden),
        ),
    )


def short_conv(hidden: int, width: int) -> Mixing:
    """Return a layer of gated short convolutions (LFM2)."""
    return Mixing(
        "conv",
        (
            matrix("shortconv.conv", width, hidden),
            matrix("shortconv.in_proj", hidden, 3 * hidden),
            matrix("shortconv.out_proj", hidden, hidden),
        ),
    )


@dataclass(frozen=True)
class Compressed:
    """Sizes of DeepSeek-V4's attention: one key that is the value, too, of the last tokens.

    Beside them stand means of so many tokens each; where few are taken together, an indexer chooses
    among them.
    """

    heads: int
    head_dim: int
    query_rank: int
    output_rank: int
    output_groups: int
    index_heads: int
    index_dim: int
    window: int

    INDEXED = 4
    """So many tokens in an entry, from overlapping halves: those that an indexer chooses among."""

    def mixing(self, hidden: int, every: int) -> Mixing:
        """Return a layer with an entry for each `every` tokens; 0 for none."""
        query, outputs = self.heads * self.head_dim, self.output_groups * self.output_rank
        found = [
            matrix("attn_kv", hidden, self.head_dim),
            matrix("attn_out_a", query // self.output_groups, outputs),
            matrix("attn_out_b", outputs, hidden),
            matrix("attn_q_a", hidden, self.query_rank),
            matrix("attn_q_b", self.query_rank, query),
        ]
        indexed = every == self.INDEXED
        if every:
            twice = 2 if indexed else 1
            found.append(matrix("attn_compress", hidden, 2 * twice * self.head_dim))
        if indexed:
            width = self.index_heads * self.index_dim
            found.append(matrix("indexer.attn_q_b", self.query_rank, width))
            found.append(matrix("indexer.compress", hidden, 4 * self.index_dim))
            found.append(matrix("indexer.proj", hidden, self.index_heads))
        return Mixing(
            "compressed",
            tuple(found),
            self.heads,
            self.head_dim,
            2 * query,
            self.window,
            every or None,
            self.head_dim + (self.index_dim if indexed else 0) if every else 0,
        )


@dataclass(frozen=True)
class Latent:
    """Sizes of latent attention, as in `LatentAttention`."""

    heads: int
    query_rank: int
    kv_rank: int
    nope_dim: int
    rope_dim: int
    value_dim: int
    index_heads: int | None = None
    index_dim: int | None = None

    def mixing(self, hidden: int) -> Mixing:
        """Return the layer."""
        query, cached = self.heads * (self.nope_dim + self.rope_dim), self.kv_rank + self.rope_dim
        found = [
            matrix("attn_k_b", self.nope_dim, self.heads * self.kv_rank),
            matrix("attn_kv_a_mqa", hidden, cached),
            matrix("attn_output", self.heads * self.value_dim, hidden),
            matrix("attn_v_b", self.kv_rank, self.heads * self.value_dim),
        ]
        if self.query_rank:
            found.append(matrix("attn_q_a", hidden, self.query_rank))
            found.append(matrix("attn_q_b", self.query_rank, query))
        else:
            found.append(matrix("attn_q", hidden, query))
        products = self.heads * (cached + self.kv_rank)
        return Mixing("latent", tuple(found), 1, cached, products)
