"""Model shapes from Hugging Face's config.json: seven families, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, MoeoptWarning
from tests.refusals import refused
from tests.rooms.sim import KINDS, ModelShape, get_model, quantized_bits, weight_bytes

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
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 4 + (16 + 4) / 128),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, 4),
        ({"quant_method": "mxfp4"}, 4.25),
    ],
)
def test_quantized_weights_have_the_width_the_file_states(
    config: dict[str, Any], bits: float, tmp_path: Path
) -> None:
    """Mixtral's 176,160,768 weights per expert at that many bits, scale and zero point included."""
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
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": GROUP}}, 4.5),
        ({"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": 128}, 4.125),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, 4.5),
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
        "experts": 4 + 16 / 32,  # a scale of 16 bits for 32 weights
        **dict.fromkeys(("shared", "attention", "dense", "router", "embedding", "head"), 16),
    }


@pytest.mark.parametrize(
    ("overrides", "attention", "shared"),
    [
        ({"dynamic": {"-:.*attn.*": {}, "-:.*shared_expert.*": {}}}, 16, 16),
        ({"dynamic": {"+:.*attn.*": {"bits": 8, "group_size": 32}}}, 8 + 24 / 32, 4),
        ({"extra_config": {"model.layers.0.self_attn.q_proj": {"bits": 16}}}, 4 + 12 / 48, 4),
        ({"extra_config": {".*shared_expert.*": {"bits": 8}}}, 4, 8),
    ],
)
def test_modules_may_have_widths_of_their_own(
    overrides: dict[str, Any], attention: float, shared: float, tmp_path: Path
) -> None:
    """GPTQModel's and AutoRound's lists: what they leave out, and what has another width."""
    config = {"quant_method": "gptq", "bits": 4, **overrides}
    found = read(QWEN3_NEXT | {"quantization_config": config}, tmp_path)
    assert found.bits == 4
    assert (found.bits_of("attention"), found.bits_of("shared")) == (attention, shared)


MIXTRAL_AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True}


def test_files_are_as_large_as_they_are_published(tmp_path: Path) -> None:
    """Mixtral-8x7B-Instruct-v0.1-AWQ: 24.65 GB of files."""
    config = MIXTRAL_AWQ | {"modules_to_not_convert": ["gate"]}
    found = read(MIXTRAL | {"quantization_config": config, "vocab_size": 32000}, tmp_path)
    assert weight_bytes(found) == pytest.approx(24.65e9, rel=0.01)


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


def test_a_class_that_is_not_read_is_refused(tmp_path: Path) -> None:
    """JetMoE: no key says that its attention has experts."""
    with pytest.raises(InputError, match=r"model_type: is not supported: attention made of exp"):
        read(MIXTRAL | {"model_type": "jetmoe"}, tmp_path)


def test_layers_with_experts_by_truths(tmp_path: Path) -> None:
    """EXAONE: a list of true and false."""
    layers = MIXTRAL["num_hidden_layers"]
    found = read(MIXTRAL | {"is_moe_layer": [False, *[True] * (layers - 1)]}, tmp_path)
    assert found.dense_layers == 1


def test_a_list_of_routed_experts_leaves_dense_layers_alone(tmp_path: Path) -> None:
    """The names of their matrices differ only in what stands between; endless names are cut."""
    named = ["model.layers.*.mlp.experts.*.gate_proj", "mlp" + "gate" * 10**6]
    config = {"quant_method": "gptq", "bits": 4, "modules_to_not_convert": named}
    data = QWEN3_NEXT | {"quantization_config": config, "mlp_only_layers": [0]}
    found = read(data, tmp_path)
    assert (found.bits_of("experts"), found.bits_of("dense"), found.bits_of("shared")) == (16, 4, 4)


