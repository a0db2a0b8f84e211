"""Widths of weights from quantization_config: many methods, and modules that are left out."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt.core.errors import InputError
from moeopt.sim.models.hf_config import quantized_bits
from moeopt.sim.models.model_shape import KINDS, ModelShape
from moeopt.sim.presets import get_model

GPT_OSS = """{
 "architectures": ["GptOssForCausalLM"], "head_dim": 64, "hidden_size": 2880,
 "intermediate_size": 2880, "layer_types": "@kinds", "model_type": "gpt_oss",
 "experts_per_token": 4, "num_attention_heads": 64, "num_experts_per_tok": 4,
 "num_hidden_layers": 24, "num_key_value_heads": 8, "num_local_experts": 32,
 "quantization_config": {"modules_to_not_convert": ["model.layers.*.self_attn",
  "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
 "sliding_window": 128, "tie_word_embeddings": false, "vocab_size": 201088}""".replace(
    '"@kinds"', json.dumps(["sliding_attention", "full_attention"] * 12)
)

QWEN3_NEXT = """{
 "architectures": ["Qwen3NextForCausalLM"], "decoder_sparse_step": 1, "full_attention_interval": 4,
 "head_dim": 256, "hidden_size": 2048, "intermediate_size": 5120, "linear_conv_kernel_dim": 4,
 "linear_key_head_dim": 128, "linear_num_key_heads": 16, "linear_num_value_heads": 32,
 "linear_value_head_dim": 128, "mlp_only_layers": [], "model_type": "qwen3_next",
 "moe_intermediate_size": 512, "num_attention_heads": 16, "num_experts": 512,
 "num_experts_per_tok": 10, "num_hidden_layers": 48, "num_key_value_heads": 2,
 "shared_expert_intermediate_size": 512, "torch_dtype": "bfloat16", "vocab_size": 151936}"""

MINIMAX = """{
 "architectures": ["MiniMaxM2ForCausalLM"], "head_dim": 128, "hidden_size": 3072,
 "intermediate_size": 1536, "model_type": "minimax_m2", "num_attention_heads": 48,
 "num_experts_per_tok": 8, "num_hidden_layers": 62, "num_key_value_heads": 8,
 "num_local_experts": 256, "quantization_config": {"activation_scheme": "dynamic",
  "modules_to_not_convert": ["gate", "e_score_correction_bias", "lm_head"], "quant_method": "fp8",
  "weight_block_size": [128, 128]}, "shared_intermediate_size": 0,
 "tie_word_embeddings": false, "vocab_size": 200064}"""


def read(data: dict[str, Any], folder: Path) -> ModelShape:
    path = folder / "config.json"
    path.write_text(json.dumps(data))
    return get_model(path)


@pytest.mark.parametrize(
    ("text", "preset"),
    [(GPT_OSS, "gpt-oss-20b"), (QWEN3_NEXT, "qwen3-next-80b-a3b"), (MINIMAX, "minimax-m2")],
)
def test_later_models_have_the_bytes_of_their_presets(
    text: str, preset: str, tmp_path: Path
) -> None:
    """Every kind of tensor and the KV cache; FP8's scales, which no width states, are 0.02 %."""
    found, known = read(json.loads(text), tmp_path), get_model(preset)
    for kind in KINDS:
        assert found.weights_of(kind) == known.weights_of(kind)
        assert found.bytes_of(kind) == pytest.approx(known.bytes_of(kind), rel=0.0003)
    assert found.attention == known.attention
    assert found.kv_bytes(32_768) == known.kv_bytes(32_768)


GROUP = {"weights": {"num_bits": 4, "type": "int", "group_size": 32}, "targets": ["Linear"]}


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "hqq", "quant_config": {"weight_quant_params": {"nbits": 3}}}, 3),
        ({"quant_method": "quanto", "weights": "int4"}, 4),
        ({"quant_method": "torchao", "quant_type": "int4_weight_only"}, 4),
        ({"quant_method": "torchao", "quant_type": "float8_dynamic_activation"}, 8),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, 8),
        ({"quant_method": "quark", "global_quant_config": {"weight": {"dtype": "int4"}}}, 4),
        ({"quant_method": "auto-round", "bits": 4, "data_type": "int"}, 4),
        ({"quant_method": "higgs", "bits": 3}, 3),
        ({"quant_method": "bitnet"}, 2),
        ({"quant_method": "eetq"}, 8),
        ({"quant_method": "awq", "w_bit": 4}, 4),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUP}}, 4),
    ],
)
def test_every_method_states_its_width_somewhere(config: dict[str, Any], bits: float) -> None:
    """Names of keys as the libraries write them."""
    assert quantized_bits("x", config) == bits


