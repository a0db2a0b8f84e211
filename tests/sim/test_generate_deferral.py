"""deferral instances: reproducible, at the right costs, with the counts that were published."""

from typing import Any

import numpy as np
import pytest

import moeopt
from benchmarks.papers.ktransformers.cycle import cycle_ns
from benchmarks.papers.ktransformers.step import PUBLISHED, Configuration
from moeopt import get_machine
from tests.refusals import refused
from tests.rooms.deferral import BITS, Instance, assume, saturate
from tests.rooms.sim import (
    Trace,
    get_model,
    step_costs,
)

V3: dict[str, Any] = {"machine": "ktransformers-a100", "model": "deepseek-v3"}


def made(**arguments: Any) -> Instance:
    """Return an instance, for DeepSeek-V3 on the A100 unless told otherwise."""
    return moeopt.generate("deferral", **(V3 | arguments))


@pytest.mark.parametrize("published", PUBLISHED, ids=lambda p: f"{p.model}-{p.precision}")
@pytest.mark.parametrize("quantum_ns", [1, 5000])
def test_the_published_counts_come_out(published: Configuration, quantum_ns: int) -> None:
    """KTransformers 6.3, all six (K6, K7, K8); three of them are the cap top_k - 2."""
    instance = made(
        machine=published.machine,
        model=published.model,
        precision=published.precision,
        quantum_ns=quantum_ns,
    )
    chosen = saturate(instance)
    assert set(chosen.deferred[:-1]) == {published.published}
    assert instance.layers == len(get_model(published.model).moe_layers)


def test_saturating_cuts_a_layer_of_deepseek_v3_by_a_quarter() -> None:
    """K2, from bytes and bandwidths: 25 to 27 % less per layer at 3, nothing more at 4."""
    instance = made(quantum_ns=1)
    periods = [cycle_ns(instance, [d] * instance.layers) for d in range(5)]
    assert 0.25 <= 1 - periods[3] / periods[0] <= 0.27
    assert 0.18 <= 1 - periods[2] / periods[0] <= 0.20
    assert periods[4] == periods[3]


def test_times_are_those_of_the_cost_model() -> None:
    """Of all weights quantized, at the context; every layer alike, without variation."""
    instance = made(precision="int4", context=1000, quantum_ns=7, machine="ktransformers-4080")
    machine, model = get_machine("ktransformers-4080"), get_model("deepseek-v3").quantized(4, 4)
    cost = step_costs(machine, model).layer(1, 1000, quantum_ns=7)
    assert set(instance.attention_ns) == {cost.attention_ns}
    assert set(instance.shared_ns) == {cost.shared_ns}
    assert set(instance.sync_ns) == {cost.sync_ns}
    assert set(instance.expert_cpu_ns) == {
        int(step_costs(machine, model).path_ns("cpu_striped", 1, 7))
    }
    assert (instance.top_k, instance.min_immediate, instance.penalty) == (8, 2, tuple(range(7)))
    assert BITS == {"bf16": 16, "int8": 8, "int4": 4}


def test_variation_is_as_wide_as_asked_for() -> None:
    """Over many seeds the mean stays and the coefficient of variation is 0.3; hand-overs alike."""
    plain = made(quantum_ns=1)
    for name in ("attention_ns", "shared_ns", "expert_cpu_ns"):
        times = np.array(
            [getattr(made(variation=0.3, seed=seed, quantum_ns=1), name) for seed in range(40)]
        )
        assert times.mean() == pytest.approx(getattr(plain, name)[0], rel=0.03)
        assert times.std() / times.mean() == pytest.approx(0.3, rel=0.1)
    assert set(made(variation=0.3, quantum_ns=1).sync_ns) == set(plain.sync_ns)
    assert made(variation=0.3, seed=1) != made(variation=0.3, seed=2)


