"""Quantisations by name: files of these models have these sizes."""

from collections import Counter, defaultdict

import pytest

from moeopt import InputError
from tests.rooms.planner import model_at
from tests.rooms.sim import (
    KINDS,
    MIXES,
    get_model,
    is_name,
    matrices,
    matrix_types,
    named_bits,
    quantised,
    weight_bytes,
)
from tests.rooms.sim import preset_names as presets
from tests.rooms.sim import quantisation_names as names

GIB = 1.073741824

FILES = {
    # Model card of bartowski/Mixtral-8x22B-v0.1-GGUF, llama.cpp b2636
    ("mixtral-8x22b", "Q5_K_M"): 99.96,
    ("mixtral-8x22b", "Q5_K_S"): 96.97,
    ("mixtral-8x22b", "Q4_K_M"): 85.58,
    ("mixtral-8x22b", "Q4_K_S"): 80.47,
    ("mixtral-8x22b", "Q3_K_L"): 72.57,
    ("mixtral-8x22b", "Q3_K_M"): 67.78,
    ("mixtral-8x22b", "IQ3_M"): 64.49,
    ("mixtral-8x22b", "IQ3_S"): 61.49,
    ("mixtral-8x22b", "Q3_K_S"): 61.49,
    ("mixtral-8x22b", "IQ3_XS"): 58.22,
    ("mixtral-8x22b", "Q2_K"): 52.10,
    # Model card of bartowski/Qwen_Qwen3-30B-A3B-GGUF, llama.cpp b5200
    ("qwen3-30b-a3b", "BF16"): 61.10,
    ("qwen3-30b-a3b", "Q8_0"): 32.48,
    ("qwen3-30b-a3b", "Q6_K"): 25.10,
    ("qwen3-30b-a3b", "Q5_K_M"): 21.74,
    ("qwen3-30b-a3b", "Q5_K_S"): 21.10,
    # Model card of bartowski/deepseek-ai_DeepSeek-V3-0324-GGUF, llama.cpp b4944
    ("deepseek-v3", "Q8_0"): 713.29,
    ("deepseek-v3", "Q6_K"): 550.80,
    ("deepseek-v3", "Q5_K_M"): 475.40,
    ("deepseek-v3", "Q5_K_S"): 461.81,
    ("deepseek-v3", "Q4_1"): 419.94,
    ("deepseek-v3", "Q4_K_M"): 404.43,
    # llama-bench's table in discussions and pull requests of ikawrakow/ik_llama.cpp
    ("deepseek-v2-lite", "Q4_K_M"): 9.65 * GIB,
    ("deepseek-v2-lite", "F16"): 29.26 * GIB,
    ("deepseek-v3", "Q4_K_S"): 353.90 * GIB,
    ("qwen3-235b-a22b", "Q8_0"): 232.77 * GIB,
    # unsloth/gpt-oss-120b-GGUF as ailocalcheck.com lists it; ggml-org's MXFP4 by llama-bench
    ("gpt-oss-120b", "Q2_K"): 58.27 * GIB,
    ("gpt-oss-120b", "Q4_0"): 58.32 * GIB,
    ("gpt-oss-120b", "Q4_1"): 58.41 * GIB,
    ("gpt-oss-120b", "Q4_K_M"): 58.46 * GIB,
    ("gpt-oss-120b", "Q6_K"): 58.94 * GIB,
    ("gpt-oss-120b", "MXFP4"): 59.02 * GIB,
    ("gpt-oss-120b", "F16"): 60.88 * GIB,
}
"""Model and quantisation -> GB of the published file, norms, biases and metadata included."""


@pytest.mark.parametrize(("preset", "name"), FILES)
def test_a_file_has_the_size_of_the_published_one(preset: str, name: str) -> None:
    """Mixes to 0.15 %; gpt-oss to 0.35 %, as its biases, which are left out, are 0.3 %."""
    ours = weight_bytes(quantised(get_model(preset), name)) / 1e9
    error = 0.0035 if preset.startswith("gpt-oss") else 0.0015
    assert ours == pytest.approx(FILES[preset, name], rel=error)


@pytest.mark.parametrize("preset", presets("models"))
def test_the_matrices_of_a_model_are_all_its_weights(preset: str) -> None:
    """Kind by kind, so that no name of a matrix is forgotten and none is there twice."""
    model = get_model(preset)
    for kind in KINDS:
        found = sum(matrix.weights for matrix in matrices(model) if matrix.kind == kind)
        assert found == model.weights_of(kind), kind
    assert {matrix.columns > 0 for matrix in matrices(model)} == {True}


