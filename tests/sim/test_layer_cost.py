"""What a layer costs besides its routed experts, against KTransformers' figures and by hand."""

from typing import Any

import pytest

from moeopt import get_machine
from tests.refusals import refused
from tests.rooms.sim import (
    get_model,
    step_costs,
)
from tests.rooms.sim import preset_names as names
from tests.shares import first


def test_a_layer_of_deepseek_v3_is_that_of_the_papers_timeline() -> None:
    """KTransformers 4.2 at 5.87 tokens/s: 2.80 ms per layer, GPU 28 %, CPU 74 %, transfers 3 %."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    layer = step_costs(machine, model).layer(quantum_ns=1)
    # 100 us + 374,210,560 B / (0.44 x 1,555 GB/s) = 646,931.9 ns
    assert layer.attention_ns == 646_932
    # 88,080,384 B / (0.8 x 1,555 GB/s) = 70,804.2 ns
    assert layer.shared_ns == 70_805
    # 3 x 7168 x 18432 x 2 B and 129280 x 7168 x 2 B at the same rate
    assert (layer.dense_ns, layer.head_ns) == (637_238, 1_489_838)
    assert layer.sync_ns == 42_000
    experts = 8 * int(step_costs(machine, model).path_ns("cpu_striped", 1, 1))
    period = layer.attention_ns + 2 * layer.sync_ns + experts
    assert period == pytest.approx(2.80e6, rel=0.05)
    assert experts / period == pytest.approx(0.74, rel=0.05)
    # deferring three saturates the CPU and saves 26 % (K2)
    assert 1 - experts / period == pytest.approx(0.26, rel=0.05)


def test_mixtral_outside_the_experts_takes_20_ms_a_token_on_the_collaborative_machine() -> None:
    """32 layers of 0.625 ms; activations 0.11 ms per layer (Table III)."""
    layer = step_costs(get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")).layer(quantum_ns=1)
    assert 32 * layer.attention_ns == pytest.approx(20e6, rel=0.01)
    assert (layer.sync_ns, layer.shared_ns, layer.dense_ns) == (110_000, 0, 0)


def test_a_kv_cache_is_read_once_per_token() -> None:
    """1,000 tokens of Mixtral's 4,096 B for each of 3 readers, at 1,008 GB/s."""
    machine, model = get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")
    more = step_costs(machine, model).attention_s(3, 1000) - step_costs(machine, model).attention_s(
        3
    )
    assert more == pytest.approx(3 * 1000 * 4096 / 1008e9)


def test_many_tokens_are_computed_and_not_read() -> None:
    """At 4,096 tokens: 2 x 41,943,040 x 4,096 / (0.6 x 165.2e12), and 542 us."""
    machine, model = get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")
    expected = 542e-6 + 2 * 41_943_040 * 4096 / (0.6 * 165.2e12)
    assert step_costs(machine, model).attention_s(4096) == pytest.approx(expected)


def test_one_large_shared_expert_counts_in_full() -> None:
    """Qwen2-57B's 20,480 wide: 3 x 3584 x 20480 x 2 B / (0.8 x 1,555 GB/s) = 354,020.2 ns."""
    layer = step_costs(get_machine("ktransformers-a100"), get_model("qwen2-57b-a14b")).layer(
        1, 0, 1
    )
    assert layer.shared_ns == 354_021


@pytest.mark.parametrize("machine", first(5, names("machines")))
def test_every_layer_has_its_cost_on_every_machine(machine: str) -> None:
    """All multiples of the quantum, attention and head above 0; more context is no cheaper."""
    for shape in map(get_model, names("models")):
        layer = step_costs(get_machine(machine), shape).layer(tokens=16, context=100)
        assert min(layer.attention_ns, layer.head_ns) > 0, shape.name
        assert (layer.shared_ns > 0) == (shape.shared_experts > 0), shape.name
        assert (layer.dense_ns > 0) == (shape.dense_layers > 0), shape.name
        assert all(value % 5000 == 0 for value in vars(layer).values()), shape.name
        longer = step_costs(get_machine(machine), shape).layer(tokens=16, context=10_000)
        assert longer.attention_ns >= layer.attention_ns, shape.name


@pytest.mark.parametrize("kind", ["attention", "shared", "dense", "head"])
def test_every_kind_of_tensor_costs_what_its_own_width_says(kind: str) -> None:
    """At a 32nd of the bits this part alone is faster, and all others cost the same."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    narrow = model.model_copy(update={f"{kind}_bits": 0.5})
    before, after = (vars(step_costs(machine, m).layer(quantum_ns=1)) for m in (model, narrow))
    assert {name for name in before if before[name] != after[name]} == {f"{kind}_ns"}
    assert after[f"{kind}_ns"] < before[f"{kind}_ns"]


def test_the_engine_charges_shared_experts_at_their_own_width() -> None:
    """Routed experts of 0.5 bits leave them as they are; their own width does not."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v2-lite")

    def seconds(**bits: float) -> float:
        shape = model.model_copy(update={"expert_bits": 16.0, "other_bits": 16.0} | bits)
        return step_costs(machine, shape).shared_s(1)

    assert seconds() == seconds(expert_bits=0.5) > seconds(shared_bits=0.5)


@pytest.mark.parametrize(
    ("changes", "options", "says"),
    [
        ({"attention": None}, {}, "model deepseek-v3: attention: is missing; its cost is asked"),
        ({"vocab_size": None}, {}, "model deepseek-v3: vocab_size: is missing"),
        ({"dense_intermediate_size": None}, {}, "deepseek-v3: dense_intermediate_size: is miss"),
        ({}, {"tokens": 0}, "tokens: must be at least 1, not 0"),
        ({}, {"context": -1}, "context: must be at least 0, not -1"),
    ],
)
def test_what_the_costs_need_is_named(
    changes: dict[str, Any], options: dict[str, int], says: str
) -> None:
    """A shape without attention or vocabulary still has expert costs, but not these."""
    model = get_model("deepseek-v3").model_copy(update=changes)
    assert says in refused(step_costs(get_machine("trimoe"), model).layer, **options)
