"""Model shapes from GGUF files: sizes, widths of every kind of tensor, contradictions."""

from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError
from tests.gguf_files import Q4_K, Q8_0, Tensors, write_gguf
from tests.refusals import refused
from tests.rooms.sim import (
    KINDS,
    Gguf,
    GroupedQuery,
    HybridAttention,
    LatentAttention,
    get_model,
    kind_of,
    read_gguf,
)
from tests.sim.gguf_models import (
    ENDS,
    GLM,
    GLM_TENSORS,
    GPT_OSS,
    GPT_OSS_TENSORS,
    SMALL,
    SMALL_TENSORS,
    experts,
    grouped,
    keys,
)


def tensor_bytes(gguf: Gguf, layers: int) -> dict[str, int]:
    """Return the bytes of each kind of tensor, and of all "other": multi-token prediction etc."""
    total: dict[str, int] = dict.fromkeys([*KINDS, "other"], 0)
    for tensor in gguf.tensors:
        total[kind_of(tensor.name, layers) or "other"] += tensor.size
    return total


def test_a_model_of_mixed_types_has_the_bytes_of_its_file(tmp_path: Path) -> None:
    """Qwen3-MoE in Q4_K_M: a sixth of the experts' weights have 6 bits; a matrix at a time."""
    path = write_gguf(tmp_path / "small-Q4_K_M.gguf", SMALL, SMALL_TENSORS)
    model = get_model(path)
    assert (model.name, model.layers, model.dense_layers, model.top_k) == ("small-Q4_K_M", 2, 0, 2)
    assert (model.hidden_size, model.expert_intermediate_size, model.vocab_size) == (512, 256, 1000)
    assert model.attention == GroupedQuery(heads=8, kv_heads=2, head_dim=64)
    assert model.bits == (5 * 4.5 + 6.5625) / 6
    assert model.expert_bytes == -(-3 * 512 * 256 * (5 * 4.5 + 6.5625) // (6 * 8))
    widths = {"attention": 6.5625, "router": 32, "embedding": 4.5, "head": 6.5625, "kv": 16}
    assert {kind: model.bits_of(kind) for kind in widths} == widths  # type: ignore[arg-type]
    assert model.kv_bytes(1) == 2 * 2 * 64 * 2
    stored = tensor_bytes(read_gguf(path), model.layers)
    norms = {"attention": 2 * 512 * 4}
    for kind in KINDS:
        assert model.bytes_of(kind) + norms.get(kind, 0) == stored[kind]
    assert stored["other"] == 512 * 4
    assert sum(stored.values()) <= path.stat().st_size
    resident = sum(stored.values()) - stored["experts"] - stored["other"] - 2 * 512 * 4
    assert model.resident_bytes == resident


def test_dense_layers_shared_experts_and_further_predictions(tmp_path: Path) -> None:
    """GLM-4.5: a layer for multi-token prediction is no layer, the shared expert has 8 bits."""
    path = write_gguf(tmp_path / "glm.gguf", GLM, GLM_TENSORS)
    model = get_model(path)
    assert (model.layers, model.dense_layers, model.shared_experts, model.nextn) == (2, 1, 1, 1)
    assert model.moe_layers == (1,)
    assert (model.dense_intermediate_size, model.shared_intermediate_size) == (768, 256)
    assert (model.bits_of("shared"), model.bits_of("dense")) == (8.5, 8.5)
    assert model.bytes_of("dense") == 3 * 512 * 768 * 34 // 32
    assert tensor_bytes(read_gguf(path), 2)["other"] > 3 * 512 * 256 * 4 * 4.5 / 8


def test_gpt_oss_has_biases_windows_and_here_a_tied_embedding(tmp_path: Path) -> None:
    """MXFP4 with its scales; every second layer sees 128 tokens."""
    model = get_model(write_gguf(tmp_path / "oss.gguf", GPT_OSS, GPT_OSS_TENSORS))
    assert (model.bits, model.expert_intermediate_size) == (4.25, 512)
    assert model.tied_embedding
    assert (model.bytes_of("embedding"), model.bytes_of("head")) == (0, 512 * 1000 * 9 // 16)
    values = 2 * 2 * 64
    assert model.kv_bytes(100) == values * 100 * 2
    assert model.kv_bytes(1128) == values * (1128 + 128) // 2 * 2


LATENT = {
    "block_count": 1,
    "embedding_length": 512,
    "expert_count": 4,
    "expert_used_count": 2,
    "attention__head_count": 4,
    "attention__kv_lora_rank": 256,
    "attention__q_lora_rank": 128,
    "rope__dimension_count": 64,
}


@pytest.mark.parametrize(
    "widths",
    [
        {"attention__key_length": 192, "attention__value_length": 128},
        {
            "attention__key_length": 320,
            "attention__value_length": 256,
            "attention__key_length_mla": 192,
            "attention__value_length_mla": 128,
            "attention__head_count_kv": 1,
        },
    ],
)
def test_latent_attention_of_older_and_newer_files(widths: dict[str, int], tmp_path: Path) -> None:
    """DeepSeek: the heads' own widths stand under other keys since the cache is compressed."""
    tensors = {
        **ENDS,
        **experts(0, 512, 256, 4),
        "blk.0.attn_kv_b.weight": ((256, 4 * 256), Q8_0),
    }
    path = write_gguf(tmp_path / "x.gguf", keys("deepseek2", **LATENT, **widths), tensors)
    expected = LatentAttention(
        heads=4, query_rank=128, kv_rank=256, nope_dim=128, rope_dim=64, value_dim=128
    )
    assert get_model(path).attention == expected


def test_gated_deltanet_beside_attention(tmp_path: Path) -> None:
    """Qwen3-Next: the sizes of its small twin."""
    metadata = keys(
        "qwen3next",
        block_count=1,
        embedding_length=512,
        expert_count=4,
        expert_used_count=2,
        attention__head_count=4,
        attention__head_count_kv=2,
        attention__key_length=256,
        ssm__time_step_rank=8,
        ssm__group_count=4,
        ssm__state_size=128,
        ssm__inner_size=1024,
        ssm__conv_kernel=4,
    )
    tensors: Tensors = {
        **ENDS,
        **experts(0, 512, 256, 4),
        "blk.0.ssm_out.weight": ((1024, 512), Q8_0),
    }
    expected = HybridAttention(
        heads=4,
        kv_heads=2,
        head_dim=256,
        full_every=4,
        key_heads=4,
        key_dim=128,
        value_heads=8,
        value_dim=128,
        conv_width=4,
    )
    assert get_model(write_gguf(tmp_path / "n.gguf", metadata, tensors)).attention == expected
    other = {key.replace("qwen3next", "jamba"): item for key, item in metadata.items()}
    other["general.architecture"] = "jamba"
    found = get_model(write_gguf(tmp_path / "j.gguf", other, tensors))
    assert (found.attention_weights, found.kv_bytes(1000)) == (1024 * 512, 0)


def test_experts_that_are_tensors_of_their_own(tmp_path: Path) -> None:
    """Mixtral as converted before experts were stacked, and gate and up in one."""
    one_by_one: Tensors = {
        f"blk.0.ffn_{part}.{expert}.weight": (shape, Q4_K)
        for expert in range(4)
        for part, shape in {"gate": (512, 256), "up": (512, 256), "down": (256, 512)}.items()
    }
    joined: Tensors = {
        "blk.0.ffn_gate_up_exps.weight": ((512, 512, 4), Q4_K),
        "blk.0.ffn_down_exps.weight": ((256, 512, 4), Q4_K),
    }
    metadata = SMALL | {"qwen3moe.block_count": 1}
    for tensors in (one_by_one, joined):
        file = write_gguf(tmp_path / "x.gguf", metadata, {**ENDS, **tensors})
        model = get_model(file)
        assert (model.routed_experts, model.expert_intermediate_size) == (4, 256)
        assert (model.expert_bytes, model.bits) == (3 * 512 * 256 * 9 // 16, 4.5)


@pytest.mark.parametrize(
    ("changes", "tensors", "says"),
    [
        ({"expert_count": 5}, {}, "qwen3moe.expert_count: is 5, the experts' tensors say 4"),
        ({"embedding_length": 5}, {}, "qwen3moe.embedding_length: is 5, the experts' tensors say"),
        ({"expert_used_count": 5}, {}, "top_k: must be at most routed_experts = 4, not 5"),
        ({"expert_used_count": "2"}, {}, "qwen3moe.expert_used_count: must be an integer from 1 "),
        ({"expert_used_count": [1, 2]}, {}, "qwen3moe.expert_used_count: is missing, or differs"),
        ({"block_count": 0}, {}, "qwen3moe.block_count: must be an integer from 1 to 16777216"),
        (
            {"nextn_predict_layers": 2},
            {},
            "qwen3moe.block_count: must be from 1 to 4096 without nex",
        ),
        ({"block_count": 2**24}, {}, "qwen3moe.block_count: must be from 1 to 4096 without nextn_"),
        ({"attention.head_count_kv": 3}, {}, "kv_heads: must divide heads = 8, not 3"),
        (
            {},
            {"blk.1.ffn_up_exps.weight": ((512, 128, 4), Q4_K)},
            "layer 1: experts must have a gate, an up and a down matrix of the same sizes",
        ),
        ({}, experts(1, 512, 512, 4), "its layers have experts of several sizes or numbers"),
        ({}, {"blk.0.ffn_down_exps.weight": None}, "layer 0: experts must have a gate, an up"),
    ],
)
def test_metadata_that_contradict_the_tensors_are_refused(
    changes: dict[str, Any], tensors: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """One line with file and key."""
    metadata = SMALL | {f"qwen3moe.{key}": item for key, item in changes.items()}
    described = {n: entry for n, entry in {**SMALL_TENSORS, **tensors}.items() if entry}
    path = write_gguf(tmp_path / "x.gguf", metadata, described)
    assert refused(get_model, path).startswith(f"{path}: {says}")


def test_a_model_without_experts_is_refused(tmp_path: Path) -> None:
    """Llama has none."""
    metadata = keys("llama", block_count=1)
    path = write_gguf(tmp_path / "x.gguf", metadata, {**ENDS, **grouped(0, 512, 8, 2, 64)})
    with pytest.raises(InputError, match="holds no experts"):
        get_model(path)