@pytest.mark.parametrize(
    "config",
    [
        {"quant_method": "x", "weights": "qint" + "9" * 10_000},
        {"quant_method": "x", "bits": True},
        {"quant_method": ["fp8"]},
        {"quant_method": "compressed-tensors", "config_groups": {"a": [1]}},
        {"quant_method": "x", "quant_algo": {}},
        {},
    ],
)
def test_a_width_that_is_not_stated_is_refused(config: dict[str, Any]) -> None:
    """One line, whatever is there instead."""
    with pytest.raises(InputError, match=r"^x\.bits: must be from 1 to 16 for quant_method "):
        quantized_bits("x", config)


def test_modules_that_are_left_out_keep_their_type(tmp_path: Path) -> None:
    """Kimi-K2-Thinking: only routed experts have 4 bits; patterns are never run."""
    kept = ["lm_head", "re:.*self_attn.*", "re:.*shared_experts.*", "re:(a+)+$"]
    kept.append("re:.*mlp\\.(gate|up|gate_up|down)_proj.*")
    config = {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": GROUP},
        "ignore": kept,
    }
    data = json.loads(QWEN3_NEXT) | {"quantization_config": config, "mlp_only_layers": [0]}
    found = read(data, tmp_path)
    assert {kind: found.bits_of(kind) for kind in KINDS} == {
        "experts": 4,
        **dict.fromkeys(("shared", "attention", "dense", "router", "embedding", "head"), 16),
    }


def test_modules_of_some_layers_count_for_their_share(tmp_path: Path) -> None:
    """Attention of 12 of 48 layers in 16 bits, the others in 4: 7 on the mean."""
    named = [
        f"model.layers.{layer}.self_attn.{part}_proj" for layer in range(12) for part in "qkvo"
    ]
    config = {"quant_method": "gptq", "bits": 4, "lm_head": True, "modules_to_not_convert": named}
    found = read(json.loads(QWEN3_NEXT) | {"quantization_config": config}, tmp_path)
    assert (found.bits_of("attention"), found.bits_of("head"), found.bits) == (7, 4, 4)
    every = [f"model.layers.{layer}.self_attn" for layer in range(48)]
    config["modules_to_not_convert"] = every
    found = read(json.loads(QWEN3_NEXT) | {"quantization_config": config}, tmp_path)
    assert found.bits_of("attention") == 16


def test_a_list_of_routed_experts_leaves_dense_layers_alone(tmp_path: Path) -> None:
    """The names of their matrices differ only in what stands between; endless names are cut."""
    named = ["model.layers.*.mlp.experts.*.gate_proj", "mlp" + "gate" * 10**6]
    config = {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": named}
    data = json.loads(QWEN3_NEXT) | {"quantization_config": config, "mlp_only_layers": [0]}
    found = read(data, tmp_path)
    assert (found.bits_of("experts"), found.bits_of("dense"), found.bits_of("shared")) == (16, 4, 4)


def test_windows_in_no_regular_pattern_are_refused(tmp_path: Path) -> None:
    """The mean over the layers needs one."""
    data = json.loads(GPT_OSS) | {"layer_types": ["sliding_attention"] * 24}
    with pytest.raises(InputError, match="layer_types: must repeat one pattern"):
        read(data, tmp_path)
