"""joint instances: costs of the machine, budgets as stated, losses that count the same way."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine, run_on
from tests.rooms.core import GIB
from tests.rooms.joint import HEURISTICS, UNIT, Instance, assume, objective, violations
from tests.rooms.sim import (
    Trace,
    get_model,
    step_costs,
)

LITE: dict[str, Any] = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite"}


def trace(tokens: int = 24, layers: int = 3, weights: bool = True) -> Trace:
    """Return a random trace of DeepSeek-V2-Lite's shape, cut to few layers."""
    rng = np.random.default_rng(0)
    ids = rng.permuted(np.tile(np.arange(64), (tokens, layers, 1)), axis=2)[:, :, :6]
    drawn = np.sort(rng.random(ids.shape), axis=2)[:, :, ::-1] if weights else None
    return Trace("drawn", ids, drawn)


def made(**arguments: Any) -> Instance:
    """Return an instance of DeepSeek-V2-Lite at 24 GB unless told otherwise."""
    return moeopt.generate("joint", **(LITE | {"trace": trace(), "steps": 8} | arguments))


def test_costs_are_those_of_the_machine() -> None:
    """By width and tokens; attention with the context, and everything else once per step."""
    instance = made(bits="4,8", batch=2, context=1000)
    machine, model = get_machine("rtx4090-7960x"), get_model("deepseek-v2-lite")
    for j, bits in enumerate((4, 8)):
        shape = model.quantized(bits)
        most = len(instance.gpu_ns[j]) - 1
        tokens = np.arange(1, most + 1)
        assert instance.gpu_ns[j][1:] == tuple(
            step_costs(machine, shape).path_ns("gpu_hit", tokens)
        )
        assert instance.cpu_ns[j][1:] == tuple(
            step_costs(machine, shape).path_ns("cpu_striped", tokens)
        )
        assert instance.expert_bytes[j] == shape.expert_bytes
    cost = step_costs(machine, model).layer(2, 1000)
    context = instance.contexts[0]
    assert context.attention_ns == (cost.attention_ns,) * 3
    assert context.step_ns == cost.attention_ns + cost.dense_ns + cost.head_ns
    assert context.kv_bytes == model.layers * 2 * model.kv_bytes(1000)
    assert instance.gpu_bytes == 24 * GIB - model.resident_bytes - GIB


def test_scores_of_a_token_sum_to_one_and_fall() -> None:
    """Deferring all of a layer's experts loses the price of its whole output."""
    for weights in (True, False):
        for price in ("1", "0.04", "0"):
            instance = made(trace=trace(weights=weights), deferral_price=price)
            for step in instance.steps:
                for active in step:
                    losses = [loss for _, _, loss in active]
                    assert losses == sorted(losses, reverse=True)
                    assert abs(sum(losses) - float(price) * UNIT) <= 6
    assert made(quality_loss=0.1).max_loss == int(0.1 * 8 * 3 * UNIT)


def test_losses_of_widths_count_by_scores() -> None:
    """An expert that no step uses loses nothing; wide weights lose less in sum."""
    instance = made(bits="2,8")
    loss = np.array(instance.width_loss)
    used = {
        (layer, e) for step in instance.steps for layer, row in enumerate(step) for e, *_ in row
    }
    for layer in range(3):
        for e in range(64):
            assert (layer, e) in used or not loss[layer, e].any()
    assert loss[:, :, 0].sum() > 10 * loss[:, :, 1].sum() > 0
    assert made().width_loss is None
    assert not np.array(made(bits="8,16", share=0.5).width_loss)[:, :, 1].any()  # the model's own


def test_absolute_losses_count_as_shares_of_what_one_bit_loses(tmp_path: Path) -> None:
    """By layer, if the table has one bit; a table without it has shares."""
    drawn = np.random.default_rng(0).uniform(1, 2, (3, 64, 1))
    for bits, scale in (((1, 2, 4), 0.6), ((1, 2, 4), 0.0), ((2, 4), 0.6)):
        falls = np.array([7.0, 3.0, 1.0])[-len(bits) :]
        losses = drawn * falls * np.array([1.0, 10.0, 100.0])[:, None, None]
        moeopt.save({"bits": bits, "loss": losses.tolist()}, tmp_path / "t.json")
        options = {"loss_table": tmp_path / "t.json", "one_bit_loss": scale, "bits": "2,4"}
        found = np.array(made(**options, share=0.5).width_loss)
        if scale and 1 in bits:
            losses = losses / losses[:, :, :1].mean(axis=1, keepdims=True) * scale
        scores = np.zeros((3, 64))
        for step in made(deferral_price="1").steps:
            for layer, active in enumerate(step):
                for expert, _, score in active:
                    scores[layer, expert] += score
        assert np.allclose(found, losses[:, :, -2:] * scores[:, :, None], rtol=1e-4, atol=5000)


def test_the_kv_cache_may_have_several_widths() -> None:
    """A narrow one takes less memory and has the stated loss."""
    instance = made(kv_bits="16,8", kv_losses="0,7", context=4096)
    wide, narrow = instance.contexts
    assert wide.kv_bytes == 2 * narrow.kv_bytes
    assert (wide.kv_loss, narrow.kv_loss) == (0, 7)


def test_every_rule_finds_a_plan_and_it_outlasts_its_steps() -> None:
    """On the steps decided on a plan costs no more than it says, on later ones something else."""
    options = {"share": 0.4, "max_deferred": 2, "max_ways": 4, "quality_loss": 0.02}
    now, later = made(**options), made(**options, first_step=8)
    changed = set()
    for name, rule in HEURISTICS.items():
        plan = rule(now)
        assert plan is not None
        assert violations(now, plan) == []
        assert run_on(now, plan) <= objective(now, plan)
        if run_on(later, plan) != run_on(now, plan):
            changed.add(name)
    assert {"frequency", "in-turn", "grid"} <= changed  # whole layers serve any step alike


def test_another_price_of_deferral_without_the_trace() -> None:
    """Nothing can be made of what is there; other prices need the trace."""
    instance = made()
    free = assume(instance, "deferral_price", "0")
    assert free == made(deferral_price="0").model_copy(update={"provenance": instance.provenance})
    assert assume(instance, "deferral_price", "0.04") is instance
    assert assume(instance, "deferral_price", "1") is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"steps": 25}, "steps: drawn has 24 steps, not 25"),
        ({"layers": 4}, "layers: drawn has 3, not 4"),
        ({"bits": "4;8"}, "bits: must be whole numbers"),
        ({"kv_bits": "16,8", "kv_losses": "0"}, "kv_losses: must be one per width, 2, not 1"),
        ({"model": "deepseek-v3", "trace": None, "workload": "trimoe-skew"}, "do not fit"),
    ],
)
def test_what_does_not_fit_is_one_line(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        made(**arguments)
    assert "\n" not in str(caught.value)
