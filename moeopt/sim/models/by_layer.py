"""Models that say of each layer what others leave to a rule or to a mean over the layers."""

from moeopt.sim.models.attention import Attention, AttentionByLayer, GroupedQuery, HybridAttention
from moeopt.sim.models.mixers import Heads, delta_net
from moeopt.sim.models.model_shape import ModelShape


def by_layer(model: ModelShape) -> ModelShape:
    """Return the model with the attention of each layer, and the width of its shared experts.

    Where layers differ, as with windows or recurrences in most of them, a device that has other
    layers than the mean needs other memory.
    """
    attention = model.attention
    if attention is not None:
        found = _layers(attention, model.layers, model.hidden_size)
        model = model.model_copy(update={"attention": found})
    return model.with_shared_width


def _layers(attention: Attention, layers: int, hidden: int) -> Attention:
    if not isinstance(attention, GroupedQuery | HybridAttention) or attention.full_every == 1:
        return attention
    every, width = attention.full_every, attention.head_dim
    heads = Heads(attention.heads, attention.kv_heads, width, width)
    if isinstance(attention, GroupedQuery):
        full, other = heads.mixing(hidden), heads.mixing(hidden, attention.window)
    else:
        gated = attention.heads * width
        full = Heads(attention.heads, attention.kv_heads, width, width, gated).mixing(hidden)
        other = delta_net(
            hidden,
            key_heads=attention.key_heads,
            key_dim=attention.key_dim,
            value_heads=attention.value_heads,
            value_dim=attention.value_dim,
            conv_width=attention.conv_width,
        )
    own = [layer for layer in range(layers) if not (layer + 1) % every]
    rest = [layer for layer in range(layers) if (layer + 1) % every]
    groups = [mixing.group(at) for mixing, at in ((full, own), (other, rest)) if at]
    return AttentionByLayer(heads=attention.heads, groups=tuple(groups))
