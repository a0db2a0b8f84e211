"""placement instances: reproducible, from real and synthetic traces, with room for what fits."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine, run_on
from tests.refusals import refused
from tests.rooms.core import GIB
from tests.rooms.placement import HEURISTICS, Instance, assume, frequency, memory_of, objective
from tests.rooms.sim import (
    Trace,
    get_model,
    hold_out,
    step_costs,
)

LITE: dict[str, Any] = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite"}


def trace(tokens: int = 40, layers: int = 4, seed: int = 0) -> Trace:
    """Return a random trace of DeepSeek-V2-Lite's shape, cut to few layers, in two sequences."""
    rng = np.random.default_rng(seed)
    ids = rng.permuted(np.tile(np.arange(64), (tokens, layers, 1)), axis=2)[:, :, :6]
    return Trace("drawn", ids, seq_len=np.array([tokens // 2, tokens - tokens // 2]))


def made(**arguments: Any) -> Instance:
    """Return an instance of DeepSeek-V2-Lite at 24 GB unless told otherwise."""
    return moeopt.generate("placement", **(LITE | {"batching": "window"} | arguments))


def test_steps_are_those_of_the_trace() -> None:
    """Every token is in one step, in the order of the trace; the first steps can be left out."""
    given = trace()
    instance = made(trace=given, batch=8, steps=3, first_step=1, share=0.5)
    assert (len(instance.steps), instance.layers, instance.experts) == (3, 4, 64)
    assert instance.gpu_slots == 128
    for number, step in enumerate(instance.steps, 1):
        for layer, active in enumerate(step):
            chosen = given.topk_ids[8 * number : 8 * number + 8, layer]
            assert dict(active) == {int(e): int((chosen == e).sum()) for e in np.unique(chosen)}
    assert made(trace=given, batch=8, steps=3, first_step=1, share=0.5, layers=2).layers == 2


def test_costs_are_those_of_the_machine_or_as_stated() -> None:
    """One entry per token count up to the batch; the charge is one hand-over."""
    instance = made(trace=trace(), batch=8, steps=2)
    machine, model = get_machine("rtx4090-7960x"), get_model("deepseek-v2-lite")
    tokens = np.arange(1, 9)
    assert instance.gpu_expert_ns == (
        0,
        *step_costs(machine, model).path_ns("gpu_hit", tokens).tolist(),
    )
    assert instance.offload_expert_ns[1:] == tuple(
        step_costs(machine, model).path_ns("cpu_striped", tokens)
    )
    assert instance.layer_offload_fixed_ns == 110_000
    stated = {"gpu_us": 60, "gpu_us_per_token": 4, "offload_us": 150, "offload_us_per_token": 15}
    instance = made(trace=trace(), batch=2, steps=2, fixed_us=30, quantum_ns=1000, **stated)
    assert instance.gpu_expert_ns == (0, 64_000, 68_000)
    assert instance.offload_expert_ns == (0, 165_000, 180_000)
    assert instance.layer_offload_fixed_ns == 30_000


def test_the_kv_cache_takes_its_share() -> None:
    """24 GiB less 2.3 GiB of dense weights, less KV bytes of each sequence, less the reserve."""
    machine, model = get_machine("rtx4090-7960x"), get_model("deepseek-v2-lite")
    memory = memory_of(machine, model, 8, 1000, 2.0)
    assert memory["total"] == 24 * GIB
    assert memory["kv_cache"] == 27 * 8 * 1000 * (512 + 64) * 2
    assert memory["dense"] == model.resident_weights * 2
    assert memory["experts"] == 22 * GIB - memory["dense"] - memory["kv_cache"]
    assert memory_of(machine, model, 64, 10**6, 2.0)["experts"] == 0
    slots = [made(trace=trace(), steps=1, batch=b, context=c).gpu_slots
             for b, c in ((1, 0), (1, 32_768), (8, 32_768))]  # fmt: skip
    assert slots[0] > slots[1] > slots[2] > 0
    instance = made(trace=trace(), steps=1)
    assert instance.provenance["gpu_memory"]["experts"] // model.expert_bytes == instance.gpu_slots


def test_bits_may_be_fractional() -> None:
    """As many experts fit at 4.5 bits as the room allows; whole widths stay integers in files."""
    four, more = (made(trace=trace(), steps=2, bits=bits) for bits in (4, 4.5))
    assert more.gpu_slots == pytest.approx(four.gpu_slots * 4 / 4.5, abs=2)
    assert repr(four.provenance["options"]["bits"]) == "4"
    assert more.provenance["options"]["bits"] == 4.5
    with pytest.raises(InputError, match=r"bits: 4\.5 per weight are no whole number"):
        made(trace=trace(), steps=2, bits=4.5, cold_bits=2)


def test_bits_change_sizes_and_costs() -> None:
    """A quarter of the bits, four times the slots; mixed bits count in slots of one bit."""
    native, four = made(trace=trace(), steps=2), made(trace=trace(), steps=2, bits=4)
    assert 4 * native.gpu_slots <= four.gpu_slots <= 4 * native.gpu_slots + 4
    assert four.offload_expert_ns[1] < native.offload_expert_ns[1]
    mixed = made(trace=trace(), steps=2, bits=8, cold_bits=4, hot_share=0.25, share=0.5)
    assert mixed.gpu_slots == 4 * 64 * 8 // 2
    used = mixed.tokens[1]
    hot = {e for e, size in enumerate(mixed.expert_slots[1]) if size == 8}
    assert len(hot) == 16
    assert min(used[e] for e in hot) >= max(used[e] for e in set(range(64)) - hot)


def test_experts_may_have_their_own_times() -> None:
    """Those of cold_bits take what that width takes on either side; the rest is the same."""
    options: dict[str, Any] = {"steps": 2, "batch": 3, "bits": 8, "cold_bits": 4, "share": 0.5}
    alike, own = (made(trace=trace(), **options, **more) for more in ({}, {"own_times": True}))
    assert (
        own.model_copy(
            update={"expert_width": None, "width_gpu_ns": None, "width_offload_ns": None}
            | {"schema_version": 1, "provenance": alike.provenance}
        )
        == alike
    )
    four = made(trace=trace(), steps=2, batch=3, bits=4)
    assert own.width_gpu_ns == (four.gpu_expert_ns,)
    assert own.width_offload_ns == (four.offload_expert_ns,)
    assert own.expert_slots is not None
    for layer, row in enumerate(own.expert_slots):
        for expert, size in enumerate(row):
            of = four if size == 4 else alike
            assert own.gpu_ns(layer, expert, 2) == of.gpu_expert_ns[2]
            assert own.offload_ns(layer, expert, 5) == of.offload_ns(0, 0, 5)


def test_dispatch_is_free_if_asked_for() -> None:
    """Then provenance says so; otherwise neither it nor the instance has the word."""
    plain, free = (made(trace=trace(), steps=2, **of) for of in ({}, {"dispatch": "free"}))
    assert (free.dispatch, free.schema_version, plain.schema_version) == ("free", 2, 1)
    assert free.provenance["options"]["dispatch"] == "free"
    assert "dispatch" not in plain.provenance["options"]
    assert plain == assume(free, "dispatch", "resident").model_copy(  # type: ignore[union-attr]
        update={"provenance": plain.provenance}
    )


def _at(context: int, **options: Any) -> Instance:
    return made(trace=trace(), batch=8, steps=2, context=context, name="here", **options)


@pytest.mark.parametrize("cold", [{}, {"bits": 8, "cold_bits": 4}])
def test_a_longer_context_leaves_fewer_slots(cold: dict[str, Any]) -> None:
    """The same steps with the room that the KV caches leave."""
    short, long = (_at(c, **cold) for c in (0, 65536))
    assert long.gpu_slots < short.gpu_slots
    assert long.steps == short.steps


def test_host_memory_counts_in_the_same_slots() -> None:
    """16 GiB of experts of 16.5 MiB; restrictions are handed through."""
    instance = made(trace=trace(), steps=1, host_gib=16.0, host_copy=False, fill=True)
    assert instance.host_slots == int(16 * GIB / get_model("deepseek-v2-lite").expert_bytes)
    assert (instance.host_copy, instance.fill) == (False, True)
    assert made(trace=trace(), steps=1, restriction="whole-layers").restriction == "whole-layers"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"steps": 41}, "steps: steps 0 to 41 of 1 in 4 layers; drawn has 40 in 4"),
        ({"steps": 1, "layers": 5}, "steps: steps 0 to 1 of 1 in 5 layers"),
        ({"machine": "cxl-ndp", "steps": 1}, "generate placement: cpu: machine cxl-ndp has no CPU"),
        ({"steps": 1, "own_times": True}, "own_times: needs cold_bits, as all experts have the"),
        ({"steps": 1, "dispatch": "free", "host_copy": False}, "dispatch: free needs a copy of"),
        ({"model": "mixtral-8x7b"}, "drawn: topk_ids: expert"),
        (
            {"trace": None, "workload": "trimoe-skew", "batch": 2**16, "steps": 65},
            "steps: 4259840 tokens are more than",
        ),
    ],
)
def test_what_cannot_be_made(arguments: dict[str, Any], reason: str) -> None:
    """One line with the field and the reason."""
    assert refused(made, **{"trace": trace()} | arguments).startswith(reason)


