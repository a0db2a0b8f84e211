"""`simulate` with machines and models: costs, widths, missing parts, traces and workloads."""

import json
from pathlib import Path

import numpy as np
import pytest

from moeopt import InputError, Plan, get_machine, save, simulate
from tests.rooms.sim import (
    Trace,
    Workload,
    find,
    get_model,
    step_costs,
)
from tests.rooms.systems import cost_table, loads_of_trace, loads_of_workload

MACHINE, MODEL = get_machine("trimoe"), get_model("deepseek-v2-lite")
EXPERTS = MODEL.routed_experts
NO_SHARED = {"times": {"shared_ns": 0}}


def only(expert: int, tokens: int) -> np.ndarray:
    """Return counts of one step and one layer in which one expert has all tokens."""
    counts = np.zeros((1, 1, EXPERTS), dtype=np.int64)
    counts[0, 0, expert] = tokens
    return counts


@pytest.mark.parametrize("tokens", [1, 37])
def test_one_expert_costs_what_the_cost_model_says(tokens: int) -> None:
    """Each path alone, in both ways of timing; an upload has ended before it is computed."""
    costs = step_costs(MACHINE, MODEL).experts([tokens])
    fetch_ns = int(cost_table(step_costs(MACHINE, MODEL), tokens).fetch_ns[0])
    here, there = {"layout": [[3] * EXPERTS]}, {"policy": "gpu-only"}
    ndp = {"assignments": [{"layer": 0, "ndp": [5]}]}
    expected = [
        ({}, max(costs.cpu_striped_ns[0], costs.dram_striped_ns)),
        (here, max(costs.cpu_localized_ns[0], costs.dram_localized_ns)),
        (here | ndp, costs.ndp_ns[0]),
        (there, max(fetch_ns, costs.dram_striped_ns) + costs.gpu_hit_ns[0]),
        (there | here, max(fetch_ns, costs.dram_localized_ns) + costs.gpu_hit_ns[0]),
        ({"resident": [[5]]}, costs.gpu_hit_ns[0]),
    ]
    for plan, cost in expected:
        for timeline in (False, True):
            made = Plan.model_validate(plan | NO_SHARED)
            found = simulate(made, MACHINE, MODEL, only(5, tokens), timeline=timeline)
            assert found.step_ns.tolist() == [cost]


def test_fewer_bits_move_faster_and_compute_no_faster() -> None:
    """A quarter of the bits: a quarter of the transfer; a resident expert takes the same."""
    steps = []
    for plan in ({"policy": "gpu-only"}, {"resident": [[5]]}):
        steps += [
            int(
                simulate(
                    Plan.model_validate(plan | NO_SHARED | {"bits": [bits]}),
                    MACHINE,
                    MODEL,
                    only(5, 512),
                    quantum_ns=1,
                ).makespan_ns
            )
            for bits in (16, 4)
        ]
    moved, computed = steps[:2], steps[2:]
    assert computed[0] == computed[1]
    assert moved[0] - computed[0] == pytest.approx(4 * (moved[1] - computed[1]), rel=1e-4)


def test_shared_experts_and_given_times() -> None:
    """Shared experts of the whole batch run beside the routed ones; arguments replace times."""
    plan = Plan(resident=((5,),))
    bare = simulate(plan, MACHINE, MODEL, only(5, 6))
    none = simulate(
        Plan.model_validate({"resident": [[5]]} | NO_SHARED), MACHINE, MODEL, only(5, 6)
    )
    assert bare.makespan_ns > none.makespan_ns
    more = simulate(plan, MACHINE, MODEL, only(5, 6), attention_ns=1000, other_ns=[30])
    assert more.makespan_ns == bare.makespan_ns + 1030
    with pytest.raises(InputError, match=r"attention_ns\[0\]: must be at least 0, not -1"):
        simulate(plan, MACHINE, MODEL, only(5, 6), attention_ns=-1)


def test_machines_without_a_part() -> None:
    """One clear line, and only if the plan needs the part."""
    memory = MACHINE.require("cpu").model_copy(update={"computes": ()})
    bare = MACHINE.with_devices(memory)
    gpu = Plan(policy="gpu-only")
    assert simulate(gpu, bare, MODEL, only(5, 1)).makespan_ns > 0
    with pytest.raises(InputError, match="machine trimoe: cpu: is missing"):
        simulate(Plan(), bare, MODEL, only(5, 1))
    ndp = {"layout": [[0] * EXPERTS], "assignments": [{"layer": 0, "ndp": [5]}]}
    with pytest.raises(InputError, match="machine trimoe: ndp: is missing"):
        simulate(Plan.model_validate(ndp), bare, MODEL, only(5, 1))


