"""Layouts decided on some windows, executed on others: valid there, and scheduled anew."""

from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError
from tests.rooms.layout import COSTS, Domain, Instance, Scenario, Solution, check, execute_layout
from tests.rooms.tri_domain import Instance as Layer
from tests.rooms.tri_domain import Solution as Assignment

EXPERTS, DIMMS = 6, 3
NEWER: dict[str, Any] = {
    "schema_version": 2, "channels": (0, 0, 1), "dimm_share": (1, 2), "gpu_base_ns": 9,
}  # fmt: skip


def small(rng: np.random.Generator, scenarios: int, name: str, schema_version: int = 1) -> Instance:
    """Return an instance of random loads and costs; in schema 2 with all of its limits."""
    rows = []
    for _ in range(scenarios):
        costs = {cost: tuple(rng.integers(1, 30, EXPERTS).tolist()) for cost in COSTS}
        tokens = rng.integers(0, 3, EXPERTS)
        if schema_version == 2:
            parts = ("gpu_calc_ns", "pcie_striped_ns", "pcie_localized_ns")
            misses = zip(costs["gpu_miss_striped_ns"], costs["gpu_miss_localized_ns"], strict=True)
            costs |= dict.fromkeys(parts, tuple(-(-min(both) // 2) for both in misses))
        rows.append(
            Scenario(weight=int(rng.integers(1, 4)), tokens=tuple(tokens.tolist()), **costs)
        )
    tokens = (1, *rows[0].tokens[1:])
    rows[0] = rows[0].model_copy(update={"tokens": tokens})
    return Instance(
        name=name,
        dimms=DIMMS,
        hbm_slots=3,
        dimm_slots=None,
        experts=EXPERTS,
        dram_striped_ns=2,
        dram_localized_ns=7,
        scenarios=tuple(rows),
        **(NEWER if schema_version == 2 else {}),
    )


def random_layout(rng: np.random.Generator) -> Solution:
    """Return a layout of up to three residents; what runs where is left open."""
    resident = np.zeros(EXPERTS, dtype=bool)
    resident[rng.permutation(EXPERTS)[: rng.integers(0, 4)]] = True
    dimm = [None if d < 0 else d for d in rng.integers(-1, DIMMS, EXPERTS).tolist()]
    nothing: tuple[tuple[Domain | None, ...], ...] = ((None,) * EXPERTS,)
    return Solution(
        instance="x", resident=tuple(resident.tolist()), dimm=tuple(dimm), assignment=nothing
    )


def all_on_cpu(layer: Layer) -> Assignment:
    """Return a schedule that no method would choose."""
    return Assignment(instance=layer.name, assignment=("cpu",) * len(layer.experts))


def optimal(layer: Layer) -> Assignment:
    """Return an optimal schedule."""
    result = moeopt.solve(layer, "brute-force")
    assert isinstance(result.solution, Assignment)
    return result.solution


@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from([1, 2]))
@example(98, 2)  # a window without any tokens: the GPU's own load is there nevertheless
def test_the_run_is_what_the_checker_says_it_is(seed: int, schema_version: int) -> None:
    """The solution is valid on the windows that it was run on, and costs what is claimed."""
    rng = np.random.default_rng(seed)
    instance = small(rng, 3, "later", schema_version)
    layout = random_layout(rng)
    for schedule in (all_on_cpu, None):
        arguments = {} if schedule is None else {"schedule": schedule}
        run = execute_layout(instance, layout, **arguments)
        assert check.violations(instance, run.solution, run.objective_ns) == []
        assert check.objective(instance, run.solution) == run.objective_ns
        assert (run.solution.resident, run.solution.dimm) == (layout.resident, layout.dimm)
        weights = [scenario.weight for scenario in instance.scenarios]
        assert run.objective_ns == int(np.dot(weights, run.makespans_ns))


def test_a_window_without_tokens_takes_no_time() -> None:
    """Nothing runs, and the other windows are as they were."""
    rng = np.random.default_rng(3)
    instance, layout = small(rng, 2, "later"), random_layout(rng)
    idle = instance.scenarios[1].model_copy(update={"tokens": (0,) * EXPERTS})
    changed = instance.model_copy(update={"scenarios": (instance.scenarios[0], idle)})
    assert execute_layout(changed, layout).makespans_ns == (
        execute_layout(instance, layout).makespans_ns[0],
        0,
    )


def test_experts_that_were_never_seen_are_striped() -> None:
    """No layout was decided for them; with one they could run on NDP."""
    rng = np.random.default_rng(3)
    instance = small(rng, 1, "later")
    striped = random_layout(rng).model_copy(update={"dimm": (None,) * EXPERTS})
    run = execute_layout(instance, striped)
    assert {domain for row in run.solution.assignment for domain in row} <= {"gpu", "cpu", None}
    assert get_args(Domain) == ("gpu", "cpu", "ndp")


def test_a_generated_layout_is_evaluated_on_the_windows_after() -> None:
    """Decided on windows 0 and 1, run on 2 to 4 of the same trace: in sample next to held out."""
    common: dict[str, Any] = {
        "machine": "trimoe",
        "model": "deepseek-v2-lite",
        "workload": "trimoe-skew",
        "batch": 64,
        "drawn_windows": 5,
        "hbm_slots": 2,
    }
    before, after = (
        moeopt.generate("layout", first_window=first, windows=windows, **common)
        for first, windows in ((0, 2), (2, 3))
    )
    layout = Solution(
        instance=before.name,
        resident=tuple(expert < 2 for expert in range(64)),
        dimm=tuple(expert % 16 for expert in range(64)),
        assignment=((None,) * 64,) * 2,
    )
    run = execute_layout(after, layout)
    assert check.violations(after, run.solution, run.objective_ns) == []
    assert len(run.makespans_ns) == 3


def test_a_decision_of_another_shape_is_refused() -> None:
    """Too few experts, or a DIMM that is not there."""
    rng = np.random.default_rng(0)
    instance, layout = small(rng, 1, "later"), random_layout(rng)
    short = layout.model_copy(update={"resident": layout.resident[1:], "dimm": layout.dimm[1:]})
    with pytest.raises(InputError, match="decision: must have 6 experts, not 5"):
        execute_layout(instance, short)
    far = layout.model_copy(update={"dimm": (DIMMS,) * EXPERTS})
    with pytest.raises(InputError, match="decision: dimm: must be below 3"):
        execute_layout(instance, far)
