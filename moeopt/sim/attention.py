"""Attention shapes: what a layer's attention weighs and what a token leaves in the KV cache."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from moeopt.problems.envelope import Frozen, field_error

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
    """

    kind: Literal["grouped_query"] = "grouped_query"
    heads: Size
    kv_heads: Size
    head_dim: Size

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

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that a token leaves in the KV cache of one layer."""
        return 2 * self.kv_heads * self.head_dim


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

    @property
    def kv_values_per_token(self) -> int:
        """Numbers that a token leaves in the KV cache of one layer."""
        return self.kv_rank + self.rope_dim


Attention = Annotated[GroupedQuery | LatentAttention, Field(discriminator="kind")]
