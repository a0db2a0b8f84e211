"""Model shapes from Hugging Face's config.json: seven families, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt.core.errors import InputError
from moeopt.sim.models.hf_config import quantized_bits
from moeopt.sim.models.model_shape import KINDS, ModelShape
from moeopt.sim.presets import get_model
from tests.refusals import refused

MIXTRAL = """{
 "architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu",
 "hidden_size": 4096, "initializer_range": 0.02, "intermediate_size": 14336,
 "max_position_embeddings": 32768, "model_type": "mixtral", "num_attention_heads": 32,
 "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
 "num_local_experts": 8, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
 "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
 "transformers_version": "4.36.0.dev0", "use_cache": true, "vocab_size": 32000}"""

DEEPSEEK_V2 = """{
 "architectures": ["DeepseekV2ForCausalLM"], "aux_loss_alpha": 0.001, "first_k_dense_replace": 1,
 "hidden_act": "silu", "hidden_size": 5120, "intermediate_size": 12288, "kv_lora_rank": 512,
 "model_type": "deepseek_v2", "moe_intermediate_size": 1536, "moe_layer_freq": 1, "n_group": 8,
 "n_routed_experts": 160, "n_shared_experts": 2, "norm_topk_prob": false,
 "num_attention_heads": 128, "num_experts_per_tok": 6, "num_hidden_layers": 60,
 "num_key_value_heads": 128, "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
 "qk_rope_head_dim": 64, "rope_scaling": {"factor": 40, "type": "yarn"},
 "routed_scaling_factor": 16.0, "scoring_func": "softmax", "topk_group": 3,
 "topk_method": "group_limited_greedy", "torch_dtype": "bfloat16", "v_head_dim": 128,
 "vocab_size": 102400}"""

DEEPSEEK_V2_LITE = """{
 "architectures": ["DeepseekV2ForCausalLM"], "first_k_dense_replace": 1, "hidden_size": 2048,
 "intermediate_size": 10944, "kv_lora_rank": 512, "model_type": "deepseek_v2",
 "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 64,
 "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
 "num_hidden_layers": 27, "num_key_value_heads": 16, "q_lora_rank": null,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "torch_dtype": "bfloat16", "v_head_dim": 128,
 "vocab_size": 102400}"""

DEEPSEEK_V3 = """{
 "architectures": ["DeepseekV3ForCausalLM"], "ep_size": 1, "first_k_dense_replace": 3,
 "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512,
 "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
 "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
 "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
 "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
 "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
 "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
                         "weight_block_size": [128, 128]},
 "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280}"""

DEEPSEEK_MOE = """{
 "architectures": ["DeepseekForCausalLM"], "first_k_dense_replace": 1, "hidden_size": 2048,
 "intermediate_size": 10944, "model_type": "deepseek", "moe_intermediate_size": 1408,
 "moe_layer_freq": 1, "n_routed_experts": 64, "n_shared_experts": 2, "num_attention_heads": 16,
 "num_experts_per_tok": 6, "num_hidden_layers": 28, "num_key_value_heads": 16,
 "torch_dtype": "bfloat16", "vocab_size": 102400}"""

QWEN2_MOE = """{
 "architectures": ["Qwen2MoeForCausalLM"], "decoder_sparse_step": 1, "hidden_act": "silu",
 "hidden_size": 3584, "intermediate_size": 18944, "max_window_layers": 28,
 "model_type": "qwen2_moe", "moe_intermediate_size": 2560, "norm_topk_prob": false,
 "num_attention_heads": 28, "num_experts": 64, "num_experts_per_tok": 8,
 "num_hidden_layers": 28, "num_key_value_heads": 4, "router_aux_loss_coef": 0.001,
 "shared_expert_intermediate_size": 20480, "torch_dtype": "bfloat16", "vocab_size": 151936}"""

QWEN3_MOE = """{
 "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "decoder_sparse_step": 1,
 "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048, "intermediate_size": 6144,
 "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 768,
 "norm_topk_prob": true, "num_attention_heads": 32, "num_experts": 128,
 "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
 "torch_dtype": "bfloat16", "vocab_size": 151936}"""