def test_penalties_and_their_limit() -> None:
    """Squares, and a tenth of the largest sum: 0.1 x 36 x 9 layers of 10."""
    instance = made(penalty="quadratic", penalty_share=0.1, layers=10)
    assert instance.penalty == (0, 1, 4, 9, 16, 25, 36)
    assert (instance.layers, instance.max_total_penalty) == (10, 32)
    assert made().max_total_penalty is None
    linear = made(penalty="linear", penalty_share=0.1, layers=10)
    again = assume(linear, "penalty", "quadratic")
    assert again.model_copy(update={"provenance": instance.provenance}) == instance.model_copy(
        update={"name": again.name}
    )
    assert assume(linear, "penalty", "linear") == linear
    assert assume(linear.model_copy(update={"max_total_penalty": 1}), "penalty", "linear") is None
    assert assume(linear.model_copy(update={"provenance": None}), "penalty", "linear") is None


def test_the_batch_rule_by_hand() -> None:
    """Two tokens, one layer. Experts {0..7} and {0, 8..14}; the first two of each stay: {0, 1, 8}.

    15 used, 3 protected. By weight instead of by order others are protected.
    """
    first, second = list(range(8)), [0, *range(8, 15)]
    trace = Trace("two", np.array([[first], [second]]))
    instance = made(trace=trace, batch=2, layers=1)
    assert (instance.top_k, instance.min_immediate) == (15, 3)
    rule = (instance.provenance or {})["batch_rule"]
    # With one deferred per token: 7 protected each, {0..6} and {0, 8..13}: 13 of 15.
    assert rule["deferred_per_token"] == [0, 1, 2, 3, 4, 5, 6]
    assert rule["experts_deferred"] == [0, 2, 4, 6, 8, 10, 12]
    weights = np.array([[[1, 2, 3, 4, 5, 6, 7, 8]], [[1, 2, 3, 4, 5, 6, 7, 8]]]) / 36
    weighted = made(trace=Trace("two", trace.topk_ids, weights), batch=2, layers=1)
    assert (weighted.top_k, weighted.min_immediate) == (15, 4)
    machine, model = get_machine(V3["machine"]), get_model(V3["model"])
    work = step_costs(machine, model).path_ns("cpu_striped", [1] * 14 + [2], 1).sum()
    assert abs(15 * instance.expert_cpu_ns[0] - work) <= 15 * 5000


def test_deferral_shrinks_as_the_batch_grows() -> None:
    """The share of a batch's experts that may be deferred falls; alike tokens change nothing."""
    shares = []
    for batch in (1, 4, 16, 64):
        instance = made(workload="trimoe-skew", batch=batch, layers=8)
        shares.append(1 - instance.min_immediate / instance.top_k)
    assert shares == sorted(shares, reverse=True)
    assert shares[0] == 0.75
    assert shares[-1] < 0.6
    alike = Trace("alike", np.tile(np.arange(8), (4, 2, 1)))
    instance = made(trace=alike, batch=4, layers=2)
    assert (instance.top_k, instance.min_immediate) == (8, 2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layers": 59}, "layers: deepseek-v3 has 58 with experts, not 59"),
        ({"min_immediate": 9}, "min_immediate: must be at most top_k = 8"),
        ({"batch": 2}, "trace, workload: one of the two is missing"),
        ({"precision": "int3"}, "precision"),
        ({"batch": 5, "trace": Trace("t", np.zeros((4, 58, 8), int))}, "batch: needs 5 tokens"),
        ({"batch": 2, "trace": Trace("t", np.zeros((4, 3, 8), int))}, "2 tokens in 58 layers"),
        ({"batch": 2, "trace": Trace("t", np.zeros((4, 58, 6), int))}, "6 per token in a top-8"),
        ({"machine": "trimoe", "model": "mixtral-8x7b", "variation": -1.0}, "variation"),
    ],
)
def test_what_does_not_fit_is_named(arguments: dict[str, Any], says: str) -> None:
    """One clear line."""
    assert says in refused(made, **arguments)
