"""Attention shapes: what a layer's attention weighs and what a token leaves in the KV cache."""

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, absent, field_error

Size = Annotated[int, Field(strict=True, ge=1, le=2**24)]
Rank = Annotated[int, Field(strict=True, ge=0, le=2**24)]
Layer = Annotated[int, Field(strict=True, ge=0, le=2**16)]


class GroupedQuery(Frozen):
    """Grouped-query attention; with as many KV heads as heads it is multi-head attention.

    Parameters
    ----------
    heads, kv_heads
        Query heads, and key/value heads shared by groups of them.
    head_dim
        Width of a head.
    window, full_every
        Every `full_every`-th layer sees all tokens, the others the last `window` (gpt-oss: 128,
        every second); without a window all layers see all.
    """

    kind: Literal["grouped_query"] = "grouped_query"
    heads: Size
    kv_heads: Size
    head_dim: Size
    window: Size | None = None
    full_every: Size = 1

    @field_validator("kv_heads")
    @classmethod
    def _heads_form_groups(cls, kv_heads: int, info: ValidationInfo) -> int:
        heads = info.data.get("heads")
        if heads is not None and heads % kv_heads:
            raise field_error([], f"must divide heads = {heads}, not {kv_heads}")
        return kv_heads

    def weights(self, hidden_size: int) -> int:
        """Weights of the query, key, value and output projections."""
        return 2 * hidden_size * (self.heads + self.kv_heads) * self.head_dim

    def kv_values(self, context: int) -> int:
        """Numbers in the KV cache of one layer after `context` tokens, the mean over the layers."""
        return math.ceil(2 * self.kv_heads * self.head_dim * self._tokens(context))

    def value_share(self, context: int) -> float:
        """Share of the values, beside the keys, in the KV cache after `context` tokens."""
        return 0.5

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer, the mean over the layers."""
        return 2 * self.heads * self.head_dim * self._tokens(context)

    def _tokens(self, context: int) -> float:
        seen = context if self.window is None else min(context, self.window)
        return (context + (self.full_every - 1) * seen) / self.full_every


class LatentAttention(Frozen):
    """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).

    Parameters
    ----------
    heads
        Heads.
    query_rank
        Rank of the compressed query; 0 if the query is not compressed (DeepSeek-V2-Lite).
    kv_rank
        Rank of the compressed key and value.
    nope_dim, rope_dim, value_dim
        A head's width without and with rotary position, and that of its value.
    index_heads, index_dim
        Heads and width of the indexer of sparse attention (DeepSeek-V3.2); its key is cached, too.
    """

    kind: Literal["latent"] = "latent"
    heads: Size
    query_rank: Rank
    kv_rank: Size
    nope_dim: Size
    rope_dim: Size
    value_dim: Size
    index_heads: Annotated[Size | None, Field(exclude_if=absent)] = None
    index_dim: Annotated[Size | None, Field(exclude_if=absent)] = None

    def weights(self, hidden_size: int) -> int:
        """Weights of the query, compressed key/value and output projections, and the indexer."""
        query_width = self.heads * (self.nope_dim + self.rope_dim)
        if self.query_rank:
            query = self.query_rank * (hidden_size + query_width)
        else:
            query = hidden_size * query_width
        compress = hidden_size * (self.kv_rank + self.rope_dim)
        expand = self.kv_rank * self.heads * (self.nope_dim + self.value_dim)
        output = self.heads * self.value_dim * hidden_size
        return query + compress + expand + output + self._indexer(hidden_size)

    def _indexer(self, hidden_size: int) -> int:
        heads, width = self.index_heads or 0, self.index_dim or 0
        query = (self.query_rank or hidden_size) * heads * width
        return query + hidden_size * (width + heads)

    def kv_values(self, context: int) -> int:
        """Numbers in the KV cache of one layer after `context` tokens."""
        return (self.kv_rank + self.rope_dim + (self.index_dim or 0)) * context

    def value_share(self, context: int) -> float:
        """Share of the values in the KV cache: none, they are made from the keys."""
        return 0.0

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer: all heads share its cache."""
        return self.heads * (2 * self.kv_rank + self.rope_dim) * context