GLM_45_AIR = """{
 "architectures": ["Glm4MoeForCausalLM"], "attention_bias": true, "first_k_dense_replace": 1,
 "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944, "model_type": "glm4_moe",
 "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1,
 "norm_topk_prob": true, "num_attention_heads": 96, "num_experts_per_tok": 8,
 "num_hidden_layers": 46, "num_key_value_heads": 8, "num_nextn_predict_layers": 1,
 "partial_rotary_factor": 0.5, "torch_dtype": "bfloat16", "vocab_size": 151552}"""

PHI_35_MOE = """{
 "architectures": ["PhiMoEForCausalLM"], "attention_bias": true, "hidden_size": 4096,
 "input_jitter_noise": 0.01, "intermediate_size": 6400, "lm_head_bias": true,
 "model_type": "phimoe", "num_attention_heads": 32, "num_experts_per_tok": 2,
 "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16,
 "torch_dtype": "bfloat16", "vocab_size": 32064}"""

OLMOE = """{
 "architectures": ["OlmoeForCausalLM"], "attention_bias": false, "clip_qkv": null,
 "hidden_size": 2048, "intermediate_size": 1024, "model_type": "olmoe",
 "norm_topk_prob": false, "num_attention_heads": 16, "num_experts": 64,
 "num_experts_per_tok": 8, "num_hidden_layers": 16, "num_key_value_heads": 16,
 "torch_dtype": "float32", "vocab_size": 50304}"""


def read(text: str | dict[str, Any], folder: Path) -> ModelShape:
    """Return the model in a config.json of this text, in a folder of the model's name."""
    path = folder / "config.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return get_model(path)


def changed(text: str, **changes: Any) -> dict[str, Any]:
    """Return a configuration with some keys changed; None takes a key out."""
    data = json.loads(text) | changes
    return {key: value for key, value in data.items() if value is not None}


@pytest.mark.parametrize(
    ("text", "preset"),
    [
        (MIXTRAL, "mixtral-8x7b"),
        (DEEPSEEK_V2, "deepseek-v2"),
        (DEEPSEEK_V2, "deepseek-v2.5"),
        (DEEPSEEK_V2_LITE, "deepseek-v2-lite"),
        (DEEPSEEK_MOE, "deepseek-moe-16b"),
        (QWEN2_MOE, "qwen2-57b-a14b"),
        (QWEN3_MOE, "qwen3-30b-a3b"),
        (GLM_45_AIR, "glm-4.5-air"),
        (PHI_35_MOE, "phi-3.5-moe"),
    ],
)
def test_a_config_json_gives_the_shape_of_the_preset(
    text: str, preset: str, tmp_path: Path
) -> None:
    """All fields but name and source."""
    mine = {"name": "", "source": ""}
    assert read(text, tmp_path).model_dump() | mine == get_model(preset).model_dump() | mine


def test_deepseek_v3_is_published_in_fp8(tmp_path: Path) -> None:
    """The preset is BF16, as KTransformers runs it; the file says 8 bits, but for what is kept."""
    found = read(DEEPSEEK_V3, tmp_path)
    preset = get_model("deepseek-v3")
    kept = {"embedding_bits": 16.0, "router_bits": 16.0, "head_bits": 16.0}
    fp8 = preset.quantized(8, 8).model_dump() | {"name": "", "source": ""} | kept
    assert found.model_dump() | {"name": "", "source": ""} == fp8
    assert found.expert_bytes * 2 == preset.expert_bytes


def test_olmoe_has_experts_of_its_intermediate_size(tmp_path: Path) -> None:
    """No moe_intermediate_size there; published in float32: 3 x 2048 x 1024 x 4 bytes."""
    found = read(OLMOE, tmp_path)
    assert (found.routed_experts, found.top_k, found.layers, found.dense_layers) == (64, 8, 16, 0)
    assert found.expert_bytes == 25_165_824


