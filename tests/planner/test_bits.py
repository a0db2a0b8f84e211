"""What bits mean: every kind of tensor, by whichever way they are given."""

from pathlib import Path

import numpy as np
import pytest

from tests.planner import small_plans
from tests.planner.small_plans import trace_of
from tests.planner.test_planner import request
from tests.rooms.bitwidth import Solution, generate_module
from tests.rooms.planner import bits as decide
from tests.rooms.planner import loads_of, losses, memory, model_at, widths_of
from tests.rooms.sim import KINDS, LossTable, get_model

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


def test_an_average_above_all_widths_is_the_widest() -> None:
    """Of everything else too: no weight gets more than experts may have."""
    model = model_at(MODEL, None, 20, None, None)
    assert {model.bits_of(kind) for kind in OTHERS} == {16}
    assert model_at(MODEL, "4,8", 20, None, None).bits_of("attention") == 8


@pytest.mark.parametrize("bits", [None, "2,3,4"])
def test_more_bits_never_cost_quality(bits: str | None) -> None:
    """Rising averages: never more loss is expected; above all widths all are widest.

    Experts that were not chosen in the part decided on keep a loss: none stays at the least width.
    """
    trace = trace_of(small_plans.MODEL, 30, skew=3.0)
    averages = (2.0, 2.6, 3.0, 4.0, 8.0, 16.0, 20.0)
    lost = []
    for average in averages:
        asked = small_plans.request(trace=trace, average_bits=average, bits=bits)
        kept, rest = asked.parts()
        unseen = int((loads_of(asked, kept).counts.sum(axis=0) == 0).sum())
        assert unseen > 5
        decision = decide(asked, kept, 0.1)
        assert decision is not None
        lost.append(losses(asked, decision, rest).expected)
        if average >= max(widths_of(bits)):
            chosen = decision.solved_as(Solution).bits
            assert {width for layer in chosen for width in layer} == {max(widths_of(bits))}
    assert lost == sorted(lost, reverse=True)
    assert lost[0] > lost[3]


def test_losses_are_means_over_the_experts_that_are_chosen() -> None:
    """Recomputed choice by choice from a table, on both parts; uniform widths beside them."""
    rng = np.random.default_rng(5)
    table = np.sort(rng.random((4, 16, 2)), axis=2)[:, :, ::-1]
    asked = small_plans.request(average_bits=5.0, bits="4,8", loss_table=Path("table.json"))
    with pytest.MonkeyPatch.context() as patched:
        known = LossTable("table.json", (4, 8), table)
        patched.setattr(generate_module, "load_loss_table", lambda _: known)
        kept, rest = asked.parts()
        decision = decide(asked, kept, 0.1)
        assert decision is not None
        found = losses(asked, decision, rest)
    widths = np.array(decision.solved_as(Solution).bits)
    chosen = np.where(widths == 4, table[:, :, 0], table[:, :, 1])
    layers = np.arange(4)[None, :, None]
    counts = np.array(
        [np.bincount(ids.ravel(), minlength=16) for ids in kept.topk_ids.swapaxes(0, 1)]
    )
    shares = (counts + 1) / (counts + 1).sum(axis=1, keepdims=True)
    assert found.expected == pytest.approx((shares * chosen).sum() / 4, rel=1e-6)
    assert found.held_out == pytest.approx(chosen[layers, rest.topk_ids].mean(), rel=1e-6)
    assert found.uniform_bits == 4
    assert found.uniform == pytest.approx(table[layers, rest.topk_ids, 0].mean(), rel=1e-6)
    assert found.table == "table.json"
