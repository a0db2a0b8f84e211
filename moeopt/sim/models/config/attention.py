"""Attention of all layers from a ``config.json``: sizes by kind of layer, by the classes' keys."""

from collections import defaultdict
from typing import NoReturn

from pydantic import ValidationError

from moeopt.core.wording import input_error
from moeopt.sim.models.attention import (
    Attention,
    AttentionByLayer,
    GroupedQuery,
    HybridAttention,
    LatentAttention,
    Mixer,
)
from moeopt.sim.models.config.keys import Keys
from moeopt.sim.models.config.layer_kinds import layer_kinds, window
from moeopt.sim.models.mixers import (
    NONE,
    Compressed,
    Heads,
    Latent,
    Mixing,
    delta_net,
    kimi_delta,
    lightning,
    mamba_1,
    mamba_2,
    short_conv,
)

HEADS = ("num_attention_heads", "n_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "num_attention_groups", "kv_n_heads", "num_kv_heads")
HEAD_DIM = ("head_dim", "attention_head_dim")
KEYS_OF = {"heads": HEADS, "kv_heads": KV_HEADS, "head_dim": HEAD_DIM}

MOST_LAYERS = 2**12
"""Most layers of a model whose layers differ."""

INDEX_HEADS, INDEX_DIM = 64, 128
"""Of DeepSeek-V4's indexer, if the file does not say."""

GATED = ("afmoe", "qwen3_next", "qwen3_5", "qwen4_exp")
"""Classes that project a gate as wide as the queries beside them."""


def attention(keys: Keys, layers: int, hidden: int) -> Attention | None:
    """Return the attention's shape, or None if the configuration gives no heads.

    `kv_lora_rank` marks latent attention. Otherwise `num_key_value_heads` is by default as many as
    there are heads, and `head_dim` the hidden size over the heads, as in transformers.

    Raises
    ------
    InputError
        If a size is missing or contradicts another one, or a layer's kind is not known.
    """
    heads = keys.optional(HEADS)
    if heads is None:
        keys.seen |= {*KV_HEADS, *HEAD_DIM}
        return None
    try:
        if keys.has("compress_ratios"):
            return _compressed(keys, layers, hidden, heads)
        kinds = layer_kinds(keys, layers)
        if keys.has("kv_lora_rank"):
            latent = _latent(keys, heads)
            if set(kinds) <= {"full"}:
                return LatentAttention(**vars(latent))
            return _by_layer(keys, heads, kinds, {"full": latent.mixing(hidden)}, hidden)
        return _grouped(keys, kinds, heads, hidden)
    except ValidationError as error:
        _refuse(keys, error)


def _refuse(keys: Keys, error: ValidationError) -> NoReturn:
    found = input_error(error)
    field = found.field or ""
    keys.fail(KEYS_OF.get(field, (field or "num_hidden_layers",)), found.reason)


def _grouped(keys: Keys, kinds: tuple[Mixer, ...], heads: int, hidden: int) -> Attention:
    """Return attention with grouped queries, in all layers or in some."""
    full, seen = _heads(keys, heads, hidden), window(keys) if "window" in kinds else None
    gate = full.gate_width
    usual = GroupedQuery(heads=heads, kv_heads=full.kv_heads, head_dim=full.head_dim)
    every = len(kinds) // max(1, kinds.count("full"))
    regular = kinds.count("full") * every == len(kinds)
    there = set(kinds)
    windowed = _windowed(keys, full)
    full = _global(keys, full, "window" in there)
    same = windowed == full and full.head_dim == full.value_dim
    plain = same and not (gate or full.shared_query or full.values_are_keys)
    if plain and there == {"full"}:
        return usual
    if plain and there == {"full", "window"} and regular:
        if seen is None:
            return usual
        return usual.model_copy(update={"window": seen, "full_every": every})
    if there == {"full", "linear"} and keys.has("linear_num_value_heads"):
        where = tuple("linear" if (at + 1) % every else "full" for at in range(len(kinds)))
        if where == kinds and same and gate == heads * full.head_dim:
            return HybridAttention(
                **{"heads": heads, "kv_heads": full.kv_heads, "head_dim": full.head_dim},
                full_every=every,
                **_delta(keys),
            )
    known = {"full": full.mixing(hidden), "window": windowed.mixing(hidden, seen)}
    return _by_layer(keys, heads, kinds, known, hidden)


def _by_layer(
    keys: Keys,
    heads: int,
    kinds: tuple[Mixer, ...],
    known: dict[str, Mixing],
    hidden: int,
) -> AttentionByLayer:
    if len(kinds) > MOST_LAYERS:
        keys.fail(("num_hidden_layers",), f"must be at most {MOST_LAYERS}, not {len(kinds)}")
    layers: dict[Mixer, list[int]] = defaultdict(list)
    for layer, kind in enumerate(kinds):
        layers[kind].append(layer)
    groups = []
    for kind, own in layers.items():
        mixing = known[kind] if kind in known else _other(keys, kind, heads, hidden)
        groups.append(mixing.group(own))
    return AttentionByLayer(heads=heads, groups=tuple(groups))


def _other(keys: Keys, kind: Mixer, heads: int, hidden: int) -> Mixing:
    """Return what a layer has in place of attention."""
    if kind == "linear":
        return _linear(keys, heads, hidden)
    if kind == "mamba":
        return _mamba(keys, hidden)
    if kind == "conv":
        return short_conv(hidden, keys.optional(("conv_L_cache",)) or 3)
    return NONE


def _latent(keys: Keys, heads: int) -> Latent:
    keys.seen |= {"num_key_value_heads", "qk_head_dim", *HEAD_DIM}
    indexed = keys.has("index_n_heads") and keys.has("index_head_dim")
    return Latent(
        heads=heads,
        query_rank=keys.optional(("q_lora_rank",), least=0) or 0,
        kv_rank=keys.number(("kv_lora_rank",)),
        nope_dim=keys.number(("qk_nope_head_dim",)),
        rope_dim=keys.number(("qk_rope_head_dim",)),
        value_dim=keys.number(("v_head_dim",)),
        index_heads=keys.number(("index_n_heads",)) if indexed else None,
        index_dim=keys.number(("index_head_dim",)) if indexed else None,
    )


def _heads(keys: Keys, heads: int, hidden: int) -> Heads:
    """Return the sizes of layers with attention."""
    head_dim = keys.optional(HEAD_DIM)
    if head_dim is None and hidden % heads:
        keys.fail(HEADS, f"must divide hidden_size = {hidden}, not {heads}")
    width = head_dim or hidden // heads
    return Heads(
        heads=heads,
        kv_heads=keys.optional(KV_HEADS) or heads,
        head_dim=width,
        value_dim=keys.optional(("v_head_dim",)) or width,
        gate_width=_gate(keys, heads, width),
        shared_query=keys.optional(("share_q_dim",)) or 0,
    )


def _gate(keys: Keys, heads: int, head_dim: int) -> int:
    """Return the numbers of a gate that is projected beside the queries."""
    stated, class_has_it = keys.value("attn_output_gate"), keys.model_type.startswith(GATED)
    by_head = [keys.value(key) for key in ("use_head_wise_attn_gate", "head_wise_attn_gate")]
    if any(by_head):
        return heads
    if stated is True or (stated is None and (class_has_it or keys.has("linear_num_value_heads"))):
        return heads * head_dim
    return 0


def _windowed(keys: Keys, usual: Heads) -> Heads:
    """Return the sizes of layers with a window, which have keys of their own in some classes."""
    other = keys.inside("attention_other_setting")
    if other is not None:  # Step-3.5
        kind = other.value("attention_type")
        if kind not in (None, "sliding_attention", "other_attention"):
            other.fail(("attention_type",), "must be sliding_attention")
        kv, width = other.optional(KV_HEADS), other.optional(HEAD_DIM)
        names: tuple[str, ...] = ("num_attention_heads",)
    else:
        kv = keys.optional(("swa_num_key_value_heads",))
        width = keys.optional(("swa_head_dim",))
        names = ("swa_num_attention_heads", "num_sliding_attention_heads")
    heads = (keys if other is None else other).optional(names) or usual.heads
    head_dim = width or usual.head_dim
    value = keys.optional(("swa_v_head_dim",)) or (width or usual.value_dim)
    gate = usual.gate_width // usual.heads * heads
    return Heads(heads, kv or usual.kv_heads, head_dim, value, gate, usual.shared_query)


def _global(keys: Keys, usual: Heads, beside_windows: bool) -> Heads:
    """Return the sizes of layers that see all tokens, beside layers with a window (Gemma-4)."""
    width, same = keys.optional(("global_head_dim",)), keys.value("attention_k_eq_v") is True
    kv = keys.optional(("num_global_key_value_heads",))
    if not beside_windows:
        return usual
    head_dim = width or usual.head_dim
    return Heads(
        usual.heads,
        kv or usual.kv_heads,
        head_dim,
        width or usual.value_dim,
        usual.gate_width // usual.head_dim * head_dim if width else usual.gate_width,
        usual.shared_query,
        same,
    )


def _delta(keys: Keys) -> dict[str, int]:
    return {
        "key_heads": keys.number(("linear_num_key_heads",)),
        "key_dim": keys.number(("linear_key_head_dim",)),
        "value_heads": keys.number(("linear_num_value_heads",)),
        "value_dim": keys.number(("linear_value_head_dim",)),
        "conv_width": keys.number(("linear_conv_kernel_dim",)),
    }


def _linear(keys: Keys, heads: int, hidden: int) -> Mixing:
    """Return a layer with a recurrence in place of attention."""
    if keys.has("linear_num_value_heads"):
        return delta_net(hidden, **_delta(keys))
    linear = keys.inside("linear_attn_config")
    if linear is not None:
        conv = linear.optional(("short_conv_kernel_size",)) or 4
        own = linear.optional(("num_heads",)) or heads
        return kimi_delta(hidden, own, linear.number(("head_dim",)), conv)
    head_dim = keys.optional(HEAD_DIM) or hidden // heads
    kv_heads = keys.optional(("num_kv_heads_for_linear_attn",), least=0) or heads
    return lightning(hidden, heads, kv_heads, head_dim)


def _mamba(keys: Keys, hidden: int) -> Mixing:
    """Return a layer of Mamba, or of Mamba-2 where the file gives its heads."""
    conv = keys.optional(("mamba_d_conv", "conv_kernel")) or 4
    heads = keys.optional(("mamba_num_heads", "mamba_n_heads"))
    state = keys.number(("mamba_d_state", "ssm_state_size"))
    expand = keys.optional(("mamba_expand", "expand")) or 2
    if heads is None:
        rank = keys.optional(("mamba_dt_rank",)) or -(-hidden // 16)
        return mamba_1(hidden, expand * hidden, state, rank, conv)
    width = None
    if keys.value("mamba_d_head") != "auto":
        width = keys.optional(("mamba_head_dim", "mamba_d_head"))
    groups = keys.optional(("mamba_n_groups", "n_groups")) or 1
    return mamba_2(hidden, heads, width or expand * hidden // heads, state, groups, conv)


def _compressed(keys: Keys, layers: int, hidden: int, heads: int) -> AttentionByLayer:
    """Return the attention of DeepSeek-V4, whose layers take so many tokens into one entry."""
    ratios = keys.by_layer("compress_ratios", layers)
    if any(isinstance(r, bool) or not isinstance(r, int) or not 0 <= r <= 2**24 for r in ratios):
        keys.fail(("compress_ratios",), "must be a list of whole numbers, 0 for none")
    # streams of the residual are mixed by few weights, which are left out as norms are
    keys.seen |= {"num_key_value_heads", "qk_rope_head_dim", "layer_types"}
    keys.seen |= {"hc_mult", "hc_sinkhorn_iters"}
    shape = Compressed(
        heads=heads,
        head_dim=keys.number(("head_dim",)),
        query_rank=keys.number(("q_lora_rank",)),
        output_rank=keys.number(("o_lora_rank",)),
        output_groups=keys.number(("o_groups",)),
        index_heads=keys.optional(("index_n_heads",)) or INDEX_HEADS,
        index_dim=keys.optional(("index_head_dim",)) or INDEX_DIM,
        window=keys.number(("sliding_window",)),
    )
    if heads * shape.head_dim % shape.output_groups:
        keys.fail(("o_groups",), f"must divide {heads} heads of {shape.head_dim}")
    by_ratio: dict[int, list[int]] = defaultdict(list)
    for layer, ratio in enumerate(ratios):
        by_ratio[int(str(ratio))].append(layer)
    groups = tuple(shape.mixing(hidden, ratio).group(own) for ratio, own in by_ratio.items())
    return AttentionByLayer(heads=heads, groups=groups)