def test_the_model_is_called_like_its_folder_or_its_file(tmp_path: Path) -> None:
    """config.json takes the folder's name, any other file its own."""
    folder = tmp_path / "Mixtral-8x7B-v0.1"
    folder.mkdir()
    assert read(MIXTRAL, folder).name == "Mixtral-8x7B-v0.1"
    other = tmp_path / "mine.json"
    other.write_text(MIXTRAL)
    assert get_model(other).name == "mine"
    assert str(other) in get_model(other).source


@pytest.mark.parametrize(
    ("changes", "dense"),
    [
        ({"decoder_sparse_step": 2, "num_hidden_layers": 6}, (0, 2, 4)),
        ({"mlp_only_layers": [0, 3], "num_hidden_layers": 6}, (0, 3)),
        ({"mlp_only_layers": [0, 1], "num_hidden_layers": 6}, (0, 1)),
        ({"first_k_dense_replace": 1, "moe_layer_freq": 2, "num_hidden_layers": 6}, (0, 1, 3, 5)),
        ({"moe_layer_freq": [0, 1, 1, 0], "num_hidden_layers": 4}, (0, 3)),
    ],
)
def test_layers_without_experts_are_those_the_model_code_skips(
    changes: dict[str, Any], dense: tuple[int, ...], tmp_path: Path
) -> None:
    """Steps, lists and frequencies, as the classes in transformers read them."""
    found = read(changed(QWEN3_MOE, **changes), tmp_path)
    assert found.dense_layers == len(dense)
    assert set(found.moe_layers) == set(range(found.layers)) - set(dense)
    assert found.dense_intermediate_size == 6144


def test_a_model_of_text_and_images_keeps_its_text_inside(tmp_path: Path) -> None:
    """The inner object counts; what it lacks of types is looked up outside."""
    inner = changed(QWEN3_MOE, torch_dtype=None, num_hidden_layers=4)
    outer = {"model_type": "qwen3_vl_moe", "torch_dtype": "float32", "text_config": inner}
    found = read(outer, tmp_path)
    assert (found.layers, found.bytes_per_weight) == (4, 4)
    with pytest.raises(InputError, match=r"config\.json: text_config\.hidden_size: is missing"):
        read(outer | {"text_config": changed(json.dumps(inner), hidden_size=None)}, tmp_path)


@pytest.mark.parametrize(
    ("config", "bits"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4),
        ({"quant_method": "mxfp4"}, 4.25),
    ],
)
def test_quantized_weights_have_the_width_the_file_states(
    config: dict[str, Any], bits: float, tmp_path: Path
) -> None:
    """Mixtral's 176,160,768 weights per expert at that many bits."""
    found = read(changed(MIXTRAL, quantization_config=config), tmp_path)
    assert found.expert_bytes == 176_160_768 * bits / 8
    assert found.bits_of("attention") == bits


def test_heads_not_stated_are_those_transformers_assumes(tmp_path: Path) -> None:
    """As many KV heads as heads, the hidden size shared evenly; without heads no attention."""
    data = changed(MIXTRAL, num_key_value_heads=None)
    assert read(data, tmp_path).attention_weights == 4 * 4096 * 4096
    assert read(changed(MIXTRAL, num_attention_heads=None), tmp_path).attention is None


def test_without_a_type_bf16_is_assumed_and_said(tmp_path: Path) -> None:
    """The source names the assumption."""
    found = read(changed(MIXTRAL, torch_dtype=None), tmp_path)
    assert found.bytes_per_weight == 2
    assert found.source.endswith("no torch_dtype, BF16 assumed")
    assert read(changed(MIXTRAL, torch_dtype=None, dtype="float32"), tmp_path).bytes_per_weight == 4


