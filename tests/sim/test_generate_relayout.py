"""relayout instances: an earlier layout, loads predicted from the past only, stated windows."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError, get_machine
from tests.refusals import refused
from tests.rooms.relayout import COSTS, Instance
from tests.rooms.sim import (
    Source,
    Trace,
    get_model,
    step_costs,
)
from tests.rooms.tri_domain import Layout, cold_localized, expected_ndp_ns

TOKENS, LAYERS, EXPERTS, TOP_K = 480, 2, 64, 6
LITE: dict[str, Any] = {"machine": "trimoe", "model": "deepseek-v2-lite"}
WORKLOAD = {"workload": "trimoe-skew"}


def drifting_trace(seed: int = 0) -> Trace:
    """Return a trace that fits DeepSeek-V2-Lite, whose popular experts change slowly."""
    rng = np.random.default_rng(seed)
    liking = rng.normal(scale=2, size=(LAYERS, EXPERTS))
    walk = rng.normal(scale=0.1, size=(TOKENS, LAYERS, EXPERTS)).cumsum(axis=0)
    scores = liking + walk + rng.gumbel(size=(TOKENS, LAYERS, EXPERTS))
    return Trace("a drifting trace", np.argsort(-scores, axis=2)[:, :, :TOP_K].astype(np.uint8))


TRACE = drifting_trace()


def made(**arguments: Any) -> Instance:
    """Return an instance for DeepSeek-V2-Lite on TriMoE's machine, from `TRACE` by default."""
    source = {} if arguments.keys() & {"trace", "workload"} else {"trace": TRACE}
    common: dict[str, Any] = {"batch": 40, "history": 4, "batching": "window"}
    return moeopt.generate("relayout", **(LITE | common | source | arguments))


def counted(step: int, layer: int) -> list[int]:
    """Count the tokens of each expert in a step of 40 in a plain loop."""
    load = [0] * EXPERTS
    for token in range(40 * step, 40 * step + 40):
        for expert in TRACE.topk_ids[token][layer].tolist():
            load[expert] += 1
    return load


def expected_tokens(steps: list[int], layer: int, alpha: float) -> list[int]:
    """Return Eq. 8 over the steps, started with the first one's loads, in whole tokens."""
    average = [float(load) for load in counted(steps[0], layer)]
    for step in steps[1:]:
        average = [
            alpha * new + (1 - alpha) * old
            for new, old in zip(counted(step, layer), average, strict=True)
        ]
    return [round(value) for value in average]


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "batch": st.integers(8, TOKENS // 5),
            "history": st.integers(1, 4),
            "alpha": st.floats(0.01, 1),
            "layer": st.integers(0, LAYERS - 1),
            "batching": st.sampled_from(["window", "streams"]),
            "loads": st.sampled_from(["predicted", "actual"]),
            "residents": st.integers(0, EXPERTS + 1),
            "cold_cut": st.floats(0, 1).map(lambda share: f"tokens {share}"),
            "layout_from": st.sampled_from(["offline trace", "last step", "earlier steps"]),
            "dimm_choice": st.sampled_from(["balanced", "in turn"]),
            "gpu_base": st.sampled_from(["none", "shared experts"]),
            "windows": st.sampled_from(["one", "two"]),
            "link_sum": st.sampled_from(["serial", "per link"]),
            "channels": st.sampled_from(["none", "two DIMMs each"]),
            "dimm_share": st.sampled_from(["1", "1/2"]),
            "gpu_work": st.sampled_from(["one path", "two parts"]),
            "dimms": st.none() | st.integers(1, 40),
            "hbm_free_slots": st.integers(0, 5),
            "prefetches": st.integers(0, 5),
            "link_move_us": st.floats(0, 1e6),
            "quantum_ns": st.sampled_from([1, 5000, 10**6]),
            "seed": st.integers(0, 2**32),
        }
    )
)
def test_every_instance_comes_back_from_its_file(scratch: Path, arguments: dict[str, Any]) -> None:
    """Whatever the options, the file is valid and holds every expert of the layer."""
    instance = made(**arguments)
    moeopt.save(instance, scratch)
    assert moeopt.load(scratch) == instance
    assert [expert.expert for expert in instance.experts] == list(range(EXPERTS))
    if arguments["loads"] == "actual":
        assert sum(e.tokens for e in instance.experts) == arguments["batch"] * TOP_K


