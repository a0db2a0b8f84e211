"""Names of a model's tensors as llama.cpp's files have them: what patterns of ``-ot`` match."""

from collections.abc import Iterator

from moeopt.sim.models.attention import AttentionByLayer
from moeopt.sim.models.model_shape import ModelShape

ATTENTION = {
    "grouped_query": ("attn_q", "attn_k", "attn_v"),
    "latent": (
        *("attn_q", "attn_q_a", "attn_q_b", "attn_kv_a_mqa", "attn_kv_b", "attn_k_b", "attn_v_b"),
        *("indexer.attn_q_b", "indexer.attn_k", "indexer.proj"),
    ),
    "hybrid": (
        *("attn_q", "attn_k", "attn_v", "attn_qkv", "attn_gate", "ssm_in", "ssm_out", "ssm_ba"),
        *("ssm_alpha", "ssm_beta", "ssm_conv1d", "ssm_norm"),
    ),
    "by_layer": (),
}
"""Kind of attention -> names of its matrices, all that some file of that kind has."""

NORMS = (
    *("attn_norm", "attn_q_norm", "attn_k_norm", "attn_q_a_norm", "attn_kv_a_norm", "attn_sinks"),
    *("attn_post_norm", "post_attention_norm", "ffn_norm", "ffn_post_norm", "post_ffw_norm"),
)


def tensor_names(model: ModelShape) -> Iterator[str]:
    """Yield the names of a model's tensors, those of norms that some files lack among them.

    Gate and up of an expert have a name each, as in almost all files. Blocks that predict further
    tokens have the names of layers with experts.
    """
    yield from ("token_embd.weight", "output.weight", "output_norm.weight")
    moe, attention = set(model.moe_layers), model.attention
    feed_forward = ("gate", "up", "down") if model.matrices == 3 else ("up", "down")
    for layer in range(model.layers + (model.nextn or 0)):
        kinds = ["attn_output", *NORMS]
        if isinstance(attention, AttentionByLayer) and layer < model.layers:
            kinds += (matrix.name for matrix in attention.of_layer(layer).matrices)
        elif attention is not None:
            kinds += ATTENTION[attention.kind]
        if layer in moe or layer >= model.layers:
            kinds += ["ffn_gate_inp", "exp_probs_b"]
            if model.shared_weights:
                kinds += ["ffn_gate_inp_shexp", *(f"ffn_{part}_shexp" for part in feed_forward)]
            kinds += (f"ffn_{part}_exps" for part in feed_forward)
        else:
            kinds += (f"ffn_{part}" for part in feed_forward)
        yield from (f"blk.{layer}.{kind}.weight" for kind in dict.fromkeys(kinds))
