"""tri_domain instances: reproducible, valid, on a layout of other steps, at the right costs."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError, get_machine, set_machine
from tests.refusals import refused
from tests.rooms.sim import (
    Trace,
    all_step_tokens,
    get_model,
    step_costs,
)
from tests.rooms.tri_domain import Expert, Instance, assume
from tests.sim.traces_drawn import skewed_trace

TOKENS, LAYERS, EXPERTS, TOP_K = 400, 3, 64, 6
LITE: dict[str, Any] = {"machine": "trimoe", "model": "deepseek-v2-lite"}


TRACE = skewed_trace(TOKENS, LAYERS)


def made(**arguments: Any) -> Instance:
    """Return an instance for DeepSeek-V2-Lite on TriMoE's machine, from `TRACE` by default."""
    source = {} if arguments.keys() & {"trace", "workload"} else {"trace": TRACE}
    return moeopt.generate(
        "tri_domain", **(LITE | {"batch": 64, "batching": "window"} | source | arguments)
    )


WORKLOAD = {"workload": "trimoe-skew"}


def test_the_seed_decides_nothing_once_the_step_is_given() -> None:
    """A stated step of a real trace leaves nothing to draw."""
    assert made(step=2, seed=0).experts == made(step=2, seed=1).experts


def test_the_drawn_steps_are_all_that_have_a_step_before_them() -> None:
    """Of the six steps of 64 in 400 tokens, every one but the first is drawn."""
    drawn = {(made(seed=seed).provenance or {})["options"]["step"] for seed in range(60)}
    assert drawn == {1, 2, 3, 4, 5}