def test_every_placement_can_be_held_out() -> None:
    """Decided on one sequence, used on the other; what does not fit is refused."""
    kept, later = (made(trace=part, steps=20, share=0.25) for part in hold_out(trace()))
    for heuristic in HEURISTICS.values():
        plan = heuristic(kept)
        assert run_on(kept, plan) == objective(kept, plan)
        moved = plan.model_copy(update={"instance": later.name})
        assert run_on(later, plan) == objective(later, moved)
    full = frequency(kept)
    assert full is not None
    with pytest.raises(InputError, match="PL-C1: 64 slots are taken, there are 9"):
        run_on(later.model_copy(update={"gpu_slots": 9}), full)
    with pytest.raises(InputError, match="PL-C1: gpu has 4 rows for 2 layers"):
        run_on(made(trace=trace(), steps=2, layers=2), full)


def routed(tokens: int = 40) -> Trace:
    """Return a trace with routing scores, in three sequences, the first four tokens long."""
    drawn = trace(tokens)
    weights = np.random.default_rng(1).random(drawn.topk_ids.shape).astype(np.float16)
    return replace(drawn, topk_weights=weights, seq_len=np.array([4, 20, tokens - 24]))


def table(instance: Instance, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Return what an instance knows by this name."""
    found = getattr(instance.known, name)
    assert found is not None
    return np.array(found)


def counted(part: Trace, tokens: slice | list[int]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return how many of some tokens chose each of 64 experts, by layer."""
    ids = part.topk_ids[tokens]
    return np.array([np.bincount(ids[:, i].ravel(), minlength=64) for i in range(ids.shape[1])])


def test_rules_know_the_prompts_of_the_sequences_that_are_decoded() -> None:
    """The steps are the second halves, one token of each sequence; the rest is a profile."""
    given, options = routed(), {"batching": "sequences", "share": 0.25}
    one = made(trace=given, first_sequence=1, steps=10, **options)
    # the second sequence begins at token 4 and is 20 long: its answer begins at token 14
    assert [dict(active) for active in one.steps[0]] == [
        {int(e): 1 for e in given.topk_ids[14, layer]} for layer in range(4)
    ]
    assert (table(one, "prefill_counts") == counted(given, slice(4, 14))).all()
    assert (table(one, "profile_counts") == counted(given, [*range(4), *range(24, 40)])).all()
    in_all = given.topk_weights[4:14].astype(float).sum(axis=(0, 2))
    assert np.allclose(table(one, "prefill_scores").sum(axis=1), 10**6 * in_all, atol=64)
    assert one.provenance["options"]["prompt_share"] == 0.5
    assert one.provenance["known"] == {
        "prefill": "10 prompt tokens of sequences 1 to 1",
        "profile": "20 tokens of all other sequences",
    }
    quarter = made(trace=given, first_sequence=1, steps=10, prompt_share=0.25, **options)
    assert (table(quarter, "prefill_counts") == counted(given, slice(4, 9))).all()
    two = made(trace=given, first_sequence=1, batch=2, steps=8, **options)
    assert (table(two, "prefill_counts") == counted(given, [*range(4, 14), *range(24, 32)])).all()
    assert {sum(n for _, n in layer) for step in two.steps for layer in step} == {12}


def test_decode_marks_say_what_the_prompt_is() -> None:
    """No share is assumed where the trace marks generated tokens."""
    marks = np.zeros(40, dtype=bool)
    marks[20:24] = True
    given = replace(routed(), decode=marks, topk_weights=None)
    one = made(trace=given, first_sequence=1, steps=4, batching="sequences")
    assert (table(one, "prefill_counts") == counted(given, slice(4, 20))).all()
    assert (one.known.prefill_scores, one.known.score_scale) == (None, None)
    assert "prompt_share" not in one.provenance["options"]


def test_without_sequences_rules_know_the_earlier_steps() -> None:
    """A stretch at the beginning has none; in hindsight nothing is known, of the same steps."""
    given = trace()
    later = made(trace=given, batch=4, steps=3, first_step=2, share=0.25)
    assert (table(later, "profile_counts") == counted(given, slice(0, 8))).all()
    assert later.known.prefill_counts is None
    first = made(trace=given, batch=4, steps=3, share=0.25)
    hindsight = made(trace=given, batch=4, steps=3, first_step=2, share=0.25, rules_know="steps")
    assert (first.schema_version, first.known) == (1, None)
    assert (hindsight.schema_version, hindsight.known) == (1, None)
    assert hindsight.steps == later.steps
    assert "rules_know" not in hindsight.provenance["options"]
    again = assume(later, "rules_know", "steps")
    assert again.model_copy(update={"provenance": hindsight.provenance}) == hindsight
    assert assume(later, "rules_know", "before") is later
    assert assume(hindsight, "rules_know", "before") is None


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"first_sequence": 1}, "batching: must be sequences with first_sequence"),
        ({"prompt_share": 0.5}, "prompt_share: needs first_sequence"),
        (
            {"first_sequence": 2, "batch": 2, "batching": "sequences"},
            "first_sequence: 3 is beyond the 3 of drawn",
        ),
        (
            {"first_sequence": 0, "batching": "sequences", "steps": 3},
            "steps: steps 0 to 3 of 1 in 4 layers; drawn has 2 in 4",
        ),
        (
            {"trace": replace(trace(), seq_len=None), "first_sequence": 0}
            | {"batching": "sequences"},
            "drawn: seq_len: is needed for first_sequence",
        ),
    ],
)
def test_sequences_that_cannot_be_decoded(arguments: dict[str, Any], reason: str) -> None:
    """One line with the field and the reason."""
    assert refused(made, **{"trace": routed(), "steps": 1} | arguments).startswith(reason)
