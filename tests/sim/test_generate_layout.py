"""layout instances: reproducible, valid, the windows that were asked for, at the right costs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError, get_machine
from tests.refusals import refused
from tests.rooms.layout import COSTS, Instance, assume
from tests.rooms.sim import (
    COMPUTES,
    get_model,
    step_costs,
    with_table_noise,
)
from tests.sim.traces_drawn import skewed_trace

TOKENS, LAYERS, EXPERTS, TOP_K = 400, 3, 64, 6
LITE: dict[str, Any] = {"machine": "trimoe", "model": "deepseek-v2-lite"}
WORKLOAD = {"workload": "trimoe-skew"}


TRACE = skewed_trace(TOKENS, LAYERS, seed=7)


def made(**arguments: Any) -> Instance:
    """Return an instance for DeepSeek-V2-Lite on TriMoE's machine, from `TRACE` by default."""
    source = {} if arguments.keys() & {"trace", "workload"} else {"trace": TRACE}
    return moeopt.generate(
        "layout", **(LITE | {"batch": 64, "batching": "window"} | source | arguments)
    )


def counted(tokens: list[int], layer: int) -> tuple[int, ...]:
    """Count tokens per expert in a plain loop."""
    load = [0] * EXPERTS
    for token in tokens:
        for expert in TRACE.topk_ids[token][layer].tolist():
            load[expert] += 1
    return tuple(load)


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "batch": st.integers(1, TOKENS // 6),
            "windows": st.integers(1, 2),
            "spacing": st.integers(1, 3),
            "layer": st.integers(0, LAYERS - 1),
            "batching": st.sampled_from(["window", "streams"]),
            "hbm_slots": st.integers(0, EXPERTS + 1),
            "dimm_slots": st.none() | st.integers(0, 40),
            "dimms": st.none() | st.integers(1, 40),
            "table_noise": st.sampled_from([0.0, 0.03]),
            "quantum_ns": st.sampled_from([1, 5000, 10**6]),
            "seed": st.integers(0, 2**32),
        }
    )
)
def test_every_instance_comes_back_from_its_file(scratch: Path, arguments: dict[str, Any]) -> None:
    """Whatever the options, the file is valid, and every token went to top-k experts."""
    instance = made(**arguments)
    moeopt.save(instance, scratch)
    assert moeopt.load(scratch) == instance
    assert len(instance.scenarios) == arguments["windows"]
    for scenario in instance.scenarios:
        assert sum(scenario.tokens) == arguments["batch"] * TOP_K
    assert (instance.hbm_slots, instance.dimm_slots) == (
        arguments["hbm_slots"],
        arguments["dimm_slots"],
    )


@pytest.mark.parametrize(
    ("batching", "windows"),
    [
        ("window", [range(64, 128), range(192, 256)]),
        # 400 tokens are 6 windows of 64, so the readers start 6 apart
        ("streams", [range(1, 384, 6), range(3, 384, 6)]),
    ],
)
def test_the_windows_are_those_asked_for(batching: str, windows: list[range]) -> None:
    """Windows 1 and 3: the tokens are counted, the weights are 1."""
    instance = made(batching=batching, layer=1, first_window=1, windows=2, spacing=2)
    loads = [scenario.tokens for scenario in instance.scenarios]
    assert loads == [counted(list(window), 1) for window in windows]
    assert [scenario.weight for scenario in instance.scenarios] == [1, 1]
    assert loads[0] != loads[1]


def test_costs_are_those_of_each_window_s_own_tokens() -> None:
    """Every path of every expert by Eq. 1-4; 0 where an expert has no tokens."""
    instance = made(first_window=0, windows=3, hbm_slots=2)
    machine, model = get_machine("trimoe"), get_model("deepseek-v2-lite")
    idle = 0
    for scenario in instance.scenarios:
        for expert, tokens in enumerate(scenario.tokens):
            costs = step_costs(machine, model).experts([max(tokens, 1)], 5000)
            idle += tokens == 0
            for name in COSTS:
                expected = int(getattr(costs, name)[0]) if tokens else 0
                assert getattr(scenario, name)[expert] == expected
    assert idle > 0
    # 17,301,504 bytes: 56,320 ns at 307.2 GB/s and 450,560 ns at 38.4 GB/s
    assert (instance.dram_striped_ns, instance.dram_localized_ns) == (60_000, 455_000)


def test_the_first_window_is_drawn_so_that_the_last_one_fits() -> None:
    """Six windows of 64, three of them two apart: only windows 0 and 1 can be first."""
    drawn = {
        (made(windows=3, spacing=2, seed=seed).provenance or {})["options"]["first_window"]
        for seed in range(30)
    }
    assert drawn == {0, 1}


@pytest.mark.parametrize("workload", ["trimoe-skew", "esft-deepseek-v2-lite"])
def test_held_out_windows_are_of_the_same_drawn_trace(workload: str) -> None:
    """With as many windows drawn, later windows are what they are in one run over all."""
    common: dict[str, Any] = {"workload": workload, "drawn_windows": 4, "batch": 16}
    together = made(first_window=0, windows=4, **common)
    before = made(first_window=0, windows=2, **common)
    after = made(first_window=2, windows=2, **common)
    assert together.scenarios == before.scenarios + after.scenarios
    assert before.scenarios != after.scenarios


