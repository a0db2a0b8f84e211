"""Small GGUF models of several architectures, as llama.cpp's converter names keys and tensors."""

from typing import Any

from tests.gguf_files import F32, MXFP4, Q4_K, Q6_K, Q8_0, Tensors


def keys(architecture: str, **values: Any) -> dict[str, Any]:
    """Return metadata of an architecture; ``__`` stands for a point."""
    own = {f"{architecture}.{key.replace('__', '.')}": item for key, item in values.items()}
    return {"general.architecture": architecture, "general.type": "model"} | own


def grouped(layer: int, hidden: int, heads: int, kv_heads: int, width: int) -> Tensors:
    """Return a layer's projections in 6 bits and its norm."""
    at = f"blk.{layer}."
    return {
        f"{at}attn_norm.weight": ((hidden,), F32),
        f"{at}attn_q.weight": ((hidden, heads * width), Q6_K),
        f"{at}attn_k.weight": ((hidden, kv_heads * width), Q6_K),
        f"{at}attn_v.weight": ((hidden, kv_heads * width), Q6_K),
        f"{at}attn_output.weight": ((heads * width, hidden), Q6_K),
    }


def experts(layer: int, hidden: int, width: int, count: int, down: int = Q4_K) -> Tensors:
    """Return a layer's experts in 4 bits, the down matrices maybe in others, and its router."""
    at = f"blk.{layer}."
    return {
        f"{at}ffn_gate_inp.weight": ((hidden, count), F32),
        f"{at}ffn_gate_exps.weight": ((hidden, width, count), Q4_K),
        f"{at}ffn_up_exps.weight": ((hidden, width, count), Q4_K),
        f"{at}ffn_down_exps.weight": ((width, hidden, count), down),
    }


def dense(layer: int, hidden: int, width: int, suffix: str = "") -> Tensors:
    """Return a layer's gate, up and down matrices in 8 bits."""
    at = f"blk.{layer}.ffn_"
    return {
        f"{at}gate{suffix}.weight": ((hidden, width), Q8_0),
        f"{at}up{suffix}.weight": ((hidden, width), Q8_0),
        f"{at}down{suffix}.weight": ((width, hidden), Q8_0),
    }


ENDS: Tensors = {
    "token_embd.weight": ((512, 1000), Q4_K),
    "output_norm.weight": ((512,), F32),
    "output.weight": ((512, 1000), Q6_K),
}

SMALL = keys(
    "qwen3moe",
    block_count=2,
    embedding_length=512,
    expert_count=4,
    expert_used_count=2,
    attention__head_count=8,
    attention__head_count_kv=2,
    attention__key_length=64,
) | {"tokenizer.ggml.tokens": ["a", "bc", "def"], "tokenizer.ggml.token_type": [1, 1, 1]}

SMALL_TENSORS: Tensors = {
    **ENDS,
    **grouped(0, 512, 8, 2, 64),
    **experts(0, 512, 256, 4),
    **grouped(1, 512, 8, 2, 64),
    **experts(1, 512, 256, 4, down=Q6_K),
}
"""Two layers of four experts; the second layer's down matrices have 6 bits, as in Q4_K_M."""

GLM = keys(
    "glm4moe",
    block_count=3,
    nextn_predict_layers=1,
    embedding_length=512,
    expert_count=4,
    expert_used_count=2,
    expert_shared_count=1,
    attention__head_count=8,
    attention__head_count_kv=2,
    attention__key_length=64,
)

GLM_TENSORS: Tensors = {
    **ENDS,
    **grouped(0, 512, 8, 2, 64),
    **dense(0, 512, 768),
    **grouped(1, 512, 8, 2, 64),
    **experts(1, 512, 256, 4),
    **dense(1, 512, 256, "_shexp"),
    **grouped(2, 512, 8, 2, 64),
    **experts(2, 512, 256, 4),
    **dense(2, 512, 256, "_shexp"),
    "blk.2.nextn.eh_proj.weight": ((1024, 512), Q8_0),
}
"""A dense layer, one with a shared expert, and one for multi-token prediction."""

GPT_OSS = keys(
    "gpt-oss",
    block_count=2,
    embedding_length=512,
    expert_count=4,
    expert_used_count=2,
    attention__head_count=8,
    attention__head_count_kv=2,
    attention__key_length=64,
    attention__sliding_window=128,
)

GPT_OSS_TENSORS: Tensors = {
    **{name: entry for name, entry in ENDS.items() if name != "output.weight"},
    **{
        f"blk.{layer}.{name}": entry
        for layer in range(2)
        for name, entry in {
            "ffn_gate_exps.weight": ((512, 512, 4), MXFP4),
            "ffn_gate_exps.bias": ((512, 4), F32),
            "ffn_up_exps.weight": ((512, 512, 4), MXFP4),
            "ffn_up_exps.bias": ((512, 4), F32),
            "ffn_down_exps.weight": ((512, 512, 4), MXFP4),
            "ffn_down_exps.bias": ((512, 4), F32),
        }.items()
    },
    **grouped(0, 512, 8, 2, 64),
    **grouped(1, 512, 8, 2, 64),
}
"""Biases, windows in every second layer, a tied embedding."""