LLAMA = changed(MIXTRAL, num_local_experts=None, num_experts_per_tok=None, model_type="llama")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (
            LLAMA,
            "num_experts | n_routed_experts | num_local_experts | moe_num_experts | num_routed",
        ),
        (
            changed(MIXTRAL, num_local_experts=1),
            "num_local_experts: must be at least 2, not 1: the",
        ),
        (changed(MIXTRAL, num_experts=16), "num_local_experts: is 8 and contradicts num_experts,"),
        (changed(MIXTRAL, num_local_experts="8"), 'num_local_experts: must be an integer, not "8"'),
        (changed(MIXTRAL, num_local_experts=8.0), "num_local_experts: must be an integer, not 8.0"),
        (
            changed(MIXTRAL, num_local_experts=True),
            "num_local_experts: must be an integer, not tru",
        ),
        (changed(MIXTRAL, num_local_experts=5000), "the number of experts: must be at most 4096,"),
        (changed(MIXTRAL, num_experts_per_tok=9), "num_experts_per_tok: must be at most the 8 exp"),
        (changed(MIXTRAL, num_experts_per_tok=None), "num_experts_per_tok | num_experts_per_token"),
        (changed(MIXTRAL, num_hidden_layers=None), "num_hidden_layers: is missing"),
        (changed(MIXTRAL, num_hidden_layers=-1), "num_hidden_layers: must be from 1 to 16777216,"),
        (changed(MIXTRAL, hidden_size=None), "hidden_size: is missing"),
        (changed(MIXTRAL, intermediate_size=None), "moe_intermediate_size | moe_ffn_hidden_size"),
        (changed(MIXTRAL, torch_dtype="int3"), "torch_dtype: must be one of bfloat16, float16,"),
        (changed(MIXTRAL, torch_dtype=16), "torch_dtype: must be one of bfloat16, float16,"),
        (changed(MIXTRAL, num_key_value_heads=5), "num_key_value_heads: must divide heads = 32,"),
        (changed(MIXTRAL, num_attention_heads=33), "num_attention_heads: must divide hidden_size"),
        (changed(MIXTRAL, quantization_config=4), "quantization_config: must be an object, not 4"),
        (
            changed(MIXTRAL, quantization_config={"quant_method": "aqlm"}),
            'quantization_config.bits: must be from 1 to 16 for quant_method "aqlm", not null',
        ),
        (changed(DEEPSEEK_V2, qk_rope_head_dim=None), "qk_rope_head_dim: is missing"),
        (
            changed(DEEPSEEK_V2, first_k_dense_replace=60),
            "first_k_dense_replace: leaves none of 60",
        ),
        (changed(DEEPSEEK_V2, moe_layer_freq=[1, 0]), "moe_layer_freq: must be a number, or 0 or"),
        (
            changed(QWEN3_MOE, mlp_only_layers=[48]),
            "mlp_only_layers: must be a list of layers from",
        ),
        (changed(QWEN3_MOE, mlp_only_layers=1), "mlp_only_layers: must be a list of layers from"),
        (
            changed(QWEN2_MOE, n_shared_experts=0),
            "shared_expert_intermediate_size: must be 0 as n_shared_experts is, not 20480",
        ),
    ],
)
def test_what_is_no_mixture_of_experts_or_contradicts_itself_is_refused(
    data: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """One line that names the file and the key."""
    assert refused(read, data, tmp_path).startswith(f"{tmp_path / 'config.json'}: {says}")


def test_a_shape_of_our_own_is_not_taken_for_a_config_json(tmp_path: Path) -> None:
    """A file with `layers` is a model shape, and is judged as one."""
    path = tmp_path / "shape.json"
    path.write_text(json.dumps(get_model("mixtral-8x7b").model_dump() | {"model_type": "mixtral"}))
    with pytest.raises(InputError, match="model_type: is not a known key"):
        get_model(path)


def test_layers_with_experts_may_be_listed_or_interleaved(tmp_path: Path) -> None:
    """As newer files say it: every second layer, a list of layers, or a kind per layer."""
    kinds = ["dense"] + ["sparse"] * 47
    every = read(changed(QWEN3_MOE, interleave_moe_layer_step=2), tmp_path)
    listed = read(changed(QWEN3_MOE, moe_layers=[1, 2]), tmp_path)
    named = read(changed(QWEN3_MOE, mlp_layer_types=kinds), tmp_path)
    assert every.moe_layers == tuple(range(1, 48, 2))
    assert (listed.moe_layers, named.moe_layers) == ((1, 2), tuple(range(1, 48)))


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
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, 4),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, 8),
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