@pytest.mark.parametrize("alpha", [0.3, 1.0])
def test_the_predicted_loads_are_the_moving_average_of_the_history(alpha: float) -> None:
    """Step 9 after steps 5 to 8 (Eq. 8); with weight 1 it is simply step 8."""
    instance = made(step=9, layer=1, alpha=alpha)
    tokens = [expert.tokens for expert in instance.experts]
    assert tokens == expected_tokens([5, 6, 7, 8], 1, alpha)
    assert (tokens == counted(8, 1)) == (alpha == 1.0)


def test_the_actual_loads_are_those_of_the_step_and_nothing_else_changes() -> None:
    """Same layout, windows and durations, so that a decision can be taken over."""
    predicted, actual = (made(step=9, layer=1, residents=3, loads=x) for x in KINDS_OF_LOADS)
    assert [expert.tokens for expert in actual.experts] == counted(9, 1)
    drop = {"name", "provenance", "experts"}
    assert predicted.model_dump(exclude=drop) == actual.model_dump(exclude=drop)
    for before, after in zip(predicted.experts, actual.experts, strict=True):
        assert (before.resident, before.dimm) == (after.resident, after.dimm)
    assert predicted.name != actual.name


KINDS_OF_LOADS = ("predicted", "actual")


@pytest.mark.parametrize("layout_steps", [1, 3])
def test_the_layout_is_that_of_the_first_steps_of_the_history(layout_steps: int) -> None:
    """`cold_localized` on their loads together."""
    instance = made(
        step=9,
        residents=3,
        dimms=5,
        cold_cut="experts 0.6",
        dimm_choice="in turn",
        layout_from="earlier steps",
        layout_steps=layout_steps,
    )
    loads = np.sum([counted(5 + turn, 0) for turn in range(layout_steps)], axis=0)
    assert_layout(instance, cold_localized(loads, 5, 0.6, 3))


@pytest.mark.parametrize("source", [{}, WORKLOAD], ids=["trace", "workload"])
def test_by_default_the_layout_is_that_of_the_offline_trace(source: dict[str, Any]) -> None:
    """The coldest experts with 8 % of the tokens of all steps but the one that runs."""
    instance = made(**source, step=9, residents=3)
    loads = (instance.provenance or {})["layout_loads"]
    offline = np.array(loads["offline trace"])
    made_of = Source(machine=get_machine("trimoe"), model=get_model("deepseek-v2-lite"))
    made_of = replace(made_of, quantum_ns=5000)
    work = expected_ndp_ns(made_of, offline, 40 * TOP_K)
    assert_layout(instance, cold_localized(offline, 16, "tokens 0.08", 3, work))
    if not source:
        others = np.sum([counted(at, 0) for at in range(12) if at != 9], axis=0)
        assert offline.tolist() == others.tolist()
        assert loads["last step"] == counted(8, 0)
    in_turn = {"layout_from": "last step", "cold_cut": "experts 0.5", "dimm_choice": "in turn"}
    last = made(**source, step=9, **in_turn)
    assert_layout(last, cold_localized(np.array(loads["last step"]), 16, 0.5, 0))


def assert_layout(instance: Instance, layout: Layout) -> None:
    """Hold an instance's layout to another one."""
    assert [expert.resident for expert in instance.experts] == layout.resident.tolist()
    places = [-1 if expert.dimm is None else expert.dimm for expert in instance.experts]
    assert places == layout.dimm.tolist()


def test_a_prediction_never_looks_at_the_step_that_runs() -> None:
    """Other tokens in the executed step change the actual instance only."""
    other = TRACE.topk_ids.copy()
    other[360:400] = drifting_trace(seed=1).topk_ids[360:400]
    changed = replace(TRACE, topk_ids=other)
    assert made(step=9).experts == made(step=9, trace=changed).experts
    actual = [made(step=9, loads="actual", trace=t).experts for t in (TRACE, changed)]
    assert actual[0] != actual[1]


def test_costs_are_those_of_the_tokens_on_every_path() -> None:
    """Eq. 1-4 whatever the layout is; 0 where an expert is expected to get no tokens."""
    instance = made(step=9)
    machine, model = get_machine("trimoe"), get_model("deepseek-v2-lite")
    assert {expert.tokens > 0 for expert in instance.experts} == {True, False}
    for expert in instance.experts:
        costs = step_costs(machine, model).experts([max(expert.tokens, 1)], 5000)
        for name in COSTS:
            expected = int(getattr(costs, name)[0]) if expert.tokens else 0
            assert getattr(expert, name) == expected
    assert (instance.dram_striped_ns, instance.dram_localized_ns) == (60_000, 455_000)