def test_a_workload_draws_the_windows_up_to_the_last_one_asked_for() -> None:
    """Window 3 of a workload without a stated length: four windows are drawn."""
    late = made(first_window=2, windows=2, **WORKLOAD)
    assert late.provenance["options"]["drawn_windows"] == 4
    assert late.scenarios == made(first_window=0, windows=4, **WORKLOAD).scenarios[2:]


def test_scattered_times_are_in_the_costs_and_drawn_with_the_seed() -> None:
    """The same windows at up to 10 % longer times; another seed gives other times."""
    options: dict[str, Any] = {"first_window": 1, "quantum_ns": 1}
    plain, noisy, other = (
        made(**options, table_noise=noise, seed=seed)
        for noise, seed in ((0.0, 1), (0.1, 1), (0.1, 2))
    )
    assert plain.scenarios[0].tokens == noisy.scenarios[0].tokens == other.scenarios[0].tokens
    pairs = list(zip(plain.scenarios[0].ndp_ns, noisy.scenarios[0].ndp_ns, strict=True))
    assert all(was <= now <= was * 1.1 + 1 for was, now in pairs)
    assert any(was < now for was, now in pairs)
    assert noisy.scenarios[0].ndp_ns != other.scenarios[0].ndp_ns


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layer": 3}, "layer: must be below 3, not 3"),
        ({"first_window": 6}, "first_window: must be from 0 to 5, not 6"),
        ({"first_window": 3, "windows": 2, "spacing": 3}, "first_window: must be from 0 to 2, not"),
        ({"windows": 7}, "batch: needs a trace of 7 windows, a skewed trace has 6 of 64 tokens"),
        ({"windows": 0}, "generate layout: windows: must be at least 1, not 0"),
        ({"drawn_windows": 3}, "drawn_windows: is for a workload"),
        ({"drawn_windows": 3, "windows": 4} | WORKLOAD, "batch: needs a trace of 4 windows,"),
        ({"batching": "streams"} | WORKLOAD, "batching: must be window for a workload"),
        ({"trace": TRACE} | WORKLOAD, "trace, workload: cannot be combined"),
        ({"windows": 256, "batch": 65536} | WORKLOAD, "batch: 256 windows of 65536 tokens are mor"),
        ({"table_noise": -0.1}, "generate layout: table_noise: must be at least 0"),
        (
            {"table_noise": 0.1, "batch": 10_001} | WORKLOAD,
            "table_noise: works up to 10000 tokens, not 10001",
        ),
        ({"hbm_slots": -1}, "generate layout: hbm_slots: must be at least 0, not -1"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_reason(
    arguments: dict[str, Any], says: str
) -> None:
    """One line each, and before anything is made."""
    assert refused(made, **arguments).startswith(says)


@pytest.mark.parametrize("model_name", ["deepseek-v2", "deepseek-v2-lite"])
def test_scattered_times_are_a_little_longer_and_never_fall(model_name: str) -> None:
    """Every computation is up to 3 % above its own, rises with tokens; reads stay as they are."""
    machine, model = get_machine("trimoe"), get_model(model_name)
    noisy = with_table_noise(machine, model, 300, 0.03, 1)
    counts = np.arange(1, 301)
    for kind in COMPUTES:
        plain = step_costs(machine, model).computation_s(kind, counts)
        scattered = step_costs(noisy, model).computation_s(kind, counts)
        assert (scattered >= plain * (1 - 1e-12)).all()
        assert (scattered <= plain * (1.03 + 1e-12)).all()
        assert (np.diff(scattered) >= 0).all()
        # where the time is flat, the longest so far soon hides the scatter
        assert len(np.unique((scattered / plain).round(9))) > (100 if kind == "ndp" else 1)
    plain_costs, costs = (step_costs(m, model).experts(counts, 1) for m in (machine, noisy))
    assert costs.dram_striped_ns == plain_costs.dram_striped_ns
    assert (costs.gpu_miss_localized_ns == plain_costs.gpu_miss_localized_ns).all()
    assert (costs.ndp_ns != plain_costs.ndp_ns).mean() > 0.9


def test_the_scatter_depends_on_the_seed_alone() -> None:
    """A longer table begins like a shorter one, so a layout can be held out at the same times."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2")
    short, long = (with_table_noise(machine, model, tokens, 0.03, 4) for tokens in (50, 90))
    other = with_table_noise(machine, model, 50, 0.03, 5)
    for one, two, three in zip(short.tables, long.tables, other.tables, strict=True):
        assert two.points[:50] == one.points
        assert three.points != one.points


def test_scatter_keeps_measured_transfers_and_replaces_measured_computation() -> None:
    """A second scatter is one on the first's times; tables of other models stay."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2")
    other = with_table_noise(machine, get_model("glm-4.5-air"), 4, 0.5, 0)
    link = ("gpu0", "numa0")
    pcie = other.tables[0].model_copy(update={"model": model.name, "at": link})
    measured = other.model_copy(update={"tables": (*other.tables, pcie)})
    twice = with_table_noise(with_table_noise(measured, model, 9, 0.1, 0), model, 9, 0.1, 1)
    places = sorted((table.model, table.at) for table in twice.tables)
    computes = [("gpu0", "gpu"), ("numa0", "cpu"), ("numa0", "ndp")]
    assert places == sorted(
        [("deepseek-v2", at) for at in (*computes, link)] + [("glm-4.5-air", at) for at in computes]
    )
    counts = np.arange(1, 10)
    ratio = step_costs(twice, model).computation_s("ndp", counts) / step_costs(
        machine, model
    ).computation_s("ndp", counts)
    assert ratio.max() > 1.1


def test_the_forecast_is_of_windows_that_the_instance_does_not_hold() -> None:
    """All of the six windows but 1 and 3, or the one before; the costs are the same."""
    options: dict[str, Any] = {"first_window": 1, "windows": 2, "spacing": 2, "layer": 2}
    blind = made(**options, layout_from="none")
    others = [token for window in (0, 2, 4, 5) for token in range(64 * window, 64 * window + 64)]
    seen = {"offline trace": counted(others, 2), "last step": counted(list(range(64)), 2)}
    for of, forecast in seen.items():
        instance = made(**options, layout_from=of)
        assert instance.forecast_tokens == forecast
        assert instance.scenarios == blind.scenarios
        loads = (instance.provenance or {})["layout_loads"]
        assert loads == {key: list(load) for key, load in seen.items()}
    assert (blind.schema_version, blind.forecast_tokens) == (1, None)


def test_a_workload_s_windows_stay_when_more_are_drawn_for_the_forecast() -> None:
    """Sixteen more tell the forecast; which windows are executed does not hang on them."""
    options: dict[str, Any] = {"windows": 2, "drawn_windows": 6} | WORKLOAD
    blind, instance = made(**options, layout_from="none"), made(**options)
    assert instance.scenarios == blind.scenarios
    assert sum(instance.forecast_tokens or ()) == (6 + 16 - 2) * 64 * TOP_K
    assert (instance.provenance or {})["options"]["drawn_windows"] == 6


def test_a_forecast_needs_another_window() -> None:
    """Six windows are six scenarios, and nothing is left."""
    assert made(windows=6, layout_from="none").forecast_tokens is None
    with pytest.raises(InputError, match="layout_from: needs a window besides those of the inst"):
        made(windows=6)


def test_schema_2_is_what_the_options_say() -> None:
    """By hand for DeepSeek-V2-Lite: 17.3 MB per expert, two shared ones, 64 tokens."""
    assumed = made(dimm_share="1/2", channels="two DIMMs each", gpu_base="shared experts", dimms=5)
    assert (assumed.dimm_share, assumed.channels) == ((1, 2), (0, 0, 1, 1, 2))
    size = 2 * 3 * 2048 * 1408 * 2  # both shared experts' bytes
    calc = size * 64 / (0.3 * 64 / 256 * 819.6e12)  # 2 operations per weight of 2 bytes
    assert assumed.gpu_base_ns == 5000 * -(-max(calc, size / 2040e9) * 1e9 // 5000)
    plain = made(layout_from="none", dimms=5)
    assert assumed.scenarios == plain.scenarios
    parts = made(gpu_work="two parts", quantum_ns=1, layout_from="none").scenarios[0]
    whole = made(quantum_ns=1, layout_from="none").scenarios[0]
    assert parts.gpu_calc_ns == whole.gpu_hit_ns
    transfer = -(-17301504 * 10**9 // (64 * 10**9))
    assert set(parts.pcie_striped_ns or ()) - {0} == {transfer}
    assert parts.pcie_localized_ns == parts.pcie_striped_ns


def test_what_does_not_say_how_it_was_made_is_not_made_again() -> None:
    """None: no provenance, another machine's times, no such assumption, no such loads."""
    instance = made(first_window=0)
    assert assume(instance, "dimm_share", "1/2") is not None
    assert assume(instance, "batch", "8") is None
    assert assume(instance, "layout_from", "last step") is None
    assert assume(instance.model_copy(update={"provenance": None}), "dimm_share", "1") is None
    assert assume(instance.model_copy(update={"dimms": 3}), "dimm_share", "1/2") is None
    with pytest.raises(InputError, match="dimm_share: must be '1' or '1/2'"):
        assume(instance, "dimm_share", "many")


def test_a_traces_batches_are_streams_and_a_workloads_are_drawn_step_by_step() -> None:
    """Unless it is said otherwise: one token of each request, as batches are served."""
    common = {"machine": "trimoe", "model": "deepseek-v2-lite", "batch": 64}
    for source, batching in (
        ({"trace": TRACE}, "streams"),
        ({"workload": "trimoe-skew"}, "window"),
    ):
        usual = moeopt.generate("layout", **(common | source))
        assert usual.provenance is not None
        assert usual.provenance["options"]["batching"] == batching
        assert usual == moeopt.generate("layout", **(common | source), batching=batching)
