"""What is decided for a step: policies, fixed domains, caches, deferral, migrations, widths."""

import random
from typing import Any

import numpy as np
import pytest

from moeopt import InputError, Plan
from tests.rooms.systems import (
    CostTable,
    Decider,
    Loads,
    StepWork,
    joined,
    layer_times,
    policy_names,
    simulate_loads,
)
from tests.rooms.tri_domain import HEURISTICS
from tests.sim.engine.decode_cases import DIMMS, flat_costs

GPU, CPU, NDP = range(3)
COSTS = flat_costs(
    gpu_hit=1, gpu_miss_striped=50, gpu_miss_localized=60, ndp=9, move_ns=30, fetch_ns=20
)


def decided(plan: dict[str, Any], costs: CostTable = COSTS, steps: int = 1) -> list[StepWork]:
    """Decide steps of two layers with four experts of 1, 2, 3 and 0 tokens."""
    counts = np.array([[[1, 2, 3, 0]] * 2] * steps)
    made = Plan.model_validate(plan)
    loads = Loads(counts, np.full(steps, 6))
    decider = Decider(made, costs, loads, DIMMS, layer_times(made, 2))
    return [whole_step(decider, step) for step in range(steps)]


def whole_step(decider: Decider, step: int) -> StepWork:
    """Decide a step; copies into caches end when it does."""
    decider.begin(step)
    if not decider.by_layer:
        return decider.decide(slice(0, 2))
    parts = []
    for layer in range(2):
        parts.append(decider.decide(slice(layer, layer + 1), step))
        decider.copied(layer, {expert: step + 1 for expert, _ in parts[-1].copies[0]})
    return joined(parts)


def test_domains_fixed_in_advance_win() -> None:
    """A step's own entry after the general one; inactive experts run nowhere."""
    plan = {
        "policy": "gpu-only",
        "assignments": [
            {"layer": 0, "cpu": [0, 3]},
            {"layer": 0, "step": 1, "gpu": [0], "cpu": [2]},
        ],
    }
    first, second = decided(plan, steps=2)
    assert first.domain.tolist() == [[CPU, GPU, GPU, -1], [GPU, GPU, GPU, -1]]
    assert second.domain[0].tolist() == [GPU, GPU, CPU, -1]


def test_striped_experts_do_not_run_on_ndp() -> None:
    """Not by a fixed domain; the line says where."""
    plan = {"assignments": [{"layer": 1, "ndp": [1]}]}
    with pytest.raises(InputError, match="step 0, layer 1: expert 1 is striped and cannot run"):
        decided(plan)
    [work] = decided(plan | {"layout": [[None, 2, None, None]]})
    assert work.domain[1].tolist() == [CPU, NDP, CPU, -1]


def test_policies_by_name() -> None:
    """All heuristics of tri_domain are there; an unknown name is answered with the list."""
    assert set(HEURISTICS) | {"gpu-only", "cpu-for-misses", "threshold"} == set(policy_names())
    with pytest.raises(InputError, match="policy: 'best' is unknown; known policies: gpu-only"):
        decided({"policy": "best"})


def test_the_coldest_are_deferred() -> None:
    """CPU experts of least tokens, among equals the last; nothing in the last layer."""
    [work] = decided({"deferred": 2})
    assert work.deferred.tolist() == [[True, True, False, False], [False] * 4]
    [work] = decided({"deferred": 9, "resident": [[2]]})
    assert work.deferred[0].tolist() == [True, True, False, False]
    ids = np.array([[[2, 0, 1]] * 2])
    loads = Loads(np.ones((1, 2, 3), dtype=np.int64), np.ones(1, dtype=np.int64), list(ids[None]))
    plan = Plan(deferred=(2,))
    work = whole_step(Decider(plan, COSTS, loads, 1, layer_times(plan, 2)), 0)
    assert work.deferred[0].tolist() == [True, True, False]


def test_hits_run_as_residents_and_misses_are_fetched() -> None:
    """But for what the GPU computes: that brought its weights along."""
    first, second = decided({"cache_ways": 2}, steps=2)
    assert first.domain[0].tolist() == [CPU, CPU, CPU, -1]
    assert first.copies == [[(1, 20), (2, 20)]] * 2  # two places: the first is the least recent
    assert second.domain[0].tolist() == [CPU, GPU, GPU, -1]
    assert second.cost_ns[0].tolist() == [0, 1, 1, 0]
    assert (second.hits, second.misses) == (4, 2)
    [work] = decided({"cache_ways": 2, "policy": "gpu-only"})
    assert (work.misses, work.copies) == (6, [[], []])


def migration(kind: str, expert: int, dimm: int | None = None, **more: Any) -> dict[str, Any]:
    return {"layer": 0, "expert": expert, "kind": kind, "dimm": dimm} | more


def test_migrations_change_what_they_say() -> None:
    """A prefetch holds for its layer and step, a move for good."""
    plan = {
        "window": "unlimited",
        "migrations": [
            migration("prefetch", 2, step=0),
            migration("localize", 0, 1, step=0),
            migration("rebalance", 1, 2, step=0),
            migration("stripe", 1, step=1),
        ],
        "layout": [[None, 0, None, None]],
    }
    first, second = decided(plan, steps=2)
    assert first.domain[0].tolist() == [CPU, CPU, GPU, -1]
    assert second.domain[0].tolist() == [CPU, CPU, CPU, -1]
    assert first.dimm.tolist() == [[1, 2, -1, -1], [-1, 0, -1, -1]]
    assert second.dimm.tolist() == [[1, -1, -1, -1], [-1, 0, -1, -1]]
    assert [(t.link, t.duration_ns, t.expert) for t in first.transfers[0]] == [
        ("PCIe", 20, 2),
        ("DIMM-Link", 30, 0),
        ("DIMM-Link", 30, 1),
    ]
    assert [[t.kind for t in transfers] for transfers in second.transfers] == [["stripe"], []]


