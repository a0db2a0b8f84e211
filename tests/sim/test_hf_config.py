"""Model shapes from Hugging Face's config.json: seven families, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError
from tests.refusals import refused
from tests.rooms.sim import KINDS, ModelShape, get_model, quantized_bits

CONFIGS = json.loads((Path(__file__).parent / "data" / "configs.json").read_text())
"""Of models as they are published."""

MIXTRAL = CONFIGS["mixtral"]
DEEPSEEK_V2 = CONFIGS["deepseek_v2"]
DEEPSEEK_V2_LITE = CONFIGS["deepseek_v2_lite"]
DEEPSEEK_V3 = CONFIGS["deepseek_v3"]
DEEPSEEK_MOE = CONFIGS["deepseek_moe"]
QWEN2_MOE = CONFIGS["qwen2_moe"]
QWEN3_MOE = CONFIGS["qwen3_moe"]
GLM_45_AIR = CONFIGS["glm_45_air"]
PHI_35_MOE = CONFIGS["phi_35_moe"]
OLMOE = CONFIGS["olmoe"]
GPT_OSS = CONFIGS["gpt_oss"]
QWEN3_NEXT = CONFIGS["qwen3_next"]
MINIMAX = CONFIGS["minimax"]


def read(config: dict[str, Any], folder: Path) -> ModelShape:
    """Return the model of a config.json, in a folder of the model's name."""
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return get_model(path)


def changed(config: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return a configuration with some keys changed; None takes a key out."""
    data = config | changes
    return {key: value for key, value in data.items() if value is not None}


@pytest.mark.parametrize(
    ("config", "preset"),
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
    config: dict[str, Any], preset: str, tmp_path: Path
) -> None:
    """All fields but name and source."""
    mine = {"name": "", "source": ""}
    assert read(config, tmp_path).model_dump() | mine == get_model(preset).model_dump() | mine


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
    other.write_text(json.dumps(MIXTRAL))
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
        read(outer | {"text_config": changed(inner, hidden_size=None)}, tmp_path)


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
        (
            changed(MIXTRAL, num_local_experts=True),
            "num_local_experts: must be an integer, not tru",
        ),
        (changed(MIXTRAL, num_local_experts=5000), "the number of experts: must be at most 4096,"),
        (changed(MIXTRAL, num_experts_per_tok=9), "num_experts_per_tok: must be at most the 8 exp"),
        (changed(MIXTRAL, num_experts_per_tok=None), "num_experts_per_tok | num_experts_per_token"),
        (changed(MIXTRAL, num_hidden_layers=None), "num_hidden_layers: is missing"),
        (changed(MIXTRAL, hidden_size=None), "hidden_size: is missing"),
        (changed(MIXTRAL, intermediate_size=None), "moe_intermediate_size | moe_ffn_hidden_size"),
        (changed(MIXTRAL, torch_dtype="int3"), "torch_dtype: must be one of bfloat16, float16,"),
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


@pytest.mark.parametrize(
    ("config", "preset"),
    [(GPT_OSS, "gpt-oss-20b"), (QWEN3_NEXT, "qwen3-next-80b-a3b"), (MINIMAX, "minimax-m2")],
)
def test_later_models_have_the_bytes_of_their_presets(
    config: dict[str, Any], preset: str, tmp_path: Path
) -> None:
    """Every kind of tensor and the KV cache; FP8's scales, which no width states, are 0.02 %."""
    found, known = read(config, tmp_path), get_model(preset)
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
    data = QWEN3_NEXT | {"quantization_config": config, "mlp_only_layers": [0]}
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
    found = read(QWEN3_NEXT | {"quantization_config": config}, tmp_path)
    assert (found.bits_of("attention"), found.bits_of("head"), found.bits) == (7, 4, 4)
    every = [f"model.layers.{layer}.self_attn" for layer in range(48)]
    config["modules_to_not_convert"] = every
    found = read(QWEN3_NEXT | {"quantization_config": config}, tmp_path)
    assert found.bits_of("attention") == 16


def test_a_list_of_routed_experts_leaves_dense_layers_alone(tmp_path: Path) -> None:
    """The names of their matrices differ only in what stands between; endless names are cut."""
    named = ["model.layers.*.mlp.experts.*.gate_proj", "mlp" + "gate" * 10**6]
    config = {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": named}
    data = QWEN3_NEXT | {"quantization_config": config, "mlp_only_layers": [0]}
    found = read(data, tmp_path)
    assert (found.bits_of("experts"), found.bits_of("dense"), found.bits_of("shared")) == (16, 4, 4)


def test_windows_in_no_regular_pattern_are_refused(tmp_path: Path) -> None:
    """The mean over the layers needs one."""
    data = GPT_OSS | {"layer_types": ["sliding_attention"] * 24}
    with pytest.raises(InputError, match="layer_types: must repeat one pattern"):
        read(data, tmp_path)
