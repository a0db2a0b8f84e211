"""The attention of a ``config.json``."""

from pydantic import ValidationError

from moeopt.problems.wording import describe
from moeopt.sim.attention import Attention, GroupedQuery, LatentAttention
from moeopt.sim.hf_config.keys import Keys

_KEYS = {
    "heads": "num_attention_heads",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "kv_rank": "kv_lora_rank",
    "query_rank": "q_lora_rank",
    "nope_dim": "qk_nope_head_dim",
    "rope_dim": "qk_rope_head_dim",
    "value_dim": "v_head_dim",
}


def attention(keys: Keys) -> Attention | None:
    """Return the attention's shape, or None if the configuration gives no heads.

    `kv_lora_rank` marks latent attention. Otherwise `num_key_value_heads` is by default as many as
    there are heads, and `head_dim` the hidden size over the heads, as in transformers.
    """
    heads = keys.optional((_KEYS["heads"],))
    if heads is None:
        return None
    if keys.has("kv_lora_rank"):
        return LatentAttention(
            heads=heads,
            query_rank=keys.optional((_KEYS["query_rank"],), least=0) or 0,
            kv_rank=keys.number((_KEYS["kv_rank"],)),
            nope_dim=keys.number((_KEYS["nope_dim"],)),
            rope_dim=keys.number((_KEYS["rope_dim"],)),
            value_dim=keys.number((_KEYS["value_dim"],)),
        )
    head_dim = keys.optional((_KEYS["head_dim"],))
    hidden = keys.number(("hidden_size",))
    if head_dim is None and hidden % heads:
        keys.fail((_KEYS["heads"],), f"must divide hidden_size = {hidden}, not {heads}")
    try:
        return GroupedQuery(
            heads=heads,
            kv_heads=keys.optional((_KEYS["kv_heads"],)) or heads,
            head_dim=head_dim or hidden // heads,
        )
    except ValidationError as error:
        field, _, reason = describe(error).partition(": ")
        keys.fail((_KEYS.get(field, field),), reason)