@pytest.mark.parametrize(
    ("window", "done", "missed"),
    [
        ({"times": {"attention_ns": 20, "other_ns": 19}}, [2, 0], 2),
        ({"times": {"attention_ns": 40, "other_ns": 20}}, [2, 3, 0, 1], 0),
        ({"window": "given", "pcie_window_ns": 25, "dimm_link_window_ns": 30}, [2, 0], 2),
        ({"window": "unlimited"}, [2, 3, 0, 1], 0),
    ],
)
def test_migrations_fill_their_window(window: dict[str, Any], done: list[int], missed: int) -> None:
    """In order of priority, per link; what does not fit is left out and counted."""
    moves = [migration("prefetch", 2), migration("prefetch", 3)]
    moves += [migration("localize", 0, 1), migration("localize", 1, 1)]
    plan = Plan.model_validate({"migrations": moves} | window)
    loads = Loads(np.array([[[1, 2, 3, 0]] * 2]), np.array([6]))
    found = simulate_loads(plan, COSTS, loads, DIMMS, timeline=True)
    assert (found.migrations_done, found.migrations_missed) == (len(done), missed)
    assert found.timeline is not None
    bundles = [b for b in found.timeline.bundles if b.kind in ("prefetch", "localize")]
    assert [bundle.number for bundle in bundles] == done
    again = simulate_loads(plan, COSTS, loads, DIMMS)
    assert (again.migrations_done, again.migrations_missed) == (len(done), missed)
    assert again.layer_ns.tolist() == found.layer_ns.tolist()


def test_migrations_hide_in_their_window_or_delay() -> None:
    """Within attention they cost nothing; beyond it the layer's experts wait for them."""
    loads = Loads(np.array([[[0, 0, 3, 0]]]), np.array([3]))

    def layer_ns(window: str, attention: int) -> int:
        plan = Plan.model_validate(
            {
                "migrations": [migration("prefetch", 2)],
                "window": window,
                "times": {"attention_ns": attention},
            }
        )
        return int(simulate_loads(plan, COSTS, loads, DIMMS).layer_ns[0, 0])

    assert layer_ns("attention", 20) == 20 + 1
    assert layer_ns("unlimited", 5) == 20 + 1
    costs = flat_costs(cpu_striped=7, gpu_hit=1, fetch_ns=20)
    plan = Plan.model_validate({"migrations": [migration("prefetch", 2)]})
    assert simulate_loads(plan, costs, loads, DIMMS).layer_ns.tolist() == [[7]]


def test_moves_per_dimm_occupy_both_ends() -> None:
    """A link per DIMM: a rebalance keeps the old and the new place's link busy."""
    plan = {
        "window": "unlimited",
        "dimm_links": "per-dimm",
        "migrations": [migration("rebalance", 1, 2), migration("stripe", 0)],
        "layout": [[1, 0, None, None]],
    }
    [work] = decided(plan)
    links = [transfer.link for transfer in work.transfers[0]]
    assert links == ["DIMM-Link 0", "DIMM-Link 2", "DIMM-Link 1"]


def test_migrations_that_make_no_sense() -> None:
    """A striped expert has no place to be moved from; a localized one is not localized again."""
    with pytest.raises(InputError, match=r"migrations\[0\]: expert 1 is striped; localize it"):
        decided({"window": "unlimited", "migrations": [migration("rebalance", 1, 2)]})
    plan = {"migrations": [migration("localize", 1, 2)], "layout": [[None, 0, None, None]]}
    with pytest.raises(InputError, match="expert 1 lies on DIMM 0; rebalance it instead"):
        decided(plan | {"window": "unlimited"})
    loads = Loads(np.array([[[1, 1]]] * 3), np.ones(3, dtype=np.int64))
    again = Plan.model_validate(
        {"window": "unlimited", "migrations": [migration("localize", 1, 2)]}
    )
    found = simulate_loads(again, COSTS, loads, DIMMS)
    assert (found.migrations_done, found.migrations_needless) == (1, 2)


def test_what_is_missing_is_said_only_if_it_is_used() -> None:
    """A machine without a part runs every plan that does not need it."""
    rng = random.Random(0)
    missing = {name: f"machine m: no {name}" for name in ("ndp", "cpu_striped", "pcie")}
    table = flat_costs(gpu_miss_striped=rng.randint(1, 9))
    paths = dict(table.path_ns) | {"cpu_striped": np.array([[0] + [2**42] * 8])}
    costs = CostTable(paths, table.read_ns, table.fetch_ns, table.move_ns, missing)
    assert decided({"policy": "gpu-only"}, costs)[0].domain[0].tolist() == [GPU, GPU, GPU, -1]
    with pytest.raises(InputError, match=r"^machine m: no cpu_striped$"):
        decided({}, costs)
    with pytest.raises(InputError, match=r"^machine m: no pcie$"):
        decided({"policy": "gpu-only", "migrations": [migration("prefetch", 1)]}, costs)
