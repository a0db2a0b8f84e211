"""Skew, shares and coverage: by hand, and against plain counting."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from moeopt import InputError
from tests.real_traces import real_trace_file
from tests.rooms.sim import Routing, Trace
from tests.rooms.sim import loads_module as load
from tests.sim.small_traces import routing_of, small_traces, trace_of


@settings(max_examples=60)
@given(small_traces())
def test_loads_are_those_of_plain_counting(made: tuple[Trace, int]) -> None:
    """Gaps do not count and an expert listed twice counts once, in every step and in all."""
    trace, experts = made
    routing = Routing.of(trace, experts)
    by_step = load.step_loads(routing, 4)
    number = trace.tokens // 4
    assert by_step.shape == (trace.layers, number, experts)
    for layer in range(trace.layers):
        whole: Counter[int] = Counter()
        parts: list[Counter[int]] = [Counter() for _ in range(number)]
        for token in range(trace.tokens):
            mine = {int(e) for e in trace.topk_ids[token, layer] if e >= 0}
            whole.update(mine)
            if token // 4 < number:
                parts[token // 4].update(mine)
        assert load.loads(routing)[layer].tolist() == [whole[e] for e in range(experts)]
        for step, part in enumerate(parts):
            assert by_step[layer, step].tolist() == [part[e] for e in range(experts)]


def test_skew_and_shares_by_hand() -> None:
    """Ten experts with loads 30, 10, 10, 0, ..., 0."""
    counts = np.array([[30, 10, 10, 0, 0, 0, 0, 0, 0, 0]])
    assert load.skew(counts).tolist() == [6.0]
    assert load.top_share(counts, 0.1).tolist() == [0.6]
    assert load.top_share(counts, 0.2).tolist() == [0.8]
    assert load.cold_share(counts).tolist() == [0.0]
    assert load.cold_share(counts, 0.9).tolist() == [0.4]


def test_class_shares_rank_anew_in_every_step() -> None:
    """Two steps that use one expert each: within each all is hot, though over both it is not."""
    ids = [[0]] * 5 + [[1]] * 5
    routing = routing_of(ids, experts=20)
    assert load.step_class_shares(load.step_loads(routing, 5))["hot"].tolist() == [1.0]
    assert load.step_class_shares(load.step_loads(routing, 10))["hot"].tolist() == [0.5]


def test_coverage_by_hand() -> None:
    """Half of 2 x 4 experts: two in each layer, or the four best, three of them in layer 0."""
    counts = np.array([[9, 8, 7, 0], [6, 1, 1, 0]])
    assert load.coverage(counts, 0.5) == (pytest.approx(24 / 32), pytest.approx(30 / 32))
    assert load.coverage(counts, 3 / 8) == (pytest.approx(23 / 32), pytest.approx(24 / 32))
    assert load.coverage(counts, 0.0) == (0.0, 0.0)
    assert load.coverage(counts, 1.0) == (1.0, 1.0)


def test_a_global_choice_never_covers_less() -> None:
    """The best of all layers together contains every quota's total."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        counts = rng.integers(0, 20, size=(3, 5)) + np.eye(3, 5, dtype=int)
        quota, best = load.coverage(counts, float(rng.random()))
        assert quota <= best + 1e-12


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"experts": 3}, "experts: must be above the trace's expert 4, not 3"),
        ({"layers": [1]}, "layer: must be from 0 to 0, not 1"),
    ],
)
def test_unusable_questions_are_refused(arguments: dict[str, object], message: str) -> None:
    """One line that names the field."""
    with pytest.raises(InputError) as error:
        Routing.of(trace_of([[4]]), **arguments)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_unusable_traces_are_refused() -> None:
    """No experts at all, and sequences that do not add up."""
    with pytest.raises(InputError, match="no token has an expert"):
        routing_of([[-1], [-1]])
    with pytest.raises(InputError, match="does not add up to 2 tokens"):
        routing_of([[0], [1]], lengths=[1])


def test_the_main_expert_is_the_one_of_the_largest_weight() -> None:
    """Without weights the first listed one."""
    ids = np.array([[[3, 1]], [[0, -1]]])
    assert routing_of(ids).main.tolist() == [[3, 0]]
    weighted = Trace(name="w", topk_ids=ids, topk_weights=np.array([[[0.2, 0.5]], [[0.1, 0.9]]]))
    assert Routing.of(weighted).main.tolist() == [[1, 0]]


@pytest.mark.parametrize(
    ("file", "skew", "cold"),
    [
        ("esft_deepseek_v2_lite/law.npz", (3.5, 5.6), (0.40, 0.50)),
        ("esft_deepseek_v2_lite/intent.npz", (3.5, 5.6), (0.40, 0.50)),
        ("esft_deepseek_v2_lite/summary.npz", (3.5, 5.6), (0.40, 0.50)),
        ("hdmoe_mixtral_8x7b/writing.npz", (1.1, 1.4), (0.64, 0.70)),
        ("hdmoe_mixtral_8x7b/coding.npz", (1.1, 1.3), (0.64, 0.70)),
    ],
)
def test_skew_of_real_traces(
    file: str, skew: tuple[float, float], cold: tuple[float, float]
) -> None:
    """Mean over layers within the known ranges, and equal to a plain count."""
    with np.load(real_trace_file(file)) as arrays:
        ids = arrays["topk_ids"]
    counts = load.loads(Routing.of(Trace(name="real", topk_ids=ids)))
    plain = []
    for layer in range(ids.shape[1]):
        used = sorted(Counter(ids[:, layer].ravel().tolist()).values())
        plain.append(used[-1] * len(used) / sum(used))
    assert load.skew(counts) == pytest.approx(plain)
    assert skew[0] <= load.skew(counts).mean() <= skew[1]
    assert cold[0] <= load.cold_share(counts).mean() <= cold[1]
