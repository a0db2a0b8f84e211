"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

import pytest

import moeopt
from tests.problems.layout.by_arrays import optimum
from tests.problems.layout.layout_random_instances import (
    of_every_kind,
    random_instance,
    several_scenarios,
)
from tests.rooms.core import Search
from tests.rooms.layout import (
    Instance,
    check,
    rounds,
    scenario_bounds,
)
from tests.rooms.layout import solve_several_scenarios as solve

INSTANCES = several_scenarios(200, 30)
SHARES = 40


def test_there_are_enough_instances() -> None:
    """The random instances below are at least two hundred."""
    assert len(INSTANCES) >= 200


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))]
)
def test_bounds_optimum_and_value_are_in_order(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single bound is at most the optimum, the plan at least, and closed means equal."""
    monkeypatch.setattr(rounds, "PER_EXPERT", 50)
    closed = 0
    for number, instance in enumerate(of_every_kind(INSTANCES, slice(share, None, SHARES))):
        least = optimum(instance)
        search = Search(limit_s=600, seed=number)
        solve(instance, search)
        alone = scenario_bounds(instance, Search(limit_s=600), 600)
        assert sum(alone) <= least, instance.name
        assert search.bound is not None
        assert search.objective is not None
        assert not check.violations(instance, search.solution), instance.name
        assert check.objective(instance, search.solution) == search.objective, instance.name
        assert search.bound <= least <= search.objective, instance.name
        closed += search.closed
    assert closed > len(INSTANCES) // (6 * SHARES)  # so that the claims are put to the test


def test_a_layout_of_each_scenario_alone_is_not_enough() -> None:
    """Two scenarios that want different residents: CP-SAT closes what wait and see leaves open."""
    instance = _one_slot_two_wishes()
    search = Search(limit_s=600)
    solve(instance, search)
    assert search.bound == sum(scenario_bounds(instance, Search(limit_s=5), 5)) == 2 * 10
    assert search.objective == optimum(instance) == 110
    result = moeopt.solve(instance, work_limit=5)
    assert (result.status, result.method) == ("optimal", "bound-and-pack, then cp-sat")
    assert result.objective == result.bound == 110


@pytest.mark.slow
def test_same_seed_same_plan() -> None:
    """Two runs give the same plan, whose objective is the checker's."""
    instance = random_instance(3, "several scenarios", experts=9)
    found = []
    for _ in range(2):
        search = Search(limit_s=600, seed=7)
        solve(instance, search)
        assert search.objective == check.objective(instance, search.solution)
        found.append(search.solution)
    assert found[0] == found[1]


def test_full_dimms_stay_full() -> None:
    """With one slot per DIMM no plan of a larger instance holds two on one."""
    instance = random_instance(5, "several scenarios", experts=9)
    instance = instance.model_copy(update={"dimm_slots": 1, "dimms": 4})
    search = Search(limit_s=600)
    solve(instance, search)
    assert not check.violations(instance, search.solution)


def test_a_stop_is_heard() -> None:
    """A search that was stopped before it began returns without a proof of more than it has."""
    instance = random_instance(1, "several scenarios", experts=10)
    search = Search(limit_s=600)
    search.stop()
    solve(instance, search)
    assert search.objective is None or search.objective >= (search.bound or 0)


def _scenario(weight: int, ndp: list[int], host: int, hit: int) -> dict[str, object]:
    experts = len(ndp)
    names = ("gpu_miss_striped_ns", "gpu_miss_localized_ns", "cpu_striped_ns", "cpu_localized_ns")
    costs = {name: [host] * experts for name in names}
    return {
        "weight": weight,
        "tokens": [1] * experts,
        "gpu_hit_ns": [hit] * experts,
        "ndp_ns": ndp,
        **costs,
    }


def _one_slot_two_wishes() -> Instance:
    """Expert 0 is long in scenario 0, expert 1 in scenario 1; each is short in the other."""
    return Instance(
        name="one-slot-two-wishes",
        dimms=2,
        hbm_slots=1,
        dimm_slots=None,
        experts=2,
        dram_striped_ns=100,
        dram_localized_ns=100,
        scenarios=[_scenario(1, [100, 10], 100, 10), _scenario(1, [10, 100], 100, 10)],
    )
