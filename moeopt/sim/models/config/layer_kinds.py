"""What mixes the tokens in each layer, by the many keys of a ``config.json`` that say so."""

from moeopt.core.wording import shown
from moeopt.sim.models.attention import Mixer
from moeopt.sim.models.config.keys import Keys

NAMES: dict[str, Mixer] = {
    **dict.fromkeys(("full_attention", "attention", "global_attention", "global"), "full"),
    **dict.fromkeys(("qwen_sparse_attention", "*"), "full"),
    **dict.fromkeys(("sliding_attention", "chunked_attention", "local_attention", "L"), "window"),
    "sliding_window": "window",
    "G": "full",
    **dict.fromkeys(("linear_attention", "kda", "lightning_attention"), "linear"),
    **dict.fromkeys(("mamba", "mamba2", "M"), "mamba"),
    **dict.fromkeys(("conv", "short_conv", "shortconv"), "conv"),
    **dict.fromkeys(("moe", "mlp", "E", "-"), "none"),
}
"""A layer's kind in the file -> what mixes its tokens."""

LISTS = ("layer_types", "layers_block_type", "hybrid_override_pattern", "attention_types")
"""Keys that name each layer's kind; a text has a letter for each."""

CHUNKED_EVERY = 4
"""Llama 4: every so-manieth layer sees all tokens, if the file does not say which."""

WINDOWS = ("sliding_window", "sliding_window_size", "window_size", "attention_chunk_size")
"""How many tokens a layer with a window, or in chunks, sees at most."""

WINDOW_MARKS = ("hybrid_layer_pattern", "sliding_window_layout")
"""Lists with a 1 for each layer that has a window (MiMo-V2, SmallThinker)."""

ALL_WINDOWED = ("mixtral", "mistral", "phimoe")
"""Classes that apply `sliding_window` to all their layers."""


def blocks(keys: Keys) -> str | None:
    """Return the key that gives each layer's kind by name, or None."""
    return next((key for key in LISTS if keys.has(key)), None)


def layer_count(keys: Keys, stated: int | None) -> int | None:
    """Return the number of layers: as stated, or as long as the pattern of layers is."""
    pattern = keys.value(LISTS[2]) or keys.value(LISTS[1])
    if stated is None and isinstance(pattern, list | str) and pattern:
        return len(pattern)
    return stated


def named(keys: Keys, key: str, layers: int) -> tuple[str, ...]:
    """Return the names of the layers' kinds under a key."""
    return tuple(map(str, keys.by_layer(key, layers)))


def layer_kinds(keys: Keys, layers: int) -> tuple[Mixer, ...]:
    """Return what mixes the tokens in each layer.

    Raises
    ------
    InputError
        If a layer's kind is not known.
    """
    found = _by_name(keys, layers) or _by_number(keys, layers) or _by_window(keys, layers)
    return found or everywhere("full", layers)


def everywhere(mixer: Mixer, layers: int) -> tuple[Mixer, ...]:
    """Return the same for all layers."""
    return tuple(mixer for _ in range(layers))


def _by_name(keys: Keys, layers: int) -> tuple[Mixer, ...] | None:
    key = blocks(keys)
    if key is None:
        return None
    names = named(keys, key, layers)
    unknown = next((name for name in names if name not in NAMES), None)
    if unknown is not None:
        keys.fail((key,), f"{shown(unknown)} is no kind of layer that is known")
    for other in ("full_attention_interval", "sliding_window_pattern", "max_window_layers"):
        keys.value(other)  # what the list says is what counts
    for other in ("global_attn_every_n_layers", "hybrid_layer_pattern", "no_rope_layers"):
        keys.value(other)
    for other in ("attn_layer_period", "attn_layer_offset", "attn_type_list", "attn_layer_indices"):
        keys.value(other)
    return tuple(NAMES[name] for name in names)


def _by_number(keys: Keys, layers: int) -> tuple[Mixer, ...] | None:
    """Return layers with full attention by number, and what the others have."""
    every = range(layers)
    if keys.has("attn_layer_period"):  # Jamba
        period = keys.number(("attn_layer_period",))
        offset = keys.optional(("attn_layer_offset",), least=0) or 0
        return tuple("full" if layer % period == offset else "mamba" for layer in every)
    linear = keys.inside("linear_attn_config")
    if linear is not None:  # Kimi-Linear, counted from 1
        full = _numbers(linear, "full_attn_layers", layers)
        others = _numbers(linear, "kda_layers", layers)
        if full is None and others is None:
            linear.fail(("full_attn_layers",), "is missing")
        if full is None:
            return tuple("linear" if layer + 1 in (others or ()) else "full" for layer in every)
        return tuple("full" if layer + 1 in full else "linear" for layer in every)
    if keys.has("attn_type_list"):  # MiniMax-01
        marks = keys.marks("attn_type_list", layers)
        return tuple("full" if full else "linear" for full in marks)
    group = keys.optional(("layer_group_size",))
    if group is not None and group > 1:  # Ling and Ring
        last = layers // group * group
        return tuple("linear" if (at + 1) % group and at < last else "full" for at in every)
    listed = next((key for key in WINDOW_MARKS if keys.has(key)), None)
    if listed is not None:
        marks = keys.marks(listed, layers)
        return tuple("window" if windowed else "full" for windowed in marks)
    if keys.has("linear_num_value_heads"):
        interval = keys.number(("full_attention_interval",))
        return tuple("linear" if (layer + 1) % interval else "full" for layer in every)
    return None


def _numbers(keys: Keys, key: str, layers: int) -> frozenset[int] | None:
    """Return a list of layers that are counted from 1, None without one."""
    value = keys.value(key)
    if value is None:
        return None
    if not isinstance(value, list) or any(
        isinstance(item, bool) or not isinstance(item, int) or not 1 <= item <= layers
        for item in value
    ):
        keys.fail((key,), f"must be a list of layers from 1 to {layers}")
    return frozenset(value)


def _by_window(keys: Keys, layers: int) -> tuple[Mixer, ...] | None:
    """Return which layers have a window, where a key says which."""
    every = range(layers)
    if keys.has("attention_chunk_size"):  # Llama 4
        if keys.value("no_rope_layers"):
            marks = keys.marks("no_rope_layers", layers)
            return tuple("window" if rope else "full" for rope in marks)
        chunked = keys.optional(("no_rope_layer_interval",)) or CHUNKED_EVERY
        return tuple("window" if (layer + 1) % chunked else "full" for layer in every)
    if not window(keys):
        return None
    pattern = keys.value("sliding_window_pattern")
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return tuple(NAMES[pattern[layer % len(pattern)]] for layer in every)
    step = keys.optional(("global_attn_every_n_layers", "sliding_window_pattern"))
    if step is not None:
        return tuple("window" if (layer + 1) % step else "full" for layer in every)
    if keys.value("use_sliding_window") is True:
        first = keys.optional(("max_window_layers",), least=0) or 0
        return tuple("window" if layer >= first else "full" for layer in every)
    if keys.model_type in ALL_WINDOWED:
        return everywhere("window", layers)
    keys.seen -= set(WINDOWS)  # nobody knows of which layers: it is warned of
    return None


def window(keys: Keys) -> int | None:
    """Return how many tokens layers with a window see; None if that is all that there can be."""
    found = [keys.optional((name,), least=0) for name in WINDOWS]
    size = next((number for number in found if number), None)
    if keys.value("use_sliding_window") is False or size is None:
        return None
    most = keys.value("max_position_embeddings")
    return None if isinstance(most, int) and not isinstance(most, bool) and size >= most else size