KINDS = st.sampled_from(["tokens", "experts"])


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "batch": st.integers(1, TOKENS // 2),
            "layer": st.integers(0, LAYERS - 1),
            "batching": st.sampled_from(["window", "streams"]),
            "residents": st.integers(0, EXPERTS + 1),
            "cold_cut": st.builds("{} {!r}".format, KINDS, st.floats(0, 1)),
            "layout_from": st.sampled_from(["offline trace", "last step"]),
            "dimms": st.none() | st.integers(1, 40),
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
    assert sum(expert.tokens for expert in instance.experts) == arguments["batch"] * TOP_K


def loads_by_hand(trace: Trace, tokens: list[int], layer: int) -> list[int]:
    """Count tokens per expert in a plain loop."""
    load = [0] * EXPERTS
    for token in tokens:
        for expert in trace.topk_ids[token][layer].tolist():
            load[expert] += 1
    return load


def layout_by_hand(load: list[int], residents: int) -> tuple[set[int], dict[int, int]]:
    """Return the hottest experts, and the DIMMs of those that hold 8 %, by falling load."""
    order = sorted(range(EXPERTS), key=lambda expert: (-load[expert], expert))
    cold: list[int] = []
    while 100 * sum(load[expert] for expert in [order[-1 - len(cold)], *cold]) <= 8 * sum(load):
        cold.insert(0, order[-1 - len(cold)])
    return set(order[:residents]), {expert: turn % 16 for turn, expert in enumerate(cold)}


def row_by_hand(tokens: int, resident: bool, dimm: int | None) -> dict[str, Any]:
    """Return the costs of an expert by Eq. 1-4 of the paper and its Table 1, in units of 5 us.

    DeepSeek-V2-Lite's expert has 3 x 2,048 x 1,408 weights of 2 bytes.
    """
    weights = 3 * 2048 * 1408
    size, operations = 2 * weights, 2 * weights * tokens
    calc_gpu = operations / (819.6e12 * min(0.3 * tokens / 256, 0.6))
    calc_gpu = max(calc_gpu, size / 2040e9)
    calc_cpu = operations / (min(max(2.5 * math.sqrt(tokens), 10), 40) * 1e12)
    dram = size / (307.2e9 if dimm is None else 38.4e9)
    gpu = calc_gpu if resident else max(calc_gpu, size / 64e9, dram)  # Eq. 1, Eq. 2
    cpu = max(calc_cpu, dram)  # Eq. 3
    ndp = max(operations / 256e9, size / 153.6e9)  # Eq. 4

    def ns(seconds: float) -> int:
        return 5000 * math.ceil(seconds * 1e9 / 5000)

    return {
        "tokens": tokens,
        "resident": resident,
        "dimm": dimm,
        "gpu_ns": ns(gpu),
        "cpu_ns": ns(cpu),
        "ndp_ns": None if dimm is None else ns(ndp),
        "gpu_dram_ns": 0 if resident else ns(dram),
        "cpu_dram_ns": ns(dram),
    }


@pytest.mark.parametrize(
    ("batching", "last", "now"),
    [
        ("window", range(64, 128), range(128, 192)),
        # 400 tokens are 6 steps of 64, so the readers start 6 apart
        ("streams", range(1, 384, 6), range(2, 384, 6)),
    ],
)
@pytest.mark.parametrize("layout_from", ["last step", "offline trace"])
def test_each_row_is_what_the_paper_says(
    batching: str, last: range, now: range, layout_from: str
) -> None:
    """Step 2, costs straight from Eq. 1-4, experts in order of number.

    The layout is that of step 1, or of all of the six steps but step 2; 16 tokens are in none.
    """
    options = {"layout_from": layout_from, "dimm_choice": "in turn"}
    instance = made(step=2, layer=1, batching=batching, residents=5, **options)
    load = loads_by_hand(TRACE, list(now), 1)
    offline = sorted(set(range(384)) - set(now))
    seen = {"last step": list(last), "offline trace": offline}
    loads = {key: loads_by_hand(TRACE, tokens, 1) for key, tokens in seen.items()}
    assert (instance.provenance or {})["layout_loads"] == loads
    residents, dimm = layout_by_hand(loads[layout_from], 5)
    expected = [
        Expert(expert=expert, **row_by_hand(tokens, expert in residents, dimm.get(expert)))
        for expert, tokens in enumerate(load)
        if tokens
    ]
    assert list(instance.experts) == expected
    assert {expert.dimm is None for expert in expected} == {True, False}
    assert any(expert.resident for expert in expected)


def test_a_large_batch_reaches_the_computation_of_gpu_and_cpu() -> None:
    """Rows where calculation, not reading, decides: one expert with all the tokens."""
    ids = np.tile(np.arange(TOP_K), (2 * 2000, 1, 1)).reshape(4000, 1, TOP_K)
    trace = Trace("everyone wants the same six", ids)
    instance = made(trace=trace, batch=2000, residents=1)
    # Ties by lowest number: 0 to 5 are the hottest, so all are striped and 0 is resident.
    expected = [
        Expert(expert=expert, **row_by_hand(2000, expert == 0, None)) for expert in range(TOP_K)
    ]
    assert list(instance.experts) == expected
    # 17,301,504 x 2,000 / (0.6 x 819.6e12) = 70,365 ns, / 40e12 = 865,075 ns
    assert instance.experts[0].gpu_ns == 75_000
    assert instance.experts[1].cpu_ns == 870_000


@pytest.mark.parametrize("layout_from", ["last step", "offline trace"])
@pytest.mark.parametrize("batching", ["window", "streams"])
def test_the_layout_never_looks_at_the_executed_step(batching: Any, layout_from: str) -> None:
    """Other tokens in the executed step: the same places for every expert active in both."""
    options: dict[str, Any] = {"step": 3, "batching": batching, "residents": 5}
    options |= {"cold_cut": "experts 0.7", "layout_from": layout_from}
    other = TRACE.topk_ids.copy()
    executed = all_step_tokens(TRACE, 64, batching)[3]
    other[executed] = skewed_trace(TOKENS, LAYERS, seed=1).topk_ids[executed]
    before = {expert.expert: expert for expert in made(**options).experts}
    after = {
        expert.expert: expert
        for expert in made(trace=replace(TRACE, topk_ids=other), **options).experts
    }
    both = before.keys() & after.keys()
    assert len(both) > 20
    assert any(before[number].tokens != after[number].tokens for number in both)
    for number in both:
        assert before[number].dimm == after[number].dimm
        assert before[number].resident == after[number].resident


@pytest.mark.parametrize("layout_from", ["last step", "offline trace"])
def test_the_layout_does_look_at_other_steps(layout_from: str) -> None:
    """Were it fixed, the test above would prove nothing."""
    options = {"layout_from": layout_from, "cold_cut": "experts 0.7"}
    made_of = [made(step=step, **options).experts for step in range(1, 6)]
    assert len({tuple((e.expert, e.dimm, e.resident) for e in experts) for experts in made_of}) == 5


def test_a_workload_draws_an_offline_trace_around_the_same_steps() -> None:
    """Step 0 and sixteen more, which leave step 1 as it was: as many tokens each."""
    last, offline = (made(**WORKLOAD, layout_from=of) for of in ("last step", "offline trace"))
    assert [e.tokens for e in last.experts] == [e.tokens for e in offline.experts]
    loads = (offline.provenance or {})["layout_loads"]
    assert (sum(loads["last step"]), sum(loads["offline trace"])) == (64 * TOP_K, 17 * 64 * TOP_K)
    assert (last.provenance or {})["layout_loads"] == loads


def test_machine_and_dimms_can_be_given_as_objects_and_options() -> None:
    """An option overrides the machine's DIMMs; a faster machine shows in the costs."""
    machine = set_machine(get_machine("trimoe"), {"pcie.gb_s": 640.0})
    faster = made(step=1, machine=machine, dimms=3)
    plain = made(step=1)
    assert (plain.dimms, faster.dimms) == (16, 3)
    assert max(e.dimm for e in faster.experts if e.dimm is not None) == 2
    pairs = zip(faster.experts, plain.experts, strict=True)
    assert any(fast.gpu_ns < slow.gpu_ns for fast, slow in pairs)


def test_the_provenance_says_where_the_instance_is_from() -> None:
    """The trace by name and hash, all options as decided, and the rounding."""
    instance = made(trace=replace(TRACE, facts={"sha256": "abc"}), seed=5, quantum_ns=1000)
    provenance = instance.provenance or {}
    assert provenance["trace"] == {"name": "a skewed trace", "sha256": "abc"}
    assert provenance["rounding"] == "costs rounded up to multiples of 1000 ns"
    assert instance.quantum_ns == 1000
    options = provenance["options"]
    assert (options["batch"], options["dimms"], options["layer"]) == (64, 16, 0)
    again = made(seed=0, quantum_ns=1000, **options)
    assert again.experts == instance.experts


@pytest.mark.parametrize(
    "change",
    [
        {"provenance": {"machine": "trimoe"}},
        {"quantum_ns": 1},
        {"machine": "of mine"},
        {"model": "qwen3-235b-a22b"},
        {"layout_loads": {"last step": [1] * EXPERTS}},
        {"layout_loads": {"offline trace": [1] * 3}},
        {"options": {"cold_cut": "most"}},
    ],
)
def test_what_does_not_say_how_it_was_made_is_not_made_again(change: dict[str, Any]) -> None:
    """None: no provenance, another instance's, a machine of the user's own, other loads."""
    instance = made(seed=1)
    if not change.keys() & type(instance).model_fields.keys():
        change = {"provenance": (instance.provenance or {}) | change}
    assert assume(instance, "cold_cut", "tokens 0.1") is not None
    assert assume(instance.model_copy(update=change), "cold_cut", "tokens 0.1") is None


def test_schema_2_is_what_the_options_say() -> None:
    """Channels and shares of the DIMMs, the shared experts' time, and Eq. 2 in its parts."""
    assumed = {"channels": "two DIMMs each", "dimm_share": "1/2", "gpu_base": "shared experts"}
    plain, memory = made(step=1, dimms=5), made(step=1, dimms=5, **assumed)
    assert memory.experts == plain.experts
    assert (memory.channels, memory.dimm_share) == ((0, 0, 1, 1, 2), (1, 2))
    layer = step_costs(get_machine("trimoe"), get_model("deepseek-v2-lite")).layer(tokens=64)
    assert memory.gpu_base_ns == layer.shared_ns
    large = made(**WORKLOAD, batch=2048, gpu_base="shared experts")
    lite = get_machine("trimoe"), get_model("deepseek-v2-lite")
    assert large.gpu_base_ns == step_costs(*lite).layer(2048).shared_ns > layer.shared_ns
    assert (plain.schema_version, memory.schema_version) == (1, 2)
    parts = made(step=1, residents=5, gpu_work="two parts")
    transfer = 5000 * math.ceil(17301504 / 64e9 * 1e9 / 5000)
    for expert, whole in zip(parts.experts, made(step=1, residents=5).experts, strict=True):
        assert expert.gpu_ns == whole.gpu_ns
        assert expert.pcie_ns == (0 if expert.resident else transfer)
        assert expert.gpu_calc_ns == row_by_hand(expert.tokens, True, None)["gpu_ns"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layer": 3}, "layer: must be below 3, not 3"),
        ({"step": 6}, "step: must be from 1 to 5, not 6"),
        ({"step": 2} | WORKLOAD, "step: must be from 1 to 1, not 2"),
        ({"batch": 201}, "batch: needs a trace of 402 tokens, a skewed trace has 400"),
        ({"trace": TRACE} | WORKLOAD, "trace, workload: cannot be combined"),
        ({"trace": None}, "trace, workload: one of the two is missing"),
        ({"cold_cut": "0.7"}, "generate tri_domain: cold_cut: must be 'tokens X' or 'experts X'"),
        ({"cold_cut": "tokens {x}"}, "generate tri_domain: cold_cut: must be 'tokens X' or"),
        ({"quantum_ns": 0}, "quantum_ns: must be from 1 to 4398046511104, not 0"),
        ({"workload": "abacus"}, "workload: 'abacus' is neither a file nor one of"),
        ({"model": "qwen3-235b-a22b"}, "a skewed trace: topk_ids: 6 per token in a top-8 model"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_reason(
    arguments: dict[str, Any], says: str
) -> None:
    """One line each, and before anything is made."""
    assert refused(made, **arguments).startswith(says)


def test_an_unknown_problem_gets_the_list_of_the_known() -> None:
    """The problem's name is the first thing looked at."""
    with pytest.raises(InputError, match='"knapsack" is unknown; known problems: tri_domain'):
        moeopt.generate("knapsack", **LITE, trace=TRACE)


@pytest.mark.parametrize(("layers", "fits"), [(26, True), (27, False)])
def test_a_trace_has_no_more_layers_than_the_model_has_with_experts(
    layers: int, fits: bool
) -> None:
    """DeepSeek-V2-Lite has 27 layers, the first of them without experts."""
    trace = Trace("all layers", np.tile(TRACE.topk_ids[:, :1], (1, layers, 1)))
    if fits:
        assert made(trace=trace, layer=layers - 1).experts
        return
    with pytest.raises(InputError, match="27 layers in a model of 26"):
        made(trace=trace)


def test_a_machine_too_slow_for_an_instance_is_an_input_error() -> None:
    """Costs beyond the largest number of an instance are refused with the reason."""
    machine = set_machine(get_machine("trimoe"), {"pcie.gb_s": 1e-6})
    with pytest.raises(InputError, match="machine, model: a cost of"):
        made(machine=machine)
