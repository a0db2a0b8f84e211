"""Synthetic routing: reproducible, without repetition within a token, and as skewed as stated."""

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.rooms.sim import ModelShape, Workload, find, get_model, synthetic_trace

PRESET = find("workloads", Workload, "trimoe-skew")


def workload(skew: float = PRESET.skew, drift: float = 0.0) -> Workload:
    return Workload(name="test", skew=skew, drift=drift, source="made up for a test")


def loads(
    work: Workload, model: ModelShape, batch: int, batches: int = 1, seed: int = 0
) -> NDArray[np.int64]:
    """Return the tokens per batch and expert."""
    trace = synthetic_trace(work, model, batch, batches, seed)
    experts = model.routed_experts
    rows = np.arange(batches * batch).reshape(batches, batch)
    return np.array([trace.counts(row, 0, experts) for row in rows])


@pytest.mark.parametrize("name", ["deepseek-v2", "deepseek-v2-lite", "qwen3-235b-a22b"])
def test_each_token_takes_k_different_experts_of_the_model(name: str) -> None:
    """Also under a skew that would like to take the same one again and again."""
    model = get_model(name)
    trace = synthetic_trace(workload(skew=50), model, 100, 2, 0)
    assert trace.topk_ids.shape == (200, 1, model.top_k)
    ids = np.sort(trace.topk_ids[:, 0], axis=1)
    assert (np.diff(ids, axis=1) > 0).all()
    assert ids.min() >= 0
    assert ids.max() < model.routed_experts
    trace.check_fits(model.routed_experts, model.top_k, 1)


def test_a_token_may_take_all_experts() -> None:
    """top-k equal to the number of experts is the limit case."""
    data = get_model("deepseek-v2-lite").model_dump() | {"routed_experts": 6}
    model = ModelShape.model_validate(data)
    assert (loads(PRESET, model, 30) == 30).all()


@pytest.mark.parametrize("name", ["deepseek-v2", "qwen3-235b-a22b"])
def test_the_coldest_70_percent_of_the_experts_get_8_percent_of_the_tokens(name: str) -> None:
    """The figure of TriMoE 3.1 to which the preset is calibrated, without drift."""
    model = get_model(name)
    tokens = np.sort(loads(workload(), model, 20_000)[0])
    cold = round(0.7 * model.routed_experts)
    assert tokens[:cold].sum() / tokens.sum() == pytest.approx(0.08, abs=0.02)


def test_without_skew_all_experts_are_alike() -> None:
    """Each of 160 experts gets 6/160 of 20,000 tokens, within six standard deviations."""
    tokens = loads(workload(skew=0), get_model("deepseek-v2"), 20_000)[0]
    assert tokens.sum() == 6 * 20_000
    assert np.abs(tokens - 750).max() < 6 * np.sqrt(750)


def test_the_popular_experts_are_not_always_the_same_ones() -> None:
    """Which experts are hot is drawn with the seed."""
    model = get_model("deepseek-v2")
    hottest = {int(loads(workload(), model, 500, seed=seed)[0].argmax()) for seed in range(10)}
    assert len(hottest) > 5


@pytest.mark.slow
def test_drift_moves_the_popularity_from_batch_to_batch() -> None:
    """Without drift two large batches differ by sampling alone, with drift by far more."""
    model = get_model("deepseek-v2")

    def change(drift: float) -> float:
        before, after = loads(workload(drift=drift), model, 20_000, batches=2)
        return float(np.abs(before - after).sum() / before.sum())

    assert change(0.0) < 0.05
    assert 0.15 < change(0.3) < change(1.0)


def test_a_trace_remembers_the_workload_it_was_drawn_from() -> None:
    """The law, its numbers and their source go into the provenance."""
    trace = synthetic_trace(PRESET, get_model("deepseek-v2"), 4, 2, 0)
    assert trace.name == "workload trimoe-skew"
    assert trace.facts == {"workload": PRESET.facts()}
    assert set(PRESET.facts()) == {"name", "skew", "drift", "source"}
