"""KTransformers and its baselines run as systems: stages of Fig. 14, prompts and replies."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from benchmarks.papers import whole
from benchmarks.papers.cxl import end_to_end as cxl
from benchmarks.papers.edge import end_to_end as edge
from benchmarks.papers.ktransformers import deferring
from benchmarks.papers.ktransformers.end_to_end import (
    FIDDLER_LAYER_MS,
    MECHANISMS,
    Case,
    decode_s,
    prefill_s,
    with_framework,
)
from benchmarks.papers.ktransformers.fiddler_layer import MODEL
from benchmarks.rooms.sim import get_model, step_costs
from moeopt import get_machine
from tests.benchmarks.papers.nearness import value_of

SHORT = Case("qwen2-57b-a14b", prompt=512)


def test_each_mechanism_is_no_slower_than_without() -> None:
    """Of both phases; the queue changes nothing where every expert has one token."""
    chain = ("fiddler", "kernels", "dynamic", "sockets", "graph", "deferral")
    decoding = [decode_s(stage, SHORT) for stage in chain]
    assert decoding == sorted(decoding, reverse=True)
    assert decoding[1] == decoding[2]
    prompts = [prefill_s(stage, SHORT) for stage in chain[1:-1]]
    assert prompts == sorted(prompts, reverse=True)
    assert set(chain) < set(MECHANISMS)


def test_a_token_of_the_whole_system_is_the_stated_one() -> None:
    """5.87 tokens/s of DeepSeek-V3, from which the machine's reads were taken: within 2 %."""
    assert 1 / decode_s("graph", Case()) == pytest.approx(5.87, rel=0.02)


def test_fiddlers_layer_takes_what_is_stated() -> None:
    """Eight experts of DeepSeek-V3 in 5.8 ms on both sockets."""
    machine = with_framework(get_machine("ktransformers-a100"))
    costs = step_costs(machine, get_model(MODEL), numa="interleaved")
    assert 8 * int(costs.path_ns("cpu_striped", 1, 1)) / 1e6 == pytest.approx(FIDDLER_LAYER_MS)


def test_launches_are_all_that_a_graph_saves() -> None:
    """115 of 16 us in each of the layers with experts."""
    saved = decode_s("sockets", Case()) - decode_s("graph", Case())
    assert saved == pytest.approx(58 * 115 * 16e-6)


def test_prompts_with_deferral_read_nearly_twice() -> None:
    """K26: the longer a prompt, the nearer to twice."""
    found = deferring._footprints("olmoe-1b-7b", 0)
    assert list(found) == sorted(found)
    assert 1 < found[0] < 1.5
    assert 1.95 < found[-1] <= 2


def test_hidden_deferral_is_as_fast_as_skipping() -> None:
    """K27: never faster, as it computes all experts."""
    assert 1 <= value_of("K27") < 1.05
    assert deferring.AFFECTED == 6


def test_longer_replies_gain_more() -> None:
    """C2: prompts gain less than replies do, and the share of replies does not change alone."""
    short, long = (cxl._gains("mixtral-8x7b", tokens, 0)[0] for tokens in cxl.LENGTHS[::2])
    assert 1 < short < long < cxl._gains("mixtral-8x7b", 512, 0, replies_alone=True)[0]


def test_more_units_gain_more_end_to_end() -> None:
    """E7e: over Fiddler, whose experts come over PCIe; MoNDE's units grow as well."""
    for model in ("deepseek-moe-16b", "mixtral-8x7b"):
        four, six = (edge._gains(model, units, 0) for units in (4, 6))
        assert 1 < four[0] < six[0]
        assert six[1] < six[0]


def test_some_layers_stand_for_all() -> None:
    """Two executed for ten: what is outside counts once a chunk, a last layer once."""
    model = SimpleNamespace(moe_layers=range(10))
    given = {"batch": 1, "prompt": 25, "ubatch": 10, "layers": 2, "model": model}
    world: Any = SimpleNamespace(outside_ns=lambda tokens, _: tokens, **given)
    layer_ns = np.array([[30, 40], [50, 60]])
    run: Any = SimpleNamespace(
        prefill_ns=25 + 2 * 300, layer_ns=layer_ns, step_ns=layer_ns.sum(axis=1) + 7
    )
    assert whole.prefill_s(world, run) * 1e9 == pytest.approx(25 + 10 * 300)
    assert whole.decode_s(world, run) * 1e9 == pytest.approx(7 + 9 * 40 + 50)


def test_no_prompts_have_no_time() -> None:
    with pytest.raises(ValueError, match="no prompts"):
        whole.prefill_s(None, type("Run", (), {"prefill_ns": None})())  # type: ignore[arg-type]
