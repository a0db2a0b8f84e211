"""A plan's times by the cost model: what a step costs besides its routed experts."""

import pytest

from moeopt.core.errors import InputError
from moeopt.sim.machines.layer_cost import layer_costs
from moeopt.sim.plan import times_of_model
from moeopt.sim.presets import get_machine, get_model


def test_dense_layers_and_head_are_due_once_per_step() -> None:
    """DeepSeek-V3 has 61 layers, the first 3 without experts: 3 x (attention + dense) + head."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    cost, times = layer_costs(machine, model, 2, 500), times_of_model(machine, model, 2, 500)
    assert times.attention_ns == (cost.attention_ns,)
    assert times.to_host_ns == times.to_gpu_ns == (cost.sync_ns,)
    assert times.step_ns == 3 * (cost.attention_ns + cost.dense_ns) + cost.head_ns
    assert cost.sync_ns > 0
    assert cost.head_ns > 0


def test_a_longer_context_takes_longer() -> None:
    """The KV cache is read."""
    machine, model = get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")
    short, long = (times_of_model(machine, model, 1, context) for context in (0, 100_000))
    assert long.attention_ns > short.attention_ns
    assert long.step_ns == short.step_ns


def test_a_negative_context_is_named() -> None:
    """One line."""
    with pytest.raises(InputError, match="context: must be at least 0, not -1"):
        times_of_model(get_machine("trimoe"), get_model("mixtral-8x7b"), 1, -1)
