"""balance instances from traces and workloads: what is in them, and where every number is from."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError, get_machine
from tests.refusals import refused
from tests.rooms.balance import Expert, Instance, assume
from tests.rooms.sim import get_model
from tests.sim.traces_drawn import skewed_trace

TOKENS, LAYERS, EXPERTS, TOP_K = 300, 3, 64, 6


TRACE = skewed_trace(TOKENS, LAYERS)


def made(**arguments: Any) -> Instance:
    """Return an instance for DeepSeek-MoE on six units, from `TRACE` by default."""
    source: dict[str, Any] = {"machine": "edge-gpu-ndp-6", "model": "deepseek-moe-16b"}
    source |= {"seq_len": 64, "quantum_ns": 1}
    source |= {} if arguments.keys() & {"trace", "workload"} else {"trace": TRACE}
    return moeopt.generate("balance", **(source | arguments))


@settings(max_examples=25)
@given(
    st.fixed_dictionaries(
        {
            "stage": st.sampled_from(["decode", "prefill"]),
            "seq_len": st.integers(1, TOKENS // 2),
            "layer": st.integers(0, LAYERS - 1),
            "slices_per_unit": st.sampled_from([1, 3, 16, 64]),
            "machine": st.sampled_from([f"edge-gpu-ndp-{n}" for n in (2, 4, 6)]),
            "ndp_speedup": st.sampled_from([1.0, 64.0]),
            "whole_columns": st.booleans(),
            "seed": st.integers(0, 2**32),
        }
    )
)
def test_every_instance_comes_back_from_its_file(scratch: Path, arguments: dict[str, Any]) -> None:
    """Whatever the options, the file is valid, and every token went to top-k + 2 experts."""
    residents = 6 if arguments["stage"] == "decode" else 0
    instance = made(**arguments, residents=residents)
    moeopt.save(instance, scratch)
    assert moeopt.load(scratch) == instance
    tokens = 1 if arguments["stage"] == "decode" else arguments["seq_len"]
    assert instance.seq_len == tokens
    assert sum(expert.tokens for expert in instance.experts) == tokens * (TOP_K + 2)


def position(instance: Instance) -> tuple[int, int | None]:
    """Return where the prompt begins, and the decoded token."""
    options = instance.provenance["options"]
    return options["prompt_begin"], options["step"]


def slice_by_hand(tokens: int, resident: bool, columns: int, speedup: float = 1) -> dict[str, Any]:
    """Return a slice's times on the paper's machine: three matrices of 2,048 rows, 2 bytes each.

    GPU: 98.9 TFLOPS at 0.6 and 960 GB/s. NDP: 102.4 GFLOPS and 102.4 GB/s.
    """
    weights = 3 * 2048 * columns
    gpu = max(2 * weights * tokens / (0.6 * 98.9e12), 2 * weights / 960e9)
    ndp = max(2 * weights * tokens / (speedup * 102.4e9), 2 * weights / 102.4e9)
    return {
        "tokens": tokens,
        "resident": resident,
        "slice_gpu_ns": math.ceil(gpu * 1e9 - 1e-6),
        "slice_ndp_ns": math.ceil(ndp * 1e9 - 1e-6),
    }


@pytest.mark.parametrize(("slices", "columns"), [(1, 235), (4, 59), (64, 4)])
def test_a_prompts_rows_by_hand(slices: int, columns: int) -> None:
    """1,408 columns over 6 units, rounded up; each shared expert has all the tokens."""
    instance = made(stage="prefill", layer=1, slices_per_unit=slices, ndp_speedup=8.0, seed=2)
    begin, _ = position(instance)
    load = [0] * EXPERTS + [64, 64]
    for token in range(begin, begin + 64):
        for expert in TRACE.topk_ids[token][1].tolist():
            load[expert] += 1
    assert list(instance.experts) == [
        Expert(expert=expert, **slice_by_hand(tokens, False, columns, 8))
        for expert, tokens in enumerate(load)
        if tokens
    ]
    assert instance.slice_transfer_ns == math.ceil(2 * 3 * 2048 * columns / 64)
    assert instance.activation_ns == 64  # 4,096 bytes at 64 GB/s, one after the other
    single = made(stage="prefill", layer=1, activations="single", seed=2)
    assert single.activation_ns == 1064  # and 1 us each
    assert "activations" not in single.provenance["options"]
    assert (instance.ndp_units, instance.slices_per_unit) == (6, slices)


def test_a_decoded_tokens_rows_by_hand() -> None:
    """The token after the prompt, and as residents what the prompt chose most often."""
    seen = set()
    for seed in range(12):
        instance = made(layer=2, residents=5, seed=seed)
        begin, step = position(instance)
        assert step is not None
        chosen = TRACE.topk_ids[begin : begin + 64, 2].ravel().tolist()
        frequent = sorted(range(EXPERTS), key=lambda expert: (-chosen.count(expert), expert))[:5]
        active = [*sorted(TRACE.topk_ids[begin + 64 + step - 1, 2].tolist()), 64, 65]
        assert list(instance.experts) == [
            Expert(expert=expert, **slice_by_hand(1, expert in frequent, 235)) for expert in active
        ]
        assert (instance.stage, instance.seq_len) == ("decode", 1)
        seen |= {expert.resident for expert in instance.experts}
    assert seen == {False, True}


def test_slices_need_not_be_whole_columns() -> None:
    """Then a slice is exactly its share: all slices of all units are one expert."""
    weights = get_model("deepseek-moe-16b").expert_weights
    for slices in (1, 16, 64):
        instance = made(slices_per_unit=slices, whole_columns=False)
        assert instance.slice_transfer_ns == math.ceil(2 * weights / 64 / (6 * slices))


def test_the_rate_of_the_units_is_a_free_parameter_of_computation_only() -> None:
    """It divides what tokens cost until the unit's memory is what limits."""
    plain, fast, faster = (
        made(stage="prefill", ndp_speedup=rate, seed=1) for rate in (1.0, 4.0, 1e6)
    )
    for row, one in enumerate(plain.experts):
        quarter = max(one.slice_ndp_ns / 4, faster.experts[row].slice_ndp_ns)
        assert fast.experts[row].slice_ndp_ns == pytest.approx(quarter, abs=1)
    assert len({expert.slice_ndp_ns for expert in faster.experts}) == 1