def test_loads_come_from_traces() -> None:
    """Steps of consecutive tokens, the router's order, and what is not there."""
    ids = np.random.default_rng(0).permuted(np.tile(np.arange(EXPERTS), (10, 2, 1)), axis=2)[
        :, :, : MODEL.top_k
    ]
    trace = Trace("t", ids)
    loads = loads_of_trace(trace, MODEL, batch=4, batching="window")
    assert loads.counts.shape == (2, 2, EXPERTS)
    for step in range(2):
        for layer in range(2):
            chosen = ids[4 * step : 4 * step + 4, layer].ravel()
            counted = np.bincount(chosen, minlength=EXPERTS)
            assert loads.counts[step, layer].tolist() == counted.tolist()
            listed = list(dict.fromkeys(chosen.tolist()))
            mentions = loads.first_mentions(step)[layer, listed]
            assert (np.diff(mentions) > 0).all()
    found = simulate(Plan(), MACHINE, MODEL, trace, 1, batch=4, layers=1)
    assert (found.steps, found.layers, found.tokens) == (1, 1, 4)
    assert found.tokens_per_s == pytest.approx(4e9 / int(found.step_ns[0]))
    with pytest.raises(InputError, match="steps: t with batch 4: there are 2, not 3"):
        simulate(Plan(), MACHINE, MODEL, trace, 3, batch=4)
    with pytest.raises(InputError, match="batch: must be at least 1, not 0"):
        simulate(Plan(), MACHINE, MODEL, trace, batch=0)


def test_loads_come_from_workloads() -> None:
    """Every layer and step has its tokens; the seed decides, and layers differ."""
    law = find("workloads", Workload, "trimoe-skew")
    loads = loads_of_workload(law, MODEL, batch=8, steps=3, layers=4, seed=1)
    assert loads.counts.shape == (3, 4, EXPERTS)
    assert (loads.counts.sum(axis=2) == 8 * MODEL.top_k).all()
    again = loads_of_workload(law, MODEL, batch=8, steps=3, layers=4, seed=1)
    assert (again.counts == loads.counts).all()
    other = loads_of_workload(law, MODEL, batch=8, steps=3, layers=4, seed=2)
    assert (other.counts != loads.counts).any()
    assert (loads.counts[:, 0] != loads.counts[:, 1]).any()
    with pytest.raises(InputError, match="steps: must be at least 1, not 0"):
        loads_of_workload(law, MODEL, batch=8, steps=0, layers=4, seed=1)


@pytest.mark.parametrize(
    ("counts", "error"),
    [
        (np.zeros((2, 3)), "counts: must have steps, layers and experts"),
        (np.zeros((1, 1, EXPERTS)), "counts: must be integers"),
        (np.full((1, 1, EXPERTS), -1), "counts: must be integers, none negative"),
        (np.zeros((1, 1, 3), dtype=int), f"counts: 3 experts in a model of {EXPERTS}"),
        (np.zeros((1, 99, EXPERTS), dtype=int), "counts: 99 layers in a model of 26 with experts"),
    ],
)
def test_bad_counts(counts: np.ndarray, error: str) -> None:
    """One clear line."""
    with pytest.raises(InputError, match=error):
        simulate(Plan(), MACHINE, MODEL, counts)


def test_too_large_a_timeline_is_refused() -> None:
    """Before anything runs."""
    counts = np.ones((200, 26, EXPERTS), dtype=np.int64)
    with pytest.raises(InputError, match="steps: a timeline of 200 may have 5990400 tasks"):
        simulate(Plan(), MACHINE, MODEL, counts, timeline=True)


def test_names_and_files_do_as_well(tmp_path: Path) -> None:
    """Presets by name, a plan file, and no plan for the default one."""
    save(Plan(name="mine", policy="gpu-only"), tmp_path / "plan.json")
    named = simulate(tmp_path / "plan.json", "trimoe", "deepseek-v2-lite", only(5, 6))
    assert (
        named.to_dict()
        == simulate(Plan(name="mine", policy="gpu-only"), MACHINE, MODEL, only(5, 6)).to_dict()
    )
    assert simulate(None, "trimoe", "deepseek-v2-lite", only(5, 6)).experts_run["cpu"] == 1
    with pytest.raises(InputError, match="machine: 'none' is neither a file nor one of"):
        simulate(None, "none", "deepseek-v2-lite", only(5, 6))


def test_results_are_json() -> None:
    """Everything but the timeline, in plain values."""
    found = simulate(Plan(), MACHINE, MODEL, only(5, 6), timeline=True)
    data = json.loads(json.dumps(found.to_dict()))
    assert data["step_ns"] == found.step_ns.tolist()
    assert [used["resource"] for used in data["usage"]][:3] == ["GPU", "CPU", "DIMM 0"]
    assert "timeline" not in data
