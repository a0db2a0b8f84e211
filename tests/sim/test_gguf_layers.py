"""GGUF files whose layers differ: windows, convolutions, recurrences, experts without a gate."""

from pathlib import Path
from typing import Any

import pytest

from moeopt import MoeoptWarning
from tests.gguf_files import F32, Q8_0, Tensors, write_gguf
from tests.refusals import refused
from tests.rooms.sim import ModelShape, get_model
from tests.sim.gguf_models import ENDS, SMALL, SMALL_TENSORS, dense, experts, grouped, keys

HIDDEN = 512

COMMON: dict[str, Any] = {
    "embedding_length": HIDDEN,
    "expert_count": 4,
    "expert_used_count": 2,
    "attention__head_count": 8,
}


def read(folder: Path, metadata: dict[str, Any], tensors: Tensors) -> ModelShape:
    """Return the model of a file with an embedding and a head of 1,000 words."""
    return get_model(write_gguf(folder / "x.gguf", metadata, {**ENDS, **tensors}))


def cache(model: ModelShape, context: int) -> int:
    """Return the bytes of the cache of all layers."""
    return model.layers * model.kv_bytes(context)


def test_layers_with_a_window_have_heads_of_their_own(tmp_path: Path) -> None:
    """Gemma-4: five layers of 1,024 tokens, one of all; keys are values there; dense beside MoE."""
    metadata = keys(
        "gemma4",
        **COMMON,
        block_count=3,
        context_length=131072,
        attention__head_count_kv=[4, 4, 2],
        attention__key_length=128,
        attention__value_length=128,
        attention__key_length_swa=64,
        attention__value_length_swa=64,
        attention__sliding_window=1024,
    )
    tensors: Tensors = {}
    for layer, (kv, width) in enumerate([(4, 64), (4, 64), (2, 128)]):
        tensors |= grouped(layer, HIDDEN, 8, kv, width) | experts(layer, HIDDEN, 256, 4)
        tensors |= dense(layer, HIDDEN, 768)
    del tensors["blk.2.attn_v.weight"]
    full, windowed = 2 * 2 * 128 * 2, 2 * 4 * 64 * 2
    for pattern in ({}, {"gemma4.attention.sliding_window_pattern": [True, True, False]}):
        model = read(tmp_path, metadata | pattern, tensors)
        assert cache(model, 100_000) == full * 100_000 + 2 * windowed * 1024
        assert cache(model, 1000) == pytest.approx((full + 2 * windowed) * 1000, abs=6)
    assert (model.dense_layers, model.shared_experts) == (0, 1)
    assert model.weights_of("shared") == 3 * 3 * HIDDEN * 768
    own = 2 * HIDDEN * (2 * 8 * 64 + 2 * 4 * 64) + HIDDEN * (2 * 8 * 128 + 2 * 128)
    assert model.weights_of("attention") == own


def test_layers_of_no_kv_heads_leave_nothing_in_the_cache(tmp_path: Path) -> None:
    """LFM2: convolutions in three of four layers, the first without experts."""
    metadata = keys("lfm2moe", **COMMON, block_count=4, attention__head_count_kv=[0, 0, 2, 0])
    tensors: Tensors = dense(0, HIDDEN, 768)
    for layer in range(4):
        tensors |= experts(layer, HIDDEN, 256, 4) if layer else {}
        at = f"blk.{layer}.shortconv."
        tensors |= (
            {
                f"{at}in_proj.weight": ((HIDDEN, 3 * HIDDEN), Q8_0),
                f"{at}out_proj.weight": ((HIDDEN, HIDDEN), Q8_0),
                f"{at}conv.weight": ((3, HIDDEN), F32),
            }
            if layer != 2
            else grouped(2, HIDDEN, 8, 2, 64)
        )
    model = read(tmp_path, metadata, tensors)
    assert (model.dense_layers, model.dense_intermediate_size) == (1, 768)
    assert cache(model, 1000) == 2 * 2 * 64 * 1000 * 2
    conv, attention = 4 * HIDDEN * HIDDEN + 3 * HIDDEN, 2 * HIDDEN * 10 * 64
    assert model.weights_of("attention") == pytest.approx(3 * conv + attention, abs=4)


def without_gate(layer: int) -> Tensors:
    """Return a layer's experts and its shared one, of two matrices each."""
    found = experts(layer, HIDDEN, 256, 4) | dense(layer, HIDDEN, 512, "_shexp")
    return {name: tensor for name, tensor in found.items() if "ffn_gate_" not in name} | {
        f"blk.{layer}.ffn_gate_inp.weight": ((HIDDEN, 4), F32)
    }