def test_windows_need_no_regular_pattern(tmp_path: Path) -> None:
    """Layers are counted one by one; a kind that is not known is refused by its name."""
    kinds = ["sliding_attention"] * 23 + ["full_attention"]
    found = read(GPT_OSS | {"layer_types": kinds}, tmp_path)
    want = (23 * 128 + 1128) * 2 * 8 * 64 * 2
    assert 0 <= found.layers * found.kv_bytes(1128) - want < 2 * 24  # rounded up by layer
    kinds = ["sliding_attention"] * 22 + ["full_attention"] * 2 + ["predicts_further"]
    found = read(GPT_OSS | {"layer_types": kinds}, tmp_path)
    want = (22 * 128 + 2 * 1128) * 2 * 8 * 64 * 2
    assert 0 <= found.layers * found.kv_bytes(1128) - want < 2 * 24
    with pytest.raises(InputError, match='layer_types: "spiral" is no kind of layer'):
        read(GPT_OSS | {"layer_types": ["spiral"] * 24}, tmp_path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("num_global_experts", 4),
        ("attention_window_of_layers", [1, 2]),
        ("expert_hidden_width", 512),
        ("kv_shared_layers", 3),
        ("linear_attn_ratio", 7),
        ("mamba_heads", 7),
        ("sliding_window", 64),
    ],
)
def test_a_key_about_sizes_that_nobody_reads_is_warned_of(
    key: str, value: object, tmp_path: Path
) -> None:
    """On one line, by its name, within the object that it stands in."""
    with pytest.warns(MoeoptWarning, match=rf"config\.json: {key}: not read; the model may have"):
        read(QWEN3_MOE | {"use_sliding_window": None, key: value}, tmp_path)
    inner = {"text_config": QWEN3_MOE | {"use_sliding_window": None, key: value}}
    with pytest.warns(MoeoptWarning, match=rf"text_config\.{key}: not read"):
        read(inner, tmp_path)


@pytest.mark.parametrize("key", ["use_cla", "zero_expert_num", "residual_moe"])
def test_a_key_that_is_known_and_not_supported_is_refused(key: str, tmp_path: Path) -> None:
    """By its name; unset it says nothing."""
    assert read(QWEN3_MOE | {key: False}, tmp_path).layers == 48
    says = refused(read, QWEN3_MOE | {key: True}, tmp_path)
    assert f"config.json: {key}: is not supported: " in says


def test_keys_within_a_part_are_warned_of_too(tmp_path: Path) -> None:
    """By their place."""
    linear = {"full_attn_layers": [4, 8], "head_dim": 32, "kda_state_heads": 3}
    with pytest.warns(MoeoptWarning, match=r"linear_attn_config\.kda_state_heads: not read"):
        read(KIMI | {"linear_attn_config": linear, "head_dim": 72}, tmp_path)


def test_what_says_nothing_about_sizes_is_passed_over(tmp_path: Path) -> None:
    """Training, norms, biases, positions; lists and objects that are empty."""
    harmless = {"attention_dropout": 0.1, "layer_norm_eps": 1e-5, "router_aux_loss_coef": 0.1}
    harmless |= {"moe_layers": [], "head_pattern": None, "expert_bias": True}
    harmless |= {"num_kv_shared_layers": 0, "moe_layer_layout": [1] * 48}
    harmless |= {"num_nextn_predict_layers": 1, "attn_implementation": "eager"}
    assert read(QWEN3_MOE | harmless, tmp_path).layers == 48  # warnings are errors here


def test_groups_of_modules_have_widths_of_their_own(tmp_path: Path) -> None:
    """All groups count, by what their targets name; what none names keeps its type."""
    four = {"weights": {"num_bits": 4, "type": "float", "group_size": 16}}
    groups = {
        "group_0": {"weights": {"num_bits": 8, "type": "float"}, "targets": ["re:.*self_attn.*"]},
        "group_1": four | {"targets": ["model.layers.0.mlp.experts"]},
    }
    config = {"quant_method": "modelopt", "config_groups": groups}
    found = read(QWEN3_MOE | {"quantization_config": config}, tmp_path)
    assert (found.bits, found.bits_of("attention"), found.bits_of("head")) == (4.5, 8, 16)
    config["ignore"] = [f"model.layers.{layer}.self_attn" for layer in range(24)]
    found = read(QWEN3_MOE | {"quantization_config": config}, tmp_path)
    assert found.bits_of("attention") == 12
    mixed = {
        "quant_algo": "MIXED_PRECISION",
        "quantized_layers": {
            "model.layers.0.mlp.experts.0": {"quant_algo": "NVFP4"},
            "model.layers.0.self_attn.q_proj": {"quant_algo": "FP8"},
        },
    }
    found = read(QWEN3_MOE | {"quantization_config": mixed}, tmp_path)
    assert (found.bits, found.bits_of("attention"), found.bits_of("head")) == (4.5, 8, 16)