@pytest.mark.parametrize("model", ["deepseek-v2-lite", "deepseek-v2", "qwen3-235b-a22b"])
def test_by_default_four_moves_fit_the_one_window(model: str) -> None:
    """TriMoE 5.5 hides the 0.63 ms of four moves in 0.68 ms; a fifth does not fit.

    PCIe has the same window. With two windows it has room for two prefetches.
    """
    instance = made(model=model, **WORKLOAD)
    for move in (instance.relayout_ns, instance.rebalance_ns):
        assert instance.dimm_link_window_ns // move == 4
    assert instance.dimm_link_window_ns == instance.pcie_window_ns == 680_000
    assert instance.schema_version == 1
    two = made(model=model, windows="two", **WORKLOAD)
    assert two.pcie_window_ns // two.prefetch_ns == 2 == two.hbm_free_slots
    assert two.dimm_link_window_ns == 680_000


def test_four_moves_side_by_side_take_as_long_as_four_in_a_row() -> None:
    """0.63 ms each, rounded up to the quantum, and a sixteenth of it for a share of a layout."""
    instance = made(link_sum="per link", quantum_ns=1)
    lengths = (instance.relayout_ns, instance.rebalance_ns, instance.relayout_share_ns)
    assert lengths == (630_000, 630_000, 39_375)
    assert instance.dimm_link_window_ns == 680_000


def test_memory_channels_and_work_in_two_parts() -> None:
    """Two DIMMs on each channel, half a striped read each; Eq. 2's parts beside their largest."""
    assumed = {"channels": "two DIMMs each", "dimm_share": "1/2", "gpu_work": "two parts"}
    instance = made(**assumed, gpu_base="shared experts")
    assert instance.gpu_base_ns
    assert instance.channels == (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7)
    assert instance.dimm_share == (1, 2)
    for expert in (e for e in instance.experts if e.tokens):
        assert expert.gpu_calc_ns == expert.gpu_hit_ns
        assert expert.pcie_striped_ns == expert.pcie_localized_ns == instance.prefetch_ns
        longest = max(expert.gpu_hit_ns, instance.prefetch_ns)
        assert expert.gpu_miss_striped_ns == max(longest, instance.dram_striped_ns)
        assert expert.gpu_miss_localized_ns == max(longest, instance.dram_localized_ns)


def test_durations_and_windows_are_those_asked_for() -> None:
    """Durations are rounded up to the quantum, windows are not rounded."""
    instance = made(
        hbm_free_slots=7,
        windows="two",
        prefetches=3,
        link_move_us=12.0015,
        link_window_us=0.7,
        quantum_ns=1,
    )
    # 17,301,504 bytes at 64 GB/s
    assert (instance.prefetch_ns, instance.pcie_window_ns) == (270_336, 811_008)
    assert (instance.relayout_ns, instance.rebalance_ns) == (12_002, 12_002)
    assert (instance.dimm_link_window_ns, instance.hbm_free_slots) == (700, 7)
    assert made(link_move_us=12.0).relayout_ns == 15_000


def test_the_drawn_steps_are_all_that_have_a_history() -> None:
    """Of twelve steps of 40 in 480 tokens, all but the first four."""
    drawn = {(made(seed=seed).provenance or {})["options"]["step"] for seed in range(80)}
    assert drawn == set(range(4, 12))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layer": 2}, "layer: must be below 2, not 2"),
        ({"step": 3}, "step: must be from 4 to 11, not 3"),
        ({"step": 12}, "step: must be from 4 to 11, not 12"),
        ({"history": 12}, "batch: needs a trace of 13 windows, a drifting trace has 12 of 40"),
        ({"history": 2, "layout_steps": 3}, "layout_steps: must be at most history = 2, not 3"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_reason(
    arguments: dict[str, Any], says: str
) -> None:
    """One line each, and before anything is made."""
    assert refused(made, **arguments).startswith(says)


def test_a_prediction_of_no_tokens_at_all_is_refused() -> None:
    """Every step other experts: nothing is above half a token, so there is nothing to decide."""
    ids = np.arange(20 * TOP_K).reshape(20, 1, TOP_K) % EXPERTS
    with pytest.raises(InputError, match="must have tokens for at least one expert"):
        made(trace=Trace("never the same", ids), batch=1)
