"""Attention shapes: what a layer's attention weighs and what a token leaves in the KV cache."""

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, field_error

Size = Annotated[int, Field(strict=True, ge=1, le=2**24)]
Rank = Annotated[int, Field(strict=True, ge=0, le=2**24)]


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
    """

    kind: Literal["latent"] = "latent"
    heads: Size
    query_rank: Rank
    kv_rank: Size
    nope_dim: Size
    rope_dim: Size
    value_dim: Size

    def weights(self, hidden_size: int) -> int:
        """Weights of the query, compressed key/value and output projections."""
        query_width = self.heads * (self.nope_dim + self.rope_dim)
        if self.query_rank:
            query = self.query_rank * (hidden_size + query_width)
        else:
            query = hidden_size * query_width
        compress = hidden_size * (self.kv_rank + self.rope_dim)
        expand = self.kv_rank * self.heads * (self.nope_dim + self.value_dim)
        return query + compress + expand + self.heads * self.value_dim * hidden_size

    def kv_values(self, context: int) -> int:
        """Numbers in the KV cache of one layer after `context` tokens."""
        return (self.kv_rank + self.rope_dim) * context

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

    def products(self, context: int) -> float:
        """Multiplications of one token with the context in a layer, the mean over the layers."""
        return 2 * self.heads * self.head_dim * context / self.full_every


Attention = Annotated[GroupedQuery | LatentAttention | HybridAttention, Field(discriminator="kind")]