def test_every_decoded_token_is_drawn() -> None:
    """Of four after a prompt of four, all; a stated one is taken."""
    steps = {position(made(seq_len=4, seed=seed))[1] for seed in range(40)}
    assert steps == {1, 2, 3, 4}
    assert position(made(seq_len=4, step=3))[1] == 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"layer": 3}, "layer: must be below 3, not 3"),
        ({"layer": 1, "workload": "trimoe-skew"}, "layer: must be below 1, not 1"),
        ({"seq_len": 151}, "seq_len: needs 302 tokens, a skewed trace has 300"),
        ({"step": 65}, "step: must be from 1 to 64, not 65"),
        ({"stage": "prefill", "residents": 1}, "residents: must be 0 in prefill"),
        ({"quantum_ns": 5000}, "quantum_ns: must be at most the shortest time, 1064 ns"),
        (
            {"machine": "rtx4090-7960x"},
            "generate balance: ndp: machine rtx4090-7960x has no NDP units",
        ),
        ({"stage": "both"}, "generate balance: stage: must be 'decode' or 'prefill'"),
        ({"model": "qwen3-30b-a3b"}, "a skewed trace: topk_ids: 6 per token in a top-8 model"),
    ],
)
def test_arguments_that_do_not_fit_are_named_with_the_reason(
    arguments: dict[str, Any], says: str
) -> None:
    """One line each, and before anything is made."""
    assert refused(made, **arguments).startswith(says)


def test_shared_experts_of_another_size_are_refused() -> None:
    """All slices pass the link in the same time."""
    data = get_model("deepseek-moe-16b").model_dump() | {"shared_intermediate_size": 1000}
    model = type(get_model("deepseek-moe-16b")).model_validate(data)
    with pytest.raises(InputError, match="shared experts of another size"):
        made(model=model)


def test_the_machines_units_are_the_instances() -> None:
    """2, 4 and 6 units; fewer units hold wider slices."""
    found = [made(machine=f"edge-gpu-ndp-{n}") for n in (2, 4, 6)]
    assert [instance.ndp_units for instance in found] == [2, 4, 6]
    assert get_machine("edge-gpu-ndp-4").ndp_units == 4
    widths = [instance.slice_transfer_ns for instance in found]
    assert widths[0] == 2 * widths[1] > widths[2]


def test_an_instance_is_made_again_under_another_assumption(root: Path) -> None:
    """From its own tokens and its provenance: what the generator would have made at once."""
    slow = made(stage="prefill", layer=1, slices_per_unit=4, seed=2, name="p")
    fast = made(stage="prefill", layer=1, slices_per_unit=4, seed=2, name="p", ndp_speedup=64.0)
    assert assume(slow, "ndp_speedup", "64") == fast
    assert assume(fast, "ndp_speedup", "1") == slow
    single = made(
        stage="prefill", layer=1, slices_per_unit=4, seed=2, name="p", activations="single"
    )
    assert assume(slow, "activations", "single") == single
    assert assume(single, "activations", "streamed") == slow
    assert assume(slow, "slices_per_unit", "2") is None
    assert assume(slow.model_copy(update={"activation_ns": 7}), "ndp_speedup", "64") is None
    with pytest.raises(InputError, match="activations"):
        assume(slow, "activations", "both")
    folder = root / "instances" / "balance" / "prefill-synthetic"
    old = moeopt.load(folder / "prefill-phi-3.5-moe-edge-gpu-ndp-2-slices1.json")
    assert assume(old, "ndp_speedup", "16") == old
    assert assume(old, "activations", "streamed") != old