def test_a_file_of_modelopt_beside_the_configuration_counts(tmp_path: Path) -> None:
    """Unless the configuration states a quantisation itself; other names have no such file."""
    beside = {"quantization": {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8"}}
    file = tmp_path / "hf_quant_config.json"
    file.write_text(json.dumps(beside))
    found = read(QWEN3_MOE, tmp_path)
    assert (found.bits, found.bits_of("attention"), found.bits_of("head")) == (4.5, 4.5, 16)
    assert found.bits_of("kv") == 8
    own = {"quant_method": "fp8"}
    assert read(QWEN3_MOE | {"quantization_config": own}, tmp_path).bits == 8
    other = tmp_path / "other.json"
    other.write_text(json.dumps(QWEN3_MOE))
    assert get_model(other).bits == 16
    file.write_text('{"quantization": 4}')
    says = refused(read, QWEN3_MOE, tmp_path)
    assert says == f"{file}: quantization: must be an object, not 4"


KIMI = {
    **{"architectures": ["KimiLinearForCausalLM"], "model_type": "kimi_linear"},
    **{"torch_dtype": "bfloat16", "hidden_size": 512, "num_hidden_layers": 8, "vocab_size": 1000},
    **{"num_experts": 8, "num_experts_per_token": 2, "moe_intermediate_size": 256},
    **{"num_shared_experts": 1, "first_k_dense_replace": 1, "intermediate_size": 1024},
    **{"num_attention_heads": 4, "kv_lora_rank": 64, "q_lora_rank": None, "v_head_dim": 32},
    **{"qk_nope_head_dim": 32, "qk_rope_head_dim": 16},
}


def test_linear_attention_beside_latent_attention(tmp_path: Path) -> None:
    """Kimi-Linear: layers are counted from 1; only those with attention leave something."""
    for lists in ({"full_attn_layers": [4, 8]}, {"kda_layers": [1, 2, 3, 5, 6, 7]}):
        linear = {"linear_attn_config": {"num_heads": 4, "head_dim": 32} | lists}
        assert read(KIMI | linear, tmp_path).cache_bytes(1000) == 2 * (64 + 16) * 1000 * 2
    linear["linear_attn_config"] |= {"full_attn_layers": [0], "kda_layers": None}  # type: ignore[operator]
    says = refused(read, KIMI | linear, tmp_path)
    assert "linear_attn_config.full_attn_layers: must be a list of layers from 1 to 8" in says


@pytest.mark.parametrize("key", ["routed_expert_hidden_size", "moe_latent_size"])
def test_experts_on_a_narrower_width(key: str, tmp_path: Path) -> None:
    """The way down and up is shared; the shared expert is as wide as the model."""
    found = read(KIMI | {key: 128}, tmp_path)
    assert found.expert_weights == 3 * 128 * 256
    assert found.shared_weights == 3 * 512 * 256 + 2 * 512 * 128
    assert found.dense_intermediate_size == 1024


def test_the_width_of_dense_layers_may_have_a_key_of_its_own(tmp_path: Path) -> None:
    """MiniMax-M3 and Llama 4."""
    for key in ("dense_intermediate_size", "intermediate_size_mlp"):
        found = read(MIXTRAL | {key: 4096, "moe_layer_freq": [0] + [1] * 31}, tmp_path)
        assert (found.dense_intermediate_size, found.expert_intermediate_size) == (4096, 14336)


def test_a_window_of_all_layers(tmp_path: Path) -> None:
    """Mixtral's class applies it to all; a window of as many tokens as there can be is none."""
    found = read(MIXTRAL | {"sliding_window": 4096}, tmp_path)
    assert found.cache_bytes(10_000) == 32 * 2 * 8 * 128 * 4096 * 2
    found = read(MIXTRAL | {"sliding_window": 32768}, tmp_path)
    assert found.cache_bytes(10_000) == 32 * 2 * 8 * 128 * 10_000 * 2
    half = {"use_sliding_window": True, "max_window_layers": 24, "sliding_window": 1024}
    found = read(QWEN3_MOE | half, tmp_path)
    assert found.cache_bytes(10_000) == 24 * 2 * 4 * 128 * 11_024 * 2


def test_gated_deltanet_in_no_regular_pattern(tmp_path: Path) -> None:
    """The same layers in another order weigh the same."""
    kinds = ["full_attention"] * 12 + ["linear_attention"] * 36
    found, usual = read(QWEN3_NEXT | {"layer_types": kinds}, tmp_path), read(QWEN3_NEXT, tmp_path)
    assert found.attention != usual.attention
    assert found.cache_bytes(1000) == usual.cache_bytes(1000)
    assert found.weights_of("attention") == pytest.approx(usual.weights_of("attention"), abs=48)


def test_experts_of_a_type_of_their_own(tmp_path: Path) -> None:
    """DeepSeek-V4: FP4 experts in a file that is FP8 otherwise."""
    config = {"quantization_config": {"quant_method": "fp8"}, "expert_dtype": "fp4"}
    found = read(DEEPSEEK_V3 | config, tmp_path)
    assert (found.bits, found.bits_of("attention"), found.bits_of("head")) == (4.25, 8, 16)
    says = refused(read, DEEPSEEK_V3 | {"expert_dtype": "int3"}, tmp_path)
    assert "expert_dtype: must be one of fp4, mxfp4" in says


def test_parts_that_no_shape_has_are_warned_of(tmp_path: Path) -> None:
    """Qwen4-Exp: embeddings of n-grams and several residual streams are not counted."""
    more = {"model_type": "qwen4_exp_text", "hc_count": 4, "hc_lowrank": 320, "ple_layer_ids": [2]}
    more |= {"ple_embed_dim": 2048, "ngram_size": 3, "ngram_vocab_size_base": 20_000_000}
    kinds = (["linear_attention"] * 3 + ["qwen_sparse_attention"]) * 12
    with pytest.warns(MoeoptWarning, match="hc_count, hc_lowrank, ple_layer_ids, ple_embed_dim"):
        found = read(QWEN3_NEXT | more | {"layer_types": kinds}, tmp_path)
    assert found.attention == get_model("qwen3-next-80b-a3b").attention


BLOCKS = {
    **{"model_type": "nemotron_h", "hidden_size": 512, "vocab_size": 1000, "head_dim": 64},
    **{"torch_dtype": "bfloat16", "num_attention_heads": 8, "num_key_value_heads": 2},
    **{"n_routed_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 256},
    **{"mamba_num_heads": 16, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8},
    **{"conv_kernel": 4, "mlp_hidden_act": "relu2"},
}


def test_blocks_that_are_only_one_thing(tmp_path: Path) -> None:
    """Nemotron-H: a letter or a word for each block; experts are two matrices."""
    listed = {"layers_block_type": ["mamba", "moe", "attention"]}
    for how in ({"hybrid_override_pattern": "ME*"}, listed, listed | {"num_hidden_layers": 3}):
        found = read(BLOCKS | how, tmp_path)
        assert (found.layers, found.moe_layers, found.weights_of("dense")) == (3, (1,), 0)
        assert found.expert_weights == 2 * 512 * 256
        assert found.cache_bytes(1000) == 2 * 2 * 64 * 1000 * 2
        assert found.cache_bytes(1) == 2 * 2 * 64 * 2
    says = refused(read, BLOCKS | {"hybrid_override_pattern": "M-E*"}, tmp_path)
    assert "hybrid_override_pattern: has dense layers beside experts" in says
