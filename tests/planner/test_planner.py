"""Plans: what is decided fits, is judged, is what the engine executes, and beats what it must."""

import json
import os
from dataclasses import fields, replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import get_machine
from tests.planner import small_plans
from tests.planner.small_plans import plan_experts
from tests.rooms.exporters import Exported, Target, all_targets, llama_cpp, targets_of
from tests.rooms.planner import (
    Candidate,
    Planned,
    Predicted,
    Request,
    best_of,
    hand_over,
    known_steps,
    loads_of,
    page,
)
from tests.rooms.sim import Trace, Workload, find, get_model, routing_trace

MODEL = get_model("deepseek-v2-lite").model_copy(update={"layers": 6})
"""A fifth of the model, and a GPU with room for half of its experts."""

LAYERS = len(MODEL.moe_layers)


def planned_for(r: Request) -> Planned:
    """Return the plan of a request."""
    made_here = ("expect", "by_file", "overheads")
    given = {one.name: getattr(r, one.name) for one in fields(r) if one.name not in made_here}
    return plan_experts(**given)


def request(tokens: int = 60, **changes: object) -> Request:
    """Return a small request: DeepSeek-V2-Lite on an RTX 4090, a dozen steps, half the memory."""
    law = find("workloads", Workload, "esft-deepseek-v2-lite")
    trace = routing_trace(law, MODEL.routed_experts, MODEL.top_k, LAYERS, tokens, 3)
    made = Request(
        machine=get_machine("rtx4090-7960x"),
        model=MODEL,
        trace=trace,
        steps=12,
        time_limit_s=60,
        joint_time_s=0,
        reserved_gib=20.0,
        max_deferred=4,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


@cache
def small() -> Planned:
    """Return the plan of the small request, for several tests."""
    return planned_for(request())


def test_residents_and_caches_fit_into_memory() -> None:
    """Bytes of all parts together are at most the GPU's."""
    planned = small()
    chosen = planned.chosen.plan
    places = sum(map(len, chosen.resident or ())) + sum(chosen.cache_ways)
    assert places <= planned.placement.gpu_slots
    assert places * planned.request.model.expert_bytes <= planned.memory["experts"]
    assert sum(planned.memory.values()) - planned.memory["total"] == planned.memory["total"]


def test_decisions_pass_the_checker() -> None:
    """Every decision of the plan is valid for its instance, with the objective it claims."""
    for decision in small().chosen.decisions:
        verdict = moeopt.check(decision.instance, decision.solution)
        assert verdict.violations == []
        assert verdict.objective == decision.result.objective


def test_prediction_is_what_the_engine_says_on_held_out_steps() -> None:
    """The latencies of the page come from executing the plan's file on the held-out part."""
    planned = small()
    r = planned.request
    _, held_out = r.parts()
    found = moeopt.simulate(
        planned.chosen.plan, r.machine, r.model, held_out, steps=12, quantum_ns=r.quantum_ns
    )
    said = planned.comparisons[0].later
    assert said.steps == found.steps
    past_ns = int(found.step_ns[1:].sum())  # the first step has empty caches and stands apart
    assert said.first_ms == pytest.approx(found.step_ns[0] / 1e6)
    assert said.mean_ms == pytest.approx(past_ns / (found.steps - 1) / 1e6)
    assert said.tokens_per_s == pytest.approx(1e3 / said.mean_ms)
    assert said.median_ms == pytest.approx(np.median(found.step_ns[1:]) / 1e6)


def test_no_slower_than_the_decisions_in_turn_or_any_default() -> None:
    """On the steps that were decided on, up to the tolerance in favour of deferring less."""
    mine, *others = small().comparisons
    assert len(others) >= 3
    assert all(mine.kept.mean_ms <= 1.005 * other.kept.mean_ms for other in others)


@pytest.mark.slow
def test_nothing_deferred_unless_asked_for() -> None:
    """Deferral changes the model's output: by default there is none."""
    asked = request()
    planned = plan_experts(
        asked.machine,
        asked.model,
        asked.trace,
        steps=asked.steps,
        reserved_gib=asked.reserved_gib,
        time_limit_s=asked.time_limit_s,
        joint_time_s=0,
    )
    assert planned.chosen.deferred == 0
    assert set(planned.chosen.plan.deferred) == {0}
    assert planned.chosen.kept.mean_ms >= small().chosen.kept.mean_ms
    assert "deferral   none" in page(planned)


@pytest.mark.slow
def test_bits_make_room() -> None:
    """At 8 bits on average more experts fit, and sizes are those of the widths."""
    planned = planned_for(request(average_bits=8.0, bits="4,8,16"))
    widths = planned.chosen.plan.bits
    assert widths is not None
    assert sum(map(sum, widths)) <= 8 * LAYERS * 64
    taken = sum(
        widths[layer][expert]
        for layer, row in enumerate(planned.chosen.plan.resident or ())
        for expert in row
    )
    bytes_per_bit = planned.request.model.expert_bytes / planned.request.model.bits
    assert taken * bytes_per_bit <= planned.memory["experts"]
    held = sum(map(len, planned.chosen.plan.resident or ()))
    assert held > sum(map(len, small().chosen.plan.resident or ()))


@pytest.mark.slow
def test_held_out_steps_are_not_those_decided_on() -> None:
    """Of a trace that reads its text twice the second reading is left out, and the page says so."""
    ids = request().trace.topk_ids
    twice = Trace("two turns", np.concatenate([ids, ids]))
    planned = planned_for(request(trace=twice, steps=3, max_deferred=0))
    assert (planned.removed_tokens, planned.known_steps) == (60, 0)
    assert planned.to_dict()["removed_tokens"] == 60
    assert "left out: 60 of 120 tokens, in runs that occurred before" in page(planned)
    assert "left out" not in page(small())
    asked = request(trace=twice, keep_repeats=True, held_out=0.5)
    kept, later = (loads_of(asked, part) for part in asked.parts())
    assert known_steps(kept, later) == 12


@pytest.mark.slow
def test_a_batch_has_no_caches() -> None:
    """Caches are decided for single tokens; a batch is planned with residents alone."""
    planned = planned_for(request(batch=4, tokens=120))
    assert set(planned.chosen.plan.cache_ways) == {0}
    assert planned.comparisons[0].kept.steps == 12


def test_the_default_plans_fit_the_same_room() -> None:
    """What runtimes would do holds no more experts than there is room for."""
    planned = small()
    names = [comparison.plan.name for comparison in planned.comparisons]
    assert any(name.startswith("ktransformers") for name in names)
    for comparison in planned.comparisons:
        residents = comparison.plan.resident or ()
        assert sum(map(len, residents)) <= planned.placement.gpu_slots


def candidate(mean_ms: float, deferred: int, share: float) -> Candidate:
    """Return a candidate of which only the ranking counts."""
    predicted = Predicted(1, mean_ms, mean_ms, mean_ms, 1.0, mean_ms)
    return Candidate(small().chosen.plan, (), predicted, deferred, share)


def test_ties_go_to_fewer_deferred_then_to_more_residents() -> None:
    """Half a percent is a tie, one percent is not."""
    fast, fewer, slow = (candidate(*of) for of in ((100, 9, 0.0), (100.4, 3, 0.0), (101, 0, 1.0)))
    resident = candidate(100.3, 3, 0.5)
    assert best_of([fast, fewer, slow]) is fewer
    assert best_of([fast, fewer, slow, resident]) is resident


def quickly(planned: Planned) -> Planned:
    """Return a plan whose files have a second each: no fact rests on what is proven in it."""
    return replace(planned, request=replace(planned.request, time_limit_s=1.0))


def test_hand_over(tmp_path: Path) -> None:
    """Plan, instances, solutions and the runtimes' files; everything can be read back."""
    planned = small()
    lines = hand_over(quickly(planned), tmp_path)
    assert moeopt.load_plan(tmp_path / "plan.json") == planned.chosen.plan
    for decision in planned.chosen.decisions:
        instance = moeopt.load(tmp_path / f"{decision.name}-instance.json.gz")
        solution = moeopt.load_solution(tmp_path / f"{decision.name}-solution.json")
        assert moeopt.check(instance, solution).violations == []
    assert (tmp_path / "residency-ktransformers.pt").exists()
    assert "--init-expert-location" in (tmp_path / "flags.txt").read_text()
    for decision in planned.chosen.decisions:
        for target in targets_of(decision.instance.problem):
            file = tmp_path / f"{decision.name}-{target.name}{target.suffix}"
            refused = [line for line in lines if line.startswith(f"{target.name}: nothing written")]
            assert file.exists() != bool(refused), target.name
            for warning in (
                json.loads(notes_of(file).read_text())["warnings"] if not refused else ()
            ):
                assert f"  warning: {warning}" in lines
    assert os.access(tmp_path / "residency-llama.cpp.txt.run.sh", os.X_OK)


def test_hand_over_asks_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands there is written, without a line of the planner's."""
    new = Target(
        "new", "a new consumer", ("placement",), ".new", lambda job: Exported(b"x"), "all", "none"
    )
    monkeypatch.setattr(llama_cpp, "TARGETS", (*llama_cpp.TARGETS, new))
    all_targets.cache_clear()
    try:
        lines = hand_over(quickly(small()), tmp_path)
    finally:
        monkeypatch.undo()
        all_targets.cache_clear()
    assert (tmp_path / "residency-new.new").read_bytes() == b"x"
    assert "residency-new.new: for a new consumer" in lines


def notes_of(file: Path) -> Path:
    """Return the notes beside an exported file."""
    return file.with_name(file.name + ".notes.json")


def test_json_and_page() -> None:
    """Both say the same latencies; the page has a line for every comparison."""
    planned = small()
    data, text = planned.to_dict(), page(planned)
    assert data["plan"]["name"] == "plan"
    for comparison in planned.comparisons:
        assert comparison.plan.name in text
    busy = data["comparisons"][0]["held_out"]["busy"]
    assert f"bottleneck held out: {max(busy, key=busy.get)}, busy" in text
    assert f"{data['comparisons'][0]['held_out']['median_ms']:.2f}" in text


@pytest.mark.slow
def test_steps_to_decide_on_and_to_hold_out() -> None:
    """Each has a number of its own; the one does not move the other."""
    drawn = small_plans.trace_of(small_plans.MODEL, 60)
    for changes, kept, held_out in (
        ({}, 12, 12),
        ({"decide_steps": 5}, 5, 12),
        ({"hold_out_steps": 7}, 12, 7),
        ({"decide_steps": 40, "hold_out_steps": 99}, 40, 18),  # of 42 and 18
    ):
        found = small_plans.planned_for(trace=drawn, steps=12, **changes).comparisons[0]
        assert (found.kept.steps, found.later.steps) == (kept, held_out)
    asked = replace(request(), steps=None)
    assert (asked.most_decided_on, asked.most_held_out) == (1000, 500)


@pytest.mark.parametrize("time_limit_s", [1e-6, 0.05])
def test_there_is_a_plan_however_little_time(time_limit_s: float) -> None:
    """Where an exact method finds nothing in time, a rule of the problem decides."""
    for changes in ({}, {"average_bits": 4.0}):
        options = {"time_limit_s": time_limit_s, "max_deferred": 99, "steps": 6} | changes
        planned = small_plans.planned_for(**options)
        assert planned.chosen.plan.resident
        assert planned.candidates == 1 or time_limit_s > 1e-6  # no time is left for another
        for decision in planned.chosen.decisions:
            assert moeopt.check(decision.instance, decision.solution).violations == []


def test_what_is_proven_is_said_of_each_decision_alone() -> None:
    """No line says that the decisions together are optimal."""
    text = page(small())
    assert "jointly" not in text
    lines = [line for line in text.splitlines() if "proven" in line]
    assert all("for this decision alone" in line or "nothing is proven" in line for line in lines)
    assert f"the fastest of {small().candidates} combinations" in text
