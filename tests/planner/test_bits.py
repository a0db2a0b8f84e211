"""What bits mean: every kind of tensor, by whichever way they are given."""

from pathlib import Path

import pytest

from moeopt.planner.bits import model_at
from moeopt.planner.residency import memory
from moeopt.sim.model_shape import KINDS
from moeopt.sim.presets import get_model
from tests.planner.test_planner import request

MODEL = get_model("qwen3-235b-a22b")

OTHERS = [kind for kind in KINDS if kind != "experts"]


def test_a_single_width_is_that_of_every_weight() -> None:
    """Text or number; the KV cache has its own."""
    for bits in ("4", 4, 4.5, "4.5"):
        model = model_at(MODEL, bits, None, None, None)
        assert {model.bits_of(kind) for kind in KINDS} == {float(bits)}
        assert model.bits_of("kv") == 16
    assert model_at(MODEL, 4, None, None, 8).bits_of("kv") == 8
    assert model_at(MODEL, None, None, None, None) is MODEL


def test_an_average_is_that_of_everything_else_too() -> None:
    """The experts' own widths are decided later; other bits may be named."""
    model = model_at(MODEL, "2,4,8", 4, None, None)
    assert {model.bits_of(kind) for kind in OTHERS} == {4}
    assert model.bits == 16
    model = model_at(MODEL, None, 4, 8, None)
    assert {model.bits_of(kind) for kind in OTHERS} == {8}
    model = model_at(MODEL, 4, None, 8, None)
    assert (model.bits, {model.bits_of(kind) for kind in OTHERS}) == (4, {8})
    model = model_at(MODEL, None, None, 8, None)
    assert (model.bits, {model.bits_of(kind) for kind in OTHERS}) == (16, {8})


def test_widths_by_kind_give_way_to_those_asked_for() -> None:
    """DeepSeek-R1 is published with an embedding of 16 bits."""
    model = model_at(get_model("deepseek-r1"), 4, None, None, None)
    assert {model.bits_of(kind) for kind in KINDS} == {4}


@pytest.mark.parametrize("way", ["bits", "average_bits", "file"])
def test_every_way_to_four_bits_leaves_the_gpu_the_same_room(way: str, tmp_path: Path) -> None:
    """Qwen3-235B at a context of 32,768: other weights at 4 bits, the KV cache at 16."""
    if way == "file":
        path = tmp_path / "model.json"
        four = {"bytes_per_weight": 0.5, "name": "four"}
        path.write_text(MODEL.model_copy(update=four).model_dump_json())
        model = get_model(path)
    else:
        options = {"bits": None, "average_bits": None, "other_bits": None, "kv_bits": None}
        model = model_at(MODEL, **options | {way: 4})  # type: ignore[arg-type]
    found = memory(request(model=model, context=32_768))
    assert found["dense"] == MODEL.resident_weights // 2
    assert found["kv_cache"] == 94 * 32_768 * 2 * 4 * 128 * 2