NEMOTRON = keys("nemotron_h_moe", **COMMON, block_count=3, attention__head_count_kv=[0, 0, 2])
NEMOTRON_TENSORS: Tensors = {
    "blk.0.ssm_in.weight": ((HIDDEN, 1000), Q8_0),
    "blk.0.ssm_out.weight": ((1024, HIDDEN), Q8_0),
    **without_gate(1),
    **grouped(2, HIDDEN, 8, 2, 64),
}


def test_blocks_that_are_only_one_thing(tmp_path: Path) -> None:
    """Nemotron-H: a recurrence, experts of two matrices, attention; no dense part anywhere."""
    model = read(tmp_path, NEMOTRON, NEMOTRON_TENSORS)
    assert (model.layers, model.dense_layers, model.moe_layers) == (3, 2, (1,))
    assert model.weights_of("dense") == 0
    assert model.expert_weights == 2 * HIDDEN * 256
    assert model.weights_of("shared") == 2 * HIDDEN * 512
    assert cache(model, 1000) == pytest.approx(2 * 2 * 64 * 1000 * 2, abs=6)
    idle = 2 * model.expert_weights
    assert model.active_parameters == model.parameters - idle


def test_experts_may_work_on_a_narrower_width(tmp_path: Path) -> None:
    """Nemotron-3 Super: a way down and up again, which every token goes."""
    narrow = experts(1, 256, 256, 4)
    tensors = (
        NEMOTRON_TENSORS
        | narrow
        | {
            "blk.1.ffn_gate_inp.weight": ((HIDDEN, 4), F32),
            "blk.1.ffn_latent_down.weight": ((HIDDEN, 256), Q8_0),
            "blk.1.ffn_latent_up.weight": ((256, HIDDEN), Q8_0),
        }
    )
    del tensors["blk.1.ffn_gate_exps.weight"]
    model = read(tmp_path, NEMOTRON, tensors)
    assert (model.hidden_size, model.expert_hidden_size) == (HIDDEN, 256)
    assert model.expert_weights == 2 * 256 * 256
    assert model.weights_of("shared") == 2 * HIDDEN * 512 + 2 * HIDDEN * 256


def test_every_fourth_layer_of_llama_4_sees_all_tokens(tmp_path: Path) -> None:
    """The others see a chunk of 8,192; where the rule does not divide the layers, too."""
    for layers in (4, 5):
        metadata = keys("llama4", **COMMON, block_count=layers, attention__head_count_kv=2)
        tensors: Tensors = {}
        for layer in range(layers):
            tensors |= grouped(layer, HIDDEN, 8, 2, 64) | experts(layer, HIDDEN, 256, 4)
        model = read(tmp_path, metadata, tensors)
        want = (100_000 + (layers - 1) * 8192) * 2 * 2 * 64 * 2
        assert cache(model, 100_000) == pytest.approx(want, abs=2 * layers)


def test_a_window_of_unknown_layers_is_warned_of(tmp_path: Path) -> None:
    """An architecture of which nobody knows, and no list."""
    metadata = SMALL | {"qwen3moe.attention.sliding_window": 128, "qwen3moe.context_length": 4096}
    with pytest.warns(MoeoptWarning, match="qwen3moe.attention.sliding_window: nothing says of"):
        assert read(tmp_path, metadata, SMALL_TENSORS).kv_bytes(1000) == 2 * 2 * 64 * 1000 * 2


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"attention.head_count_kv": [0, 2]},
            "nemotron_h_moe.attention.head_count_kv: must have a",
        ),
        (
            {"attention.head_count_kv": [0, 0, 3]},
            "nemotron_h_moe.attention.head_count_kv: must div",
        ),
        (
            {"attention.head_count_kv": [0, 0, -2]},
            "nemotron_h_moe.attention.head_count_kv: must be",
        ),
        ({"attention.head_count_kv": "2"}, "nemotron_h_moe.attention.head_count_kv: must be integ"),
    ],
)
def test_lists_that_do_not_fit_the_layers_are_refused(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """One line with file and key."""
    metadata = NEMOTRON | {f"nemotron_h_moe.{key}": item for key, item in changes.items()}
    found = refused(read, tmp_path, metadata, NEMOTRON_TENSORS)
    assert found.startswith(f"{tmp_path / 'x.gguf'}: {says}")


def test_a_dense_part_in_some_layers_only_is_refused(tmp_path: Path) -> None:
    """A shape has one width for all layers without experts."""
    tensors = NEMOTRON_TENSORS | dense(0, HIDDEN, 768)
    says = refused(read, tmp_path, NEMOTRON, tensors)
    assert "feed-forward parts must be in all layers without experts, or in none" in says
