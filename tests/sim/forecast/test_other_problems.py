"""Futures of placement, cache and bitwidth instances: valid, alike, and of the stated means."""

from collections import Counter

import numpy as np
import pytest

from moeopt import Futures, bitwidth, cache, placement
from tests.rooms.bitwidth import draw as bitwidth_draw
from tests.rooms.cache import draw as cache_draw
from tests.rooms.cache import own_share
from tests.rooms.placement import draw as placement_draw
from tests.rooms.placement import later as placement_later

RNG = np.random.default_rng(0)


def steps(known: placement.Known | None = None) -> placement.Instance:
    """Return 40 steps of three experts each, the first ones more often."""
    order = np.argsort(RNG.random((40, 2, 8)) ** (1 / np.arange(8, 0, -1)), axis=2)[:, :, -3:]
    tokens = np.zeros((40, 2, 8), dtype=np.int64)
    np.put_along_axis(tokens, order, 1, axis=2)
    return placement.Instance.from_arrays(
        tokens=tokens,
        gpu_slots=4,
        gpu_expert_ns=[0, 2],
        offload_expert_ns=[0, 9],
        known=known,
        name="steps",
    )


@pytest.fixture
def drawn_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let none of the steps seen be among the futures."""
    monkeypatch.setattr(placement_later, "PRIOR_STEPS", 10**9)


def test_a_part_of_the_steps_are_those_seen() -> None:
    """As stated: of 40 + 64 + 10, each as often as any other or once more; the others are drawn."""
    seen = steps()
    futures = placement_draw(seen, Futures(horizon=5), 1)(64, 0)
    assert placement.Instance.model_validate(futures.model_dump()) == futures
    there = Counter(step for step in futures.steps if step in set(seen.steps))
    expected = 320 * 40 / (40 + 64 + 10)
    assert set(there) == set(seen.steps)
    assert expected - 1 < there.total() < expected + 12  # a drawn one can be as one seen
    assert min(there.values()) >= int(expected / 40)


@pytest.mark.usefixtures("drawn_only")
def test_drawn_steps_use_experts_exactly_as_often_as_observed() -> None:
    """Nothing else is the same: who comes together is drawn; the same seed draws the same."""
    seen, rule = steps(), Futures(horizon=5)
    futures = placement_draw(seen, rule, 1)(16, 0)
    assert len(futures.steps) == 80
    assert np.abs(futures.tokens - 2 * seen.tokens).max() <= 1
    assert futures.steps == placement_draw(seen, rule, 1)(16, 0).steps
    assert futures.steps != placement_draw(seen, rule, 1)(16, 1).steps


@pytest.mark.usefixtures("drawn_only")
def test_drawn_steps_use_what_is_known_besides() -> None:
    """Counts of prompts add to those of the steps."""
    known = [[40, 0, 0, 0, 0, 0, 0, 40]] * 2
    seen = steps(placement.Known(prefill_counts=known))  # type: ignore[arg-type]
    futures = placement_draw(seen, Futures(), 0)(25, 0)
    both = seen.tokens + np.array(known)
    assert np.abs(futures.tokens / 200 - both / both.sum(axis=1)[:, None] * 3).max() < 0.02


def test_steps_of_many_tokens_keep_their_sizes() -> None:
    """An active expert has as many tokens as in some step observed."""
    tokens = np.zeros((6, 1, 5), dtype=np.int64)
    tokens[:, 0, 0] = [7, 8, 9, 7, 8, 9]
    tokens[::2, 0, 1], tokens[1::2, 0, 2] = 3, 2
    seen = placement.Instance.from_arrays(
        tokens=tokens, gpu_slots=1, gpu_expert_ns=[0, 2], offload_expert_ns=[0, 9], name="sizes"
    )
    futures = placement_draw(seen, Futures(), 0)(9, 0)
    found = [dict(step[0]) for step in futures.steps]
    assert all(step[0] in (7, 8, 9) for step in found)
    assert {expert: count for step in found for expert, count in step.items() if expert} == {
        1: 3,
        2: 2,
    }


def accesses(popularity: np.ndarray) -> cache.Instance:
    """Return 160 tokens of layers in which experts are used as often as stated."""
    rng = np.random.default_rng(1)
    used = [
        [rng.choice(8, 2, replace=False, p=row).tolist() for row in popularity] for _ in range(160)
    ]
    costs = {"gpu_ns": 2, "cpu_ns": 9, "activation_ns": 3, "fetch_ns": 5}
    return cache.Instance.from_arrays(accesses=used, experts=8, slots=9, name="used", **costs)


def test_layers_are_exchanged_as_far_as_they_are_alike() -> None:
    """Of layers alike what sets them apart is chance; where they differ it comes back."""
    alike = np.full((6, 8), 1 / 8)
    skews = np.array([np.arange(1, 9) ** float(power) for power in range(6)])
    apart = accesses(skews / skews.sum(axis=1, keepdims=True))
    assert own_share(accesses(alike)) < 0.6 < 0.95 < own_share(apart)
    futures = cache_draw(apart, Futures(), 0)(3, 0)
    assert cache.Instance.model_validate(futures.model_dump()) == futures
    assert len(futures.accesses) == 480
    kept = np.mean(futures.ids.reshape(6, 3, 160, 2) == apart.ids[:, None])
    assert kept > 0.8


def table(usage: np.ndarray) -> bitwidth.Instance:
    """Return losses that count by usage."""
    losses = np.rint(usage[:, :, None] * np.array([8000.0, 2000, 500])).astype(np.int64)
    return bitwidth.Instance.from_arrays(loss=losses, bits=[2, 3, 4], budget_bits=60, name="usage")


@pytest.mark.parametrize(("choices", "shrinks"), [(60, True), (200_000, False)])
def test_experts_not_chosen_are_expected_if_choices_were_few(choices: int, shrinks: bool) -> None:
    """The mean of the futures is Laplace's, with pseudo-choices that the table itself tells."""
    rng = np.random.default_rng(2)
    popularity = rng.dirichlet(np.full(20, 1.0), 12)
    counts = np.array([rng.multinomial(choices, row) for row in popularity])
    seen = table(counts / choices * 20)
    futures = bitwidth_draw(seen, Futures(), 0)(64, 0)
    assert bitwidth.Instance.model_validate(futures.model_dump()) == futures
    before, after = (
        np.array([[expert.loss for expert in layer.experts] for layer in of.layers], dtype=float)
        for of in (seen, futures)
    )
    if not shrinks:
        np.testing.assert_array_equal(after, 64 * before)
        return
    mean = after[:, :, 0] / 64 / 8000 / 20
    exact = (counts + 1) / (choices + 20)
    assert np.abs(mean - exact).max() < 0.03
    assert mean[counts == 0].min() > 0.002
    np.testing.assert_allclose(after[:, :, 1] * 4, after[:, :, 0], rtol=1e-3)
