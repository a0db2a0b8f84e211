"""Mixture-of-Experts models as they are published: keys of their config.json, and their totals.

Configurations are cut to the keys that sizes depend on. They and the totals (of model cards and
reports, in billions) were entered by hand, not copied from files: that a total agrees is the check
of both. Publishers count active parameters with or without embedding and head and seldom
say so; `ends` is the reading that agrees, so active parameters are the weaker check.
"""

from typing import Any, NamedTuple

Config = dict[str, Any]


class Published(NamedTuple):
    """A model as published.

    Attributes
    ----------
    total, active
        Billions of parameters in all and of a token; None where no source is sure or where it is
        rounded too far.
    ends
        Whether the stated active parameters count embedding and head: "both", "head", "neither".
    cache
        Layers with the numbers that a token leaves in each, and their window if they have one.
    """

    config: Config
    total: float
    active: float | None = None
    ends: str = "both"
    cache: tuple[tuple[int, int, int | None], ...] = ()


def shape(kind: str, layers: int, hidden: int, heads: int, kv: int, vocab: int) -> Config:
    """Return the keys that all classes have."""
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        "vocab_size": vocab,
        "torch_dtype": "bfloat16",
    }


def latent(query: int | None, nope: int = 128, value: int = 128) -> Config:
    """Return the keys of latent attention of DeepSeek's ranks."""
    return {
        **{"q_lora_rank": query, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
        **{"qk_nope_head_dim": nope, "v_head_dim": value},
    }


def moe(experts: int, top: int, size: int, **others: Any) -> Config:
    """Return the keys of experts as in Qwen's classes."""
    found = {"num_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": size}
    return found | others


def deepseek(experts: int, top: int, size: int, shared: int, first: int, dense: int) -> Config:
    """Return the keys of experts as in DeepSeek's classes."""
    return {
        **{"n_routed_experts": experts, "num_experts_per_tok": top, "moe_intermediate_size": size},
        **{"n_shared_experts": shared, "first_k_dense_replace": first, "intermediate_size": dense},
        **{"moe_layer_freq": 1, "n_group": 1, "topk_group": 1, "scoring_func": "sigmoid"},
    }


def local(experts: int, top: int, size: int) -> Config:
    """Return the keys of experts as in Mixtral's classes."""
    return {
        **{"num_local_experts": experts, "num_experts_per_tok": top, "intermediate_size": size},
    }


def pattern(period: list[str], layers: int) -> list[str]:
    """Return a list of kinds of layers that repeats."""
    return [period[layer % len(period)] for layer in range(layers)]


def full(layers: int, kv_heads: int, head_dim: int) -> tuple[tuple[int, int, int | None], ...]:
    """Return the cache of layers that all see every token."""
    return ((layers, 2 * kv_heads * head_dim, None),)


FOUR = ["linear_attention"] * 3 + ["full_attention"]
SLIDING_4 = ["sliding_attention"] * 3 + ["full_attention"]
DELTA = {
    **{"linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128},
    **{"linear_conv_kernel_dim": 4, "head_dim": 256},
}
NANO = "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"
MAMBA_2 = {"mamba_d_state": 128, "mamba_n_groups": 1, "mamba_d_conv": 4, "mamba_expand": 2}
LLAMA_4 = {"head_dim": 128, "attention_chunk_size": 8192, "intermediate_size_mlp": 16384}
SUPER = {"mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128, "conv_kernel": 4}

MODELS: dict[str, Published] = {
    "mixtral-8x7b": Published(
        shape("mixtral", 32, 4096, 32, 8, 32000) | local(8, 2, 14336),
        *(46.7, 12.9, "both", full(32, 8, 128)),
    ),
    "mixtral-8x22b": Published(
        shape("mixtral", 56, 6144, 48, 8, 32768) | local(8, 2, 16384),
        *(141, 39, "both", full(56, 8, 128)),
    ),
    "phi-3.5-moe": Published(
        shape("phimoe", 32, 4096, 32, 8, 32064) | local(16, 2, 6400)
        | {"sliding_window": 131072, "max_position_embeddings": 131072},
        *(41.9, 6.6, "both", full(32, 8, 128)),
    ),
    "phi-mini-moe": Published(
        shape("phimoe", 32, 4096, 32, 8, 32064) | local(16, 2, 960), 7.6, 2.4
    ),
    "dbrx": Published(
        {"model_type": "dbrx", "n_layers": 40, "d_model": 6144, "n_heads": 48}
        | {"vocab_size": 100352, "torch_dtype": "bfloat16", "attn_config": {"kv_n_heads": 8}}
        | {"ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}},
        *(132, 36, "both", full(40, 8, 128)),
    ),
    "grok-1": Published(
        shape("grok-1", 64, 6144, 48, 8, 131072)
        | {"num_experts": 8, "num_selected_experts": 2, "intermediate_size": 32768}
        | {"tie_word_embeddings": True},
        *(314, None, "both", full(64, 8, 128)),
    ),
    "arctic": Published(
        shape("arctic", 35, 7168, 56, 8, 32000) | local(128, 2, 4864)
        | {"parallel_attn_mlp_res": True, "moe_layer_frequency": 1},
        *(480, 17, "both", full(35, 8, 128)),
    ),
    "olmoe-1b-7b": Published(
        shape("olmoe", 16, 2048, 16, 16, 50304)
        | {"num_experts": 64, "num_experts_per_tok": 8, "intermediate_size": 1024},
        *(6.9, 1.3, "both", full(16, 16, 128)),
    ),
    "granite-3.1-1b-a400m": Published(
        shape("granitemoe", 24, 1024, 16, 8, 49155) | local(32, 8, 512)
        | {"tie_word_embeddings": True, "attention_multiplier": 0.015625},
        *(1.33, None, "both", full(24, 8, 64)),
    ),
    "granite-3.1-3b-a800m": Published(
        shape("granitemoe", 32, 1536, 24, 8, 49155) | local(40, 8, 512)
        | {"tie_word_embeddings": True},
        *(3.3, None, "both", full(32, 8, 64)),
    ),
    "granite-4.0-h-tiny": Published(
        shape("granitemoehybrid", 40, 1536, 12, 4, 100352) | local(64, 6, 512) | MAMBA_2
        | {"mamba_n_heads": 48, "mamba_d_head": 64, "shared_intermediate_size": 1024}
        | {"tie_word_embeddings": True}
        | {"layer_types": ["attention" if at in (5, 15, 25, 35) else "mamba" for at in range(40)]},
        *(6.94, None, "both", full(4, 4, 128)),
    ),
    "granite-4.0-h-small": Published(
        shape("granitemoehybrid", 40, 4096, 32, 8, 100352) | local(72, 10, 768) | MAMBA_2
        | {"mamba_n_heads": 128, "mamba_d_head": 64, "shared_intermediate_size": 1536}
        | {"tie_word_embeddings": True}
        | {"layer_types": ["attention" if at in (5, 15, 25, 35) else "mamba" for at in range(40)]},
        *(32.2, 9, "both", full(4, 8, 128)),
    ),
    "qwen1.5-moe-a2.7b": Published(
        shape("qwen2_moe", 24, 2048, 16, 16, 151936)
        | moe(60, 4, 1408, shared_expert_intermediate_size=5632, intermediate_size=5632),
        *(14.3, 2.7, "both", full(24, 16, 128)),
    ),
    "qwen2-57b-a14b": Published(
        shape("qwen2_moe", 28, 3584, 28, 4, 151936)
        | moe(64, 8, 2560, shared_expert_intermediate_size=20480, intermediate_size=18944)
        | {"sliding_window": 65536, "use_sliding_window": False, "max_window_layers": 28},
        *(57.4, 14.2, "both", full(28, 4, 128)),
    ),
    "qwen3-30b-a3b": Published(
        shape("qwen3_moe", 48, 2048, 32, 4, 151936) | moe(128, 8, 768, head_dim=128),
        *(30.5, 3.3, "both", full(48, 4, 128)),
    ),
    "qwen3-235b-a22b": Published(
        shape("qwen3_moe", 94, 4096, 64, 4, 151936) | moe(128, 8, 1536, head_dim=128),
        *(235, 22, "both", full(94, 4, 128)),
    ),
    "qwen3-coder-480b-a35b": Published(
        shape("qwen3_moe", 62, 6144, 96, 8, 151936) | moe(160, 8, 2560, head_dim=128),
        *(480, 35, "both", full(62, 8, 128)),
    ),
    "qwen3-next-80b-a3b": Published(
        shape("qwen3_next", 48, 2048, 16, 2, 151936) | DELTA
        | moe(512, 10, 512, shared_expert_intermediate_size=512, full_attention_interval=4)
        | {"linear_num_value_heads": 32},
        *(80, None, "both", full(12, 2, 256)),
    ),
    "qwen3.5-35b-a3b": Published(
        shape("qwen3_5_moe_text", 40, 2048, 16, 2, 248320) | DELTA
        | moe(256, 8, 512, shared_expert_intermediate_size=512, layer_types=pattern(FOUR, 40))
        | {"linear_num_value_heads": 32, "attn_output_gate": True},
        *(35, None, "both", full(10, 2, 256)),
    ),
    "qwen3.5-122b-a10b": Published(
        shape("qwen3_5_moe_text", 48, 3072, 32, 2, 248320) | DELTA
        | moe(256, 8, 1024, shared_expert_intermediate_size=1024, layer_types=pattern(FOUR, 48))
        | {"linear_num_value_heads": 64, "attn_output_gate": True},
        *(122, None, "both", full(12, 2, 256)),
    ),
    "qwen3.5-397b-a17b": Published(
        shape("qwen3_5_moe_text", 60, 4096, 32, 2, 248320) | DELTA
        | moe(512, 10, 1024, shared_expert_intermediate_size=1024, layer_types=pattern(FOUR, 60))
        | {"linear_num_value_heads": 64, "attn_output_gate": True},
        *(397, 17, "both", full(15, 2, 256)),
    ),
    "deepseek-moe-16b": Published(
        shape("deepseek", 28, 2048, 16, 16, 102400) | deepseek(64, 6, 1408, 2, 1, 10944),
        *(16.4, 2.8, "both", full(28, 16, 128)),
    ),
    "deepseek-v2-lite": Published(
        shape("deepseek_v2", 27, 2048, 16, 16, 102400) | latent(None)
        | deepseek(64, 6, 1408, 2, 1, 10944),
        *(15.7, None, "both", ((27, 576, None),)),
    ),
    "deepseek-v2": Published(
        shape("deepseek_v2", 60, 5120, 128, 128, 102400) | latent(1536)
        | deepseek(160, 6, 1536, 2, 1, 12288),
        *(236, 21, "both", ((60, 576, None),)),
    ),
    "deepseek-v3": Published(
        shape("deepseek_v3", 61, 7168, 128, 128, 129280) | latent(1536)
        | deepseek(256, 8, 2048, 1, 3, 18432) | {"num_nextn_predict_layers": 1},
        *(671, 37, "both", ((61, 576, None),)),
    ),
    "deepseek-v3.2": Published(
        shape("deepseek_v32", 61, 7168, 128, 128, 129280) | latent(1536)
        | deepseek(256, 8, 2048, 1, 3, 18432)
        | {"index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048},
        *(671, None, "both", ((61, 576 + 128, None),)),
    ),
    "deepseek-v4-flash": Published(
        shape("deepseek_v4", 43, 4096, 64, 1, 129280)
        | {"n_routed_experts": 256, "num_experts_per_tok": 6, "moe_intermediate_size": 2048}
        | {"n_shared_experts": 1, "head_dim": 512, "q_lora_rank": 1024, "o_lora_rank": 1024}
        | {"o_groups": 8, "sliding_window": 128, "qk_rope_head_dim": 64, "expert_dtype": "fp4"}
        | {"compress_ratios": [0, 0, *[4, 128] * 20, 4, 0]},
        *(284, 13, "neither"),
    ),
    "moonlight-16b-a3b": Published(
        shape("deepseek_v3", 27, 2048, 16, 16, 163840) | latent(None)
        | deepseek(64, 6, 1408, 2, 1, 11264),
        *(16, 2.24, "neither", ((27, 576, None),)),
    ),
    "kimi-k2": Published(
        shape("kimi_k2", 61, 7168, 64, 64, 163840) | latent(1536)
        | deepseek(384, 8, 2048, 1, 1, 18432),
        *(1040, 32.6, "both", ((61, 576, None),)),
    ),
    "glm-4.5": Published(
        shape("glm4_moe", 92, 5120, 96, 8, 151552) | deepseek(160, 8, 1536, 1, 3, 12288)
        | {"head_dim": 128, "use_qk_norm": True, "partial_rotary_factor": 0.5},
        *(355, 32, "neither", full(92, 8, 128)),
    ),
    "glm-4.5-air": Published(
        shape("glm4_moe", 46, 4096, 96, 8, 151552) | deepseek(128, 8, 1408, 1, 1, 10944)
        | {"head_dim": 128},
        *(106, 12, "neither", full(46, 8, 128)),
    ),
    "glm-4.7-flash": Published(
        shape("glm4_moe_lite", 47, 2048, 20, 20, 154880) | latent(768, 192, 256)
        | deepseek(64, 4, 1536, 1, 1, 10240),
        *(30, None, "both", ((47, 576, None),)),
    ),
    "glm-5": Published(
        shape("glm_moe_dsa", 78, 6144, 64, 64, 154880) | latent(2048, 192, 256)
        | deepseek(256, 8, 2048, 1, 3, 12288)
        | {"index_n_heads": 32, "index_head_dim": 128, "index_topk": 2048},
        *(744, 40, "neither", ((78, 576 + 128, None),)),
    ),
    "gpt-oss-20b": Published(
        shape("gpt_oss", 24, 2880, 64, 8, 201088) | local(32, 4, 2880)
        | {"head_dim": 64, "sliding_window": 128}
        | {"layer_types": pattern(["sliding_attention", "full_attention"], 24)},
        *(20.9, 3.6, "head", ((12, 1024, None), (12, 1024, 128))),
    ),
    "gpt-oss-120b": Published(
        shape("gpt_oss", 36, 2880, 64, 8, 201088) | local(128, 4, 2880)
        | {"head_dim": 64, "sliding_window": 128}
        | {"layer_types": pattern(["sliding_attention", "full_attention"], 36)},
        *(116.8, 5.1, "head", ((18, 1024, None), (18, 1024, 128))),
    ),
    "llama-4-scout": Published(
        shape("llama4_text", 48, 5120, 40, 8, 202048) | local(16, 1, 8192) | LLAMA_4
        | {"interleave_moe_layer_step": 1},
        *(109, 17, "both", ((12, 2048, None), (36, 2048, 8192))),
    ),
    "llama-4-maverick": Published(
        shape("llama4_text", 48, 5120, 40, 8, 202048) | local(128, 1, 8192) | LLAMA_4
        | {"interleave_moe_layer_step": 2}
        | {"no_rope_layers": [int((layer + 1) % 4 > 0) for layer in range(48)]},
        *(400, 17, "both", ((12, 2048, None), (36, 2048, 8192))),
    ),
    "gemma-4-26b-a4b": Published(
        shape("gemma4_text", 30, 2816, 16, 8, 262144)
        | {"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}
        | {"intermediate_size": 2112, "enable_moe_block": True}
        | {"head_dim": 256, "global_head_dim": 512, "num_global_key_value_heads": 2}
        | {"attention_k_eq_v": True, "sliding_window": 1024, "tie_word_embeddings": True}
        | {"layer_types": pattern(["sliding_attention"] * 5 + ["full_attention"], 30)},
        *(25.2, 3.8, "both", ((5, 2048, None), (25, 4096, 1024))),
    ),
    "jamba-v0.1": Published(
        shape("jamba", 32, 4096, 32, 8, 65536)
        | {"num_experts": 16, "num_experts_per_tok": 2, "intermediate_size": 14336}
        | {"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2}
        | {"expert_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
        | {"mamba_dt_rank": 256},
        *(52, 12, "both", full(4, 8, 128)),
    ),
    "jamba-1.5-large": Published(
        shape("jamba", 72, 8192, 64, 8, 65536)
        | {"num_experts": 16, "num_experts_per_tok": 2, "intermediate_size": 24576}
        | {"attn_layer_period": 8, "attn_layer_offset": 4, "expert_layer_period": 2}
        | {"expert_layer_offset": 1, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}
        | {"mamba_dt_rank": 512},
        *(398, 94, "both", full(9, 8, 128)),
    ),
    "ernie-4.5-21b-a3b": Published(
        shape("ernie4_5_moe", 28, 2560, 20, 4, 103424)
        | {"moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": 1536}
        | {"moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_interval": 1}
        | {"moe_layer_end_index": -1, "intermediate_size": 12288, "tie_word_embeddings": True},
        *(21.8, 3, "both", full(28, 4, 128)),
    ),
    "ernie-4.5-300b-a47b": Published(
        shape("ernie4_5_moe", 54, 8192, 64, 8, 103424)
        | {"moe_num_experts": 64, "moe_k": 8, "moe_intermediate_size": 3584}
        | {"moe_layer_start_index": 3, "moe_layer_interval": 1, "intermediate_size": 28672},
        *(300, 47, "both", full(54, 8, 128)),
    ),
    "hunyuan-a13b": Published(
        shape("hunyuan_v1_moe", 32, 4096, 32, 8, 128167)
        | {"num_experts": 64, "moe_topk": [8] * 32, "moe_intermediate_size": [3072] * 32}
        | {"num_shared_expert": [1] * 32, "intermediate_size": 3072, "head_dim": 128}
        | {"use_cla": False, "cla_share_factor": 2, "moe_layer_num_skipped": 0}
        | {"tie_word_embeddings": True},
        *(80, 13, "both", full(32, 8, 128)),
    ),
    "dots.llm1": Published(
        shape("dots1", 62, 4096, 32, 32, 152064) | deepseek(128, 6, 1408, 2, 1, 10944),
        *(142, 14, "both", full(62, 32, 128)),
    ),
    "minimax-text-01": Published(
        shape("minimax_text_01", 80, 6144, 64, 8, 200064) | local(32, 2, 9216)
        | {"head_dim": 128, "shared_intermediate_size": 0, "attn_type_list": ([0] * 7 + [1]) * 10},
        *(456, 45.9, "neither", full(10, 8, 128)),
    ),
    "minimax-m2": Published(
        shape("minimax_m2", 62, 3072, 48, 8, 200064) | local(256, 8, 1536)
        | {"head_dim": 128, "attn_type_list": [1] * 62, "use_mtp": True, "shared_moe_mode": "none"},
        *(230, None, "both", full(62, 8, 128)),
    ),
    "ling-lite": Published(
        shape("bailing_moe", 28, 2048, 16, 4, 126464)
        | moe(64, 6, 1408, num_shared_experts=2, first_k_dense_replace=0, intermediate_size=5632),
        *(16.8, 2.75, "both", full(28, 4, 128)),
    ),
    "ling-mini-2.0": Published(
        shape("bailing_moe_v2", 20, 2048, 16, 4, 157184)
        | moe(256, 8, 512, num_shared_experts=1, first_k_dense_replace=1, intermediate_size=5120)
        | {"head_dim": 128},
        *(16.3, 1.4, "both", full(20, 4, 128)),
    ),
    "ling-1t": Published(
        shape("bailing_moe_v2", 80, 8192, 64, 8, 157184)
        | moe(256, 8, 2048, num_shared_experts=1, first_k_dense_replace=4, intermediate_size=18432)
        | {"head_dim": 128},
        *(1000, None, "both", full(80, 8, 128)),
    ),
    "ring-mini-linear-2.0": Published(
        shape("bailing_moe_linear", 20, 2048, 16, 4, 157184)
        | moe(256, 8, 512, num_shared_experts=1, first_k_dense_replace=1, intermediate_size=5120)
        | {"head_dim": 128, "layer_group_size": 5, "group_norm_size": 4},
        *(16.4, 1.6, "both", full(4, 4, 128)),
    ),
    "trinity-mini": Published(
        shape("afmoe", 32, 2048, 32, 4, 200192)
        | moe(128, 8, 1024, num_shared_experts=1, num_dense_layers=2, intermediate_size=6144)
        | {"head_dim": 128, "sliding_window": 2048, "global_attn_every_n_layers": 4}
        | {"layer_types": pattern(SLIDING_4, 32)},
        *(26, None, "both", ((8, 1024, None), (24, 1024, 2048))),
    ),
    "lfm2-8b-a1b": Published(
        shape("lfm2_moe", 24, 2048, 32, 8, 65536)
        | moe(32, 4, 1792, num_dense_layers=2, intermediate_size=7168, conv_L_cache=3)
        | {"tie_word_embeddings": True, "conv_bias": False, "use_expert_bias": True}
        | {"layer_types": ["full_attention" if layer in (2, 6, 10, 14, 18, 21) else "conv"
                           for layer in range(24)]},
        *(8.3, None, "both", full(6, 8, 64)),
    ),
    "mimo-v2-flash": Published(
        shape("mimo_v2_flash", 48, 4096, 64, 4, 152576)
        | {"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048}
        | {"head_dim": 192, "v_head_dim": 128, "intermediate_size": 16384, "sliding_window": 128}
        | {"swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192}
        | {"swa_v_head_dim": 128, "moe_layer_freq": [0] + [1] * 47}
        | {"hybrid_layer_pattern": [0, 1, 1, 1, 1, *[0, 1, 1, 1, 1, 1] * 7, 0]},
        *(309, 15, "both", ((9, 4 * 320, None), (39, 8 * 320, 128))),
    ),
    "nemotron-3-nano-30b-a3b": Published(
        shape("nemotron_h", 52, 2688, 32, 2, 131072)
        | {"n_routed_experts": 128, "num_experts_per_tok": 6, "moe_intermediate_size": 1856}
        | {"n_shared_experts": 1, "moe_shared_expert_intermediate_size": 3712, "head_dim": 128}
        | {"intermediate_size": 1856, "mlp_hidden_act": "relu2", "hybrid_override_pattern": NANO}
        | {"mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8}
        | {"conv_kernel": 4, "expand": 2, "chunk_size": 128},
        *(31.6, 3.6, "both", full(6, 2, 128)),
    ),
    "step-3.5-flash": Published(
        shape("step3p5", 45, 4096, 64, 8, 128896)
        | {"num_key_value_heads": None, "num_attention_groups": 8, "head_dim": 128}
        | {"moe_num_experts": 288, "moe_top_k": 8, "moe_intermediate_size": 1280}
        | {"share_expert_dim": 1280, "intermediate_size": 11264, "sliding_window": 512}
        | {"moe_layers_enum": ",".join(map(str, range(3, 45))), "use_head_wise_attn_gate": True}
        | {"layer_types": pattern(["full_attention"] + ["sliding_attention"] * 3, 48)}
        | {"attention_other_setting": {"attention_type": "sliding_attention", "head_dim": 128,
                                       "num_attention_heads": 96, "num_attention_groups": 8}},
        *(196, 11, "neither", ((12, 2048, None), (33, 2048, 512))),
    ),
    "step3": Published(
        shape("step3_text", 61, 7168, 64, 1, 128815)
        | {"num_key_value_heads": None, "num_attention_groups": 1, "head_dim": 256}
        | {"moe_num_experts": 48, "moe_top_k": 3, "moe_intermediate_size": 5120}
        | {"share_expert_dim": 5120, "share_q_dim": 2048, "intermediate_size": 18432}
        | {"moe_layers_enum": ",".join(map(str, range(4, 60)))},
        *(316, 38, "head", full(61, 1, 256)),
    ),
    "k-exaone-236b-a23b": Published(
        shape("exaone_moe", 48, 6144, 64, 8, 153600)
        | moe(128, 8, 2048, num_shared_experts=1, first_k_dense_replace=1, intermediate_size=18432)
        | {"head_dim": 128, "sliding_window": 128, "sliding_window_pattern": "LLLG"},
        *(236, None, "both", ((12, 2048, None), (36, 2048, 128))),
    ),
    "xverse-moe-a4.2b": Published(
        shape("xverse", 28, 2560, 32, 32, 100534)
        | {"num_experts": 64, "moe_top_k": 6, "num_shared_experts": 2, "intermediate_size": 1728},
        *(25.8, 4.2, "both", full(28, 32, 80)),
    ),
    "aria": Published(
        shape("aria_text", 28, 2560, 20, 20, 100352)
        | {"moe_num_experts": 64, "moe_topk": 6, "moe_num_shared_experts": 2}
        | {"intermediate_size": 1664},
        *(24.9, None, "both", full(28, 20, 128)),
    ),
    "pangu-pro-72b-a16b": Published(
        shape("PanguProMoE", 48, 5120, 40, 8, 153376)
        | moe(64, 8, 1344, shared_expert_intermediate_size=5376),
        *(72, 16.5, "both", full(48, 8, 128)),
    ),
    "solar-open-100b": Published(
        shape("solar_open", 48, 4096, 64, 8, 196608) | deepseek(128, 8, 1280, 1, 0, 10240)
        | {"head_dim": 128},
        *(102.6, 12, "both", full(48, 8, 128)),
    ),
    "smallthinker-21b-a3b": Published(
        shape("smallthinker", 52, 2560, 28, 4, 151936)
        | {"moe_num_primary_experts": 64, "moe_num_active_primary_experts": 6, "head_dim": 128}
        | {"moe_ffn_hidden_size": 768, "sliding_window_size": 4096, "tie_word_embeddings": True}
        | {"sliding_window_layout": [0, 1, 1, 1] * 13},
        *(21, None, "both", ((13, 1024, None), (39, 1024, 4096))),
    ),
}  # fmt: skip