def tensor_types(name: str, preset: str) -> dict[str, Counter[str]]:
    """Return how many matrices of each name get which type."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for matrix, kind in matrix_types(MIXES[name], get_model(preset)):
        found[matrix.name][kind.name] += 1
    return found


def test_the_types_of_a_mix_are_those_of_llama_quantize() -> None:
    """Q4_K_M of 32 layers: the first and last four and every third between have more bits."""
    types = tensor_types("Q4_K_M", "mixtral-8x7b")
    assert types["ffn_down_exps"] == {"Q4_K": 16, "Q6_K": 16}
    assert types["ffn_up_exps"] == {"Q4_K": 32}
    assert (types["attn_k"], types["attn_output"]) == ({"Q8_0": 32}, {"Q5_K": 32})
    assert (types["output"], types["token_embd"]) == ({"Q6_K": 1}, {"Q4_K": 1})
    assert types["ffn_gate_inp"] == {"F32": 32}
    types = tensor_types("Q4_K_M", "qwen3-30b-a3b")
    assert types["attn_v"] == types["ffn_down_exps"] == {"Q4_K": 24, "Q6_K": 24}
    assert (types["attn_k"], types["attn_output"]) == ({"Q4_K": 48}, {"Q4_K": 48})


def test_rows_that_are_no_whole_number_of_blocks_get_another_type() -> None:
    """1408 is no multiple of 256: Q4_K becomes Q5_0 and Q6_K becomes Q8_0."""
    types = tensor_types("Q4_K_M", "deepseek-v2-lite")
    assert types["ffn_down_exps"] == {"Q5_0": 14, "Q8_0": 12}
    assert types["ffn_gate_exps"] == {"Q4_K": 26}
    assert types["ffn_down_shexp"] == {"Q4_K": 14, "Q6_K": 12}  # two of 1408 together
    assert types["attn_k_b"] == {"Q5_0": 27}  # heads of 128


def test_low_mixes_of_ik_llama_cpp_spare_the_first_layer_and_shared_experts() -> None:
    """By its own rules; IQ1_S_R4 is no repacked IQ1_S but has 1.5 bits."""
    types = tensor_types("IQ1_S_R4", "glm-4.5-air")
    assert (types["ffn_up"], types["ffn_up_exps"]) == ({"IQ3_K": 1}, {"IQ1_S_R4": 45})
    assert (types["ffn_gate_shexp"], types["attn_v"]) == ({"IQ4_K": 45}, {"IQ4_K": 46})
    assert (types["attn_q"], types["token_embd"]) == ({"Q4_K": 46}, {"Q2_K": 1})
    bits = named_bits("iq4_ks_r4", get_model("qwen3-235b-a22b"))
    assert bits == named_bits("IQ4_KS", get_model("qwen3-235b-a22b"))
    assert bits["experts"] == pytest.approx(4.25, abs=0.02)


def test_names_of_any_case_and_aliases_are_the_same() -> None:
    """Files are called Q4_K_M, q4_k_m, Q4_K; MXFP4; IQ4_K_R4 holds the bits of IQ4_K."""
    model = get_model("qwen3-30b-a3b")
    for one, other in (("q4_k_m", "Q4_K"), ("MXFP4", "mxfp4-moe"), ("IQ4_K_R4", "iq4_k")):
        assert named_bits(one, model) == named_bits(other, model)
    assert all(is_name(name) for name in names())
    assert not any(is_name(bits) for bits in (4, 4.5, "4", "4.5", "2,4,8"))


def test_every_name_gives_every_kind_its_width() -> None:
    """Within the widths of its types; the KV cache keeps its own."""
    model = get_model("glm-4.5-air")
    for name in names():
        shape = quantised(model, name)
        assert all(1.5 < shape.bits_of(kind) <= 32 for kind in KINDS), name
        assert (shape.bits_of("kv"), shape.name) == (16, "glm-4.5-air")
    assert quantised(get_model("deepseek-v3"), "FP8").bits_of("experts") == 8.001953125


def test_unknown_names_are_refused_with_what_is_like_them() -> None:
    """One line; a recipe by tensor is no rule."""
    model = get_model("mixtral-8x7b")
    with pytest.raises(InputError, match=r'"Q4_K_N" is not known; like it: .*Q4_K_M'):
        named_bits("Q4_K_N", model)
    with pytest.raises(InputError, match="give the GGUF file"):
        named_bits("UD-Q4_K_XL", model)
    with pytest.raises(InputError, match="not the name of a quantisation"):
        model_at(model, "Q4_K_M", 4, None, None)


def test_a_plans_bits_may_be_a_name() -> None:
    """`--bits Q4_K_M`, and then the rest at 8 bits."""
    model = get_model("mixtral-8x7b")
    named = model_at(model, "Q4_K_M", None, None, None)
    assert named == quantised(model, "Q4_K_M")
    assert weight_bytes(named) == 28446662656
    other = model_at(model, "Q4_K_M", None, 8, None)
    assert (other.bits, other.bits_of("attention")) == (named.bits, 8)