class HybridAttention(Frozen):
    """Gated attention in every `full_every`-th layer, Gated DeltaNet in the others (Qwen3-Next).

    What it gives is the mean over the layers, so that all layers together have the right sum. The
    state of a DeltaNet layer does not grow with the context and is left out.

    Parameters
    ----------
    heads, kv_heads, head_dim
        Of the layers with attention; a gate as wide as the queries is projected beside them.
    full_every
        How many layers there are for one with attention.
    key_heads, key_dim, value_heads, value_dim
        Heads of the DeltaNet layers and their widths.
    conv_width
        Tokens that its short convolution sees.
    """

    kind: Literal["hybrid"] = "hybrid"
    heads: Size
    kv_heads: Size
    head_dim: Size
    full_every: Size
    key_heads: Size
    key_dim: Size
    value_heads: Size
    value_dim: Size
    conv_width: Size

    @property
    def linear_share(self) -> float:
        """Share of the layers that have no attention."""
        return 1 - 1 / self.full_every

    def weights(self, hidden_size: int) -> int:
        """Weights of a layer's projections and its convolution, the mean over the layers."""
        full = hidden_size * (3 * self.heads + 2 * self.kv_heads) * self.head_dim
        keys, values = self.key_heads * self.key_dim, self.value_heads * self.value_dim
        linear = (
            hidden_size * (2 * keys + 2 * values)  # query, key, value and output gate
            + hidden_size * 2 * self.value_heads  # decay and learning rate
            + values * hidden_size
            + self.conv_width * (2 * keys + values)
        )
        return math.ceil((full + (self.full_every - 1) * linear) / self.full_every)

    def kv_values(self, context: int) -> int:
        """Numbers in the KV cache of one layer after `context` tokens, the mean over the layers."""
        return math.ceil(2 * self.kv_heads * self.head_dim * context / self.full_every)

    def value_share(self, context: int) -> float:
        """Share of the values, beside the keys, in the KV cache after `context` tokens."""
        return 0.5

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer, the mean over the layers."""
        return 2 * self.heads * self.head_dim * context / self.full_every


Mixer = Literal["full", "window", "latent", "compressed", "linear", "mamba", "conv", "none"]
"""What mixes the tokens in a layer: attention to all of them, to the last ones, with a compressed
key, to means of several; a recurrence, a convolution, or nothing."""

RECURRENT: tuple[Mixer, ...] = ("linear", "mamba", "conv")


class Projection(Frozen):
    """A matrix of a layer's attention, called as in llama.cpp's files.

    Parameters
    ----------
    name
        Within its layer, e.g. ``attn_q``.
    columns, rows
        Numbers that go in and come out.
    """

    name: Annotated[str, Field(pattern=r"^[a-z0-9_.]{1,64}$")]
    columns: Size
    rows: Size


class LayerGroup(Frozen):
    """Layers that mix tokens in the same way and with the same sizes.

    Parameters
    ----------
    layers
        Their numbers, counted from 0.
    mixer
        What mixes the tokens.
    matrices
        All its matrices; what stands in a file less norms and biases.
    queries_per_key
        Query heads that share a key head.
    cache_values, score_products
        Numbers that a token leaves in the cache, and multiplications of one token with each token
        in it.
    window
        Tokens that are kept; all, if there is none.
    compressed_every, compressed_values
        So many tokens leave one entry of so many numbers beside the window (DeepSeek-V4).
    """

    layers: Annotated[tuple[Layer, ...], Field(min_length=1, max_length=2**16)]
    mixer: Mixer
    matrices: Annotated[tuple[Projection, ...], Field(max_length=64)] = ()
    queries_per_key: Size = 1
    cache_values: Rank = 0
    score_products: Annotated[int, Field(strict=True, ge=0, le=2**40)] = 0
    window: Size | None = None
    compressed_every: Size | None = None
    compressed_values: Rank = 0

    @property
    def weights(self) -> int:
        """Weights of one layer."""
        return sum(matrix.columns * matrix.rows for matrix in self.matrices)

    def kv_values(self, context: int) -> int:
        """Numbers in the cache of one layer after `context` tokens."""
        kept = context if self.window is None else min(context, self.window)
        every = self.compressed_every
        entries = context // every if every else 0
        return self.cache_values * kept + self.compressed_values * entries

    @property
    def value_share(self) -> float:
        """Share of the values in the cache, beside the keys; 0 if they are made from the keys."""
        if self.mixer not in ("full", "window") or not self.cache_values:
            return 0.0
        keys = [matrix.rows for matrix in self.matrices if matrix.name == "attn_k"]
        return 1 - keys[0] / self.cache_values if keys else 0.5

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer."""
        kept = context if self.window is None else min(context, self.window)
        every = self.compressed_every
        return float(self.score_products) * (kept + (context / every if every else 0))


class AttentionByLayer(Frozen):
    """Layers that differ in their attention or have none; what it gives is the mean over them.

    The state of a recurrence does not grow with the context and is left out of the cache.

    Parameters
    ----------
    heads
        Query heads of the layers with attention, for messages and estimates.
    groups
        Groups of layers; every layer is in one of them.
    """

    kind: Literal["by_layer"] = "by_layer"
    heads: Size
    groups: Annotated[tuple[LayerGroup, ...], Field(min_length=1, max_length=2**12)]

    @field_validator("groups")
    @classmethod
    def _every_layer_is_in_one(cls, groups: tuple[LayerGroup, ...]) -> tuple[LayerGroup, ...]:
        numbers = sorted(layer for group in groups for layer in group.layers)
        if numbers != list(range(len(numbers))):
            raise field_error([], "must have every layer once, counted from 0")
        return groups

    @property
    def layers(self) -> int:
        """Number of layers."""
        return sum(len(group.layers) for group in self.groups)

    @property
    def linear_share(self) -> float:
        """Share of the layers that have a recurrence or convolution in place of attention."""
        return sum(len(g.layers) for g in self.groups if g.mixer in RECURRENT) / self.layers

    def all_kv_values(self, context: int) -> int:
        """Numbers in the KV cache of all layers after `context` tokens."""
        return sum(len(group.layers) * group.kv_values(context) for group in self.groups)

    def value_share(self, context: int) -> float:
        """Share of the values, beside the keys, in the KV cache after `context` tokens."""
        kept = [len(group.layers) * group.kv_values(context) for group in self.groups]
        values = (size * group.value_share for size, group in zip(kept, self.groups, strict=True))
        return sum(values) / max(1, sum(kept))

    def of_layer(self, layer: int) -> LayerGroup:
        """Return the group that a layer is in."""
        return next(group for group in self.groups if layer in group.layers)

    def weights(self, hidden_size: int) -> int:
        """Weights of a layer's matrices, the mean over the layers."""
        total = sum(len(group.layers) * group.weights for group in self.groups)
        return math.ceil(total / self.layers)

    def kv_values(self, context: int) -> int:
        """Numbers in the KV cache of one layer after `context` tokens, the mean over the layers."""
        return math.ceil(self.all_kv_values(context) / self.layers)

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer, the mean over the layers."""
        total = sum(len(group.layers) * group.products(context) for group in self.groups)
        return total / self.layers


Attention = Annotated[
    GroupedQuery | LatentAttention | HybridAttention | AttentionByLayer,
    Field(discriminator="kind"),
]
