"""``moeopt model``: what a model's file or preset is taken for."""

import warnings
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from moeopt.core.errors import InputError, MoeoptWarning
from moeopt.core.wording import terminal_text

from .options import Json, command, print_json

if TYPE_CHECKING:
    from moeopt.sim.models.model_shape import ModelShape

Shown = Annotated[str, Parameter(help="Preset, config.json, GGUF or JSON file.")]

CONTEXTS = (131_072,)
"""Tokens at which the KV cache is given."""


@command
def show_command(model: Shown, /, *, as_json: Json = False) -> int:
    """Print what a model is taken for: parameters, layers, experts, bytes of weights and cache."""
    from moeopt.sim.presets import get_model

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always", MoeoptWarning)
        shape = get_model(model)
    told = [str(one.message) for one in raised if issubclass(one.category, MoeoptWarning)]
    found = _facts(shape) | {"warnings": told}
    if as_json:
        print_json(found)
        return 0
    for line in _lines(shape, found):
        print(terminal_text(line))
    return 0


def _facts(shape: "ModelShape") -> dict[str, object]:
    """Return what `--json` prints; a number that the file does not give is null."""
    from moeopt.sim.models.quantisations import weight_bytes

    found: dict[str, object] = {"name": shape.name, "source": shape.source}
    for name in ("parameters", "active_parameters"):
        found[name] = None
        try:
            found[name] = getattr(shape, name)
        except InputError:  # a file may lack a size
            continue
    found["cache_bytes"] = None
    if shape.attention is not None:
        found["cache_bytes"] = {str(context): shape.cache_bytes(context) for context in CONTEXTS}
    found["weights_bytes"] = None if found["parameters"] is None else weight_bytes(shape)
    return found | {"layers": shape.layers, "dense_layers": shape.dense_layers}


def _lines(shape: "ModelShape", found: dict[str, object]) -> list[str]:
    """Return the same for people, with the sizes of layers and experts."""
    dense = f", {shape.dense_layers} of them without experts" if shape.dense_layers else ""
    experts = f"{shape.routed_experts} of {shape.expert_intermediate_size:,}, {shape.top_k} chosen"
    if shape.shared_weights:
        experts += f", beside {shape.shared_weights:,} weights that every token uses"
    lines = [
        f"model       {shape.name}",
        f"layers      {shape.layers}{dense}",
        f"experts     {experts}",
        f"attention   {_attention(shape)}",
    ]
    if isinstance(found["parameters"], int) and isinstance(found["active_parameters"], int):
        numbers = f"{found['parameters'] / 1e9:,.2f} billion"
        active = f"{found['active_parameters'] / 1e9:,.2f} billion for a token"
        lines.append(f"parameters  {numbers}, {active}; norms and biases are left out")
    if isinstance(found["weights_bytes"], int):
        size = f"{found['weights_bytes'] / 2**30:,.1f} GiB"
        lines.append(f"weights     {size}; bits: {shape.bits_in_words()}")
    if isinstance(found["cache_bytes"], dict):
        for context, size in found["cache_bytes"].items():
            lines.append(f"KV cache    {-(-size // 2**20):,} MiB at {int(context):,} tokens")
    lines.append(f"source      {shape.source}")
    told = found["warnings"]
    return lines + [f"warning     {text}" for text in (told if isinstance(told, list) else [])]


def _attention(shape: "ModelShape") -> str:
    """Return what is attended to, and in how many layers where they differ."""
    from moeopt.sim.models.attention import AttentionByLayer, HybridAttention, LatentAttention

    words = {
        "full": "all tokens",
        "window": "the last tokens",
        "latent": "all tokens by a latent key",
        "compressed": "the last tokens and means of the others",
        "linear": "a recurrence",
        "mamba": "a state-space recurrence",
        "conv": "a convolution",
        "none": "none",
    }
    attention = shape.attention
    if attention is None:
        return "not known"
    if isinstance(attention, AttentionByLayer):
        counts: dict[str, int] = {}
        for group in attention.groups:
            told = words[group.mixer]
            if group.window is not None:
                told = told.replace("the last tokens", f"the last {group.window:,} tokens")
            counts[told] = counts.get(told, 0) + len(group.layers)
        return "; ".join(f"{told} in {count}" for told, count in counts.items())
    if isinstance(attention, LatentAttention):
        return f"{words['latent']} of {attention.kv_rank} + {attention.rope_dim}"
    full = shape.layers // attention.full_every
    if isinstance(attention, HybridAttention):
        return f"{words['full']} in {full}; {words['linear']} in {shape.layers - full}"
    if attention.window is None:
        return words["full"]
    others = f"the last {attention.window:,} tokens in {shape.layers - full}"
    return f"{words['full']} in {full}; {others}"
