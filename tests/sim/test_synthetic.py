"""Workloads with memory: each parameter moves its own statistic and leaves the skew alone."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from tests.rooms.sim import (
    ModelShape,
    Recall,
    Routing,
    Sequences,
    Topic,
    Trace,
    Workload,
    affinity,
    average,
    cold_share,
    find,
    get_model,
    loads,
    lru_hits,
    phase_similarity,
    reuse,
    routing_trace,
    skew,
    step_correlation,
    step_loads,
    synthetic_trace,
)
from tests.rooms.sim import preset_names as names

RECALL = Recall(probability=0.6, strength=0.5, decay=1.6)
HALVES = Sequences(tokens=128, decode_share=0.5)


def workload(**changed: Any) -> Workload:
    """Return a workload of moderate skew with some parameters changed."""
    return Workload(
        **({"name": "w", "skew": 3.0, "drift": 0.0, "source": "made up for a test"} | changed)
    )


def drawn(made: Workload, tokens: int = 6000, layers: int = 3, seed: int = 5) -> Trace:
    """Return a trace of 32 experts, four per token."""
    return routing_trace(made, 32, 4, layers, tokens, seed)


def figure(function: Callable[[Routing], Any], made: Workload, **size: int) -> float:
    """Return a statistic of a drawn trace, averaged over layers."""
    return average(np.asarray(function(Routing.of(drawn(made, **size), 32))))


RICH = workload(
    recall=RECALL, topic=Topic(share=0.1), sequences=HALVES, affinity=0.5, layer_scale=(0.8, 1.2)
)


def test_a_seed_gives_one_trace() -> None:
    """Ids, weights and sequences; another seed gives another trace."""
    first, again, other = (drawn(RICH, 300, seed=seed) for seed in (1, 1, 2))
    for key in ("topk_ids", "topk_weights", "seq_len", "decode"):
        assert np.array_equal(getattr(first, key), getattr(again, key)), key
    assert not np.array_equal(first.topk_ids, other.topk_ids)


def test_tokens_have_different_experts_and_weights_that_sum_to_one() -> None:
    """By falling weight, at every layer."""
    trace = drawn(RICH, 500)
    ids = np.sort(trace.topk_ids, axis=2)
    assert (np.diff(ids, axis=2) > 0).all()
    assert 0 <= ids.min() <= ids.max() < 32
    assert trace.topk_weights.sum(axis=2) == pytest.approx(1, abs=1e-5)
    assert (np.diff(trace.topk_weights, axis=2) <= 0).all()


def test_sequences_fill_the_trace_and_mark_decode() -> None:
    """Equal lengths without spread, the last one cut; the second half of each is decoded."""
    trace = drawn(workload(sequences=HALVES), 300, layers=1)
    assert trace.seq_len.tolist() == [128, 128, 44]
    assert np.flatnonzero(np.diff(trace.decode.astype(int))).tolist() == [63, 127, 191, 255, 277]
    spread = drawn(workload(sequences=Sequences(tokens=20, spread=0.5)), 5000, layers=1)
    assert spread.seq_len.sum() == 5000
    assert np.median(spread.seq_len) == pytest.approx(20, abs=2)
    assert np.log(spread.seq_len).std() == pytest.approx(0.5, abs=0.06)
    assert spread.decode is None


def test_memory_leaves_the_popularity_as_it_is() -> None:
    """Each token looked at alone follows the law: same skew and cold share, many seeds."""
    quick = workload(
        recall=Recall(probability=0.9, strength=0.8, decay=1.5),
        topic=Topic(share=0.3),
        sequences=Sequences(tokens=10),
        affinity=0.9,
    )
    skews, shares = [], []
    for made in (workload(), quick):
        counts = [loads(Routing.of(drawn(made, seed=seed), 32)) for seed in range(4)]
        skews.append(np.mean([average(skew(count)) for count in counts]))
        shares.append(np.mean([average(cold_share(count)) for count in counts]))
    assert skews[1] == pytest.approx(skews[0], abs=0.07)
    assert shares[1] == pytest.approx(shares[0], abs=0.012)


def test_recall_makes_tokens_reuse_experts() -> None:
    """More often with the probability, and more of them with the strength."""
    plain, seldom, often, strong = (
        figure(lambda r: reuse(r).each, w)
        for w in (
            workload(),
            workload(recall=Recall(probability=0.3, strength=0.5, decay=5.0)),
            workload(recall=Recall(probability=0.9, strength=0.5, decay=5.0)),
            workload(recall=Recall(probability=0.9, strength=0.9, decay=5.0)),
        )
    )
    assert plain + 0.05 < seldom < often - 0.1
    assert often < strong - 0.1


def test_all_of_a_recall_of_the_token_before_is_the_token_before() -> None:
    """Probability and strength 1 and a window of one token: one choice per sequence."""
    made = workload(
        recall=Recall(probability=1.0, strength=1.0, decay=1.0, window=1),
        sequences=Sequences(tokens=10),
    )
    ids = drawn(made, 100).topk_ids.reshape(10, 10, 3, 4)
    assert (ids == ids[:, :1]).all()
    assert (ids[1:, 0] != ids[:-1, 0]).any(axis=(1, 2)).all()


def test_slow_decay_reaches_farther_back() -> None:
    """With the same share of recalls a large cache gains where the small one loses."""
    near, far = (
        figure(lambda r: reuse(r).each, workload(recall=r))
        for r in (RECALL.model_copy(update={"decay": 6.0}), RECALL.model_copy(update={"decay": 1}))
    )
    assert far < near - 0.03
    after_eight = [
        figure(
            lambda r: lru_hits(r).each[:, 15] - lru_hits(r).each[:, 3],
            workload(recall=RECALL.model_copy(update={"decay": decay})),
        )
        for decay in (6.0, 1.0)
    ]
    assert after_eight[1] > after_eight[0] + 0.01


def test_affinity_ties_layers_and_leaves_time_alone() -> None:
    """From nothing to the same choice in every layer; reuse stays."""
    made = [workload(recall=RECALL, affinity=share) for share in (0.0, 0.5, 1.0)]
    none, half, full = (figure(lambda r: affinity(r, "main"), w) for w in made)
    assert abs(none) < 0.02
    assert 0.1 < half < 0.7
    assert full == pytest.approx(1, abs=0.12)
    again = [figure(lambda r: reuse(r).each, w) for w in made]
    assert again == pytest.approx([again[0]] * 3, abs=0.01)


def test_topics_make_phases_alike_as_far_as_decode_keeps_them() -> None:
    """The cosine rises with the share of the topic that is kept, and not without a topic."""

    def cosine(topic: Topic | None) -> float:
        made = workload(topic=topic, sequences=HALVES)
        return figure(lambda r: phase_similarity(r)[0], made)

    none = cosine(None)
    lost, half, kept = (
        cosine(Topic(share=0.4, phase_similarity=share)) for share in (0.0, 0.5, 1.0)
    )
    assert lost < half - 0.02 < kept - 0.04
    assert lost < none - 0.05


def test_drift_moves_the_loads_from_batch_to_batch() -> None:
    """The correlation of consecutive steps falls with the drift."""
    model = get_model("deepseek-v2-lite").model_dump() | {"layers": 3, "dense_layers": 0}
    shape = ModelShape.model_validate(model)

    def correlation(drift: float) -> float:
        trace = synthetic_trace(workload(drift=drift, recall=RECALL), shape, 500, 6, 1)
        assert trace.topk_ids.shape == (3000, 3, 6)
        routing = Routing.of(trace, 64)
        return average(step_correlation(step_loads(routing, 500)))

    assert correlation(1.5) < correlation(0.5) - 0.05 < correlation(0.0) - 0.1


def test_shape_and_scale_bend_the_law() -> None:
    """Stretched over experts and layers: by hand."""
    made = workload(skew=0.0, shape=(0.0, -1.0), layer_scale=(1.0, 3.0))
    law = made.popularity(4, 2)
    assert law[0].tolist() == pytest.approx([0, -0.25, -0.75, -1])
    assert law[1].tolist() == pytest.approx([0, -0.75, -2.25, -3])
    assert workload(skew=2.0).popularity(4, 1).tolist() == [[0, -0.5, -1.0, -1.5]]
    by_layer = skew(loads(Routing.of(drawn(workload(layer_scale=(0.2, 1.0, 2.0))), 32)))
    assert by_layer[0] < by_layer[1] < by_layer[2]


def test_the_hottest_expert_is_another_one_in_each_layer() -> None:
    """Which experts are popular is drawn for each layer, also where the affinity is full."""
    trace = drawn(workload(affinity=1.0), 2000, layers=8)
    hottest = loads(Routing.of(trace, 32)).argmax(axis=1)
    assert len(set(hottest.tolist())) > 4


def test_an_empty_trace_can_be_drawn() -> None:
    """No tokens, no error."""
    assert drawn(RICH, tokens=0).topk_ids.shape == (0, 3, 4)


@pytest.mark.parametrize("name", sorted(set(names("workloads")) - {"trimoe-skew"}))
def test_fitted_presets_give_all_layers_of_their_model(name: str) -> None:
    """They are reached through the same function as the plain ones and name origin and licence."""
    preset = find("workloads", Workload, name)
    trace = synthetic_trace(preset, get_model("deepseek-v2-lite"), 32, 2, 0)
    assert trace.topk_ids.shape == (64, 26, 6)
    assert re.search(r"MIT|Apache-2\.0", preset.source)
    assert trace.facts == {"workload": preset.facts()}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"affinity": 1.5}, "affinity"),
        ({"recall": {"probability": 0.5, "strength": 0.5}}, "decay"),
        ({"sequences": {"tokens": 0}}, "tokens"),
        ({"skew": float("nan")}, "skew"),
    ],
)
def test_wrong_parameters_are_refused(changed: dict[str, Any], field: str) -> None:
    """Out of range, unknown, missing or of the wrong kind: the field is named."""
    with pytest.raises(ValidationError) as error:
        workload(**changed)
    assert field in {str(part) for part in error.value.errors()[0]["loc"]}
