"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

import pytest

from moeopt.core.search import Search
from moeopt.problems.layout import check
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario import aggregated, solve
from moeopt.problems.layout.single_scenario import scenario_bounds
from tests.problems.layout.by_arrays import optimum
from tests.problems.layout.layout_random_instances import (
    of_every_kind,
    random_instance,
    several_scenarios,
)

INSTANCES = several_scenarios(200, 30)
SHARES = 20


def test_there_are_enough_instances() -> None:
    """The random instances below are at least two hundred."""
    assert len(INSTANCES) >= 200


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, SHARES))]
)
def test_bounds_optimum_and_value_are_in_order(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single bound is at most the optimum, the plan at least, and closed means equal."""
    monkeypatch.setattr("moeopt.problems.layout.multi_scenario.EVALUATIONS", 50)
    closed = 0
    for number, instance in enumerate(of_every_kind(INSTANCES, slice(share, None, SHARES))):
        least = optimum(instance)
        scenarios = list(range(len(instance.scenarios)))
        model = aggregated(instance, scenarios, whole=True)  # without whole it is lower
        found = model.proven(instance, model.solve(60), scenarios)
        assert found <= least, instance.name
        search = Search(limit_s=600, seed=number)
        bound = solve(instance, search)
        assert max(sum(bound.alone), bound.together) <= least, instance.name
        assert search.bound is not None
        assert search.objective is not None
        assert not check.violations(instance, search.solution), instance.name
        assert check.objective(instance, search.solution) == search.objective, instance.name
        assert search.bound <= least <= search.objective, instance.name
        closed += search.closed
    assert closed > len(INSTANCES) // (6 * SHARES)  # so that the claims are put to the test


def test_whole_domains_see_the_longest_piece() -> None:
    """Pieces of 10 and 100 on two DIMMs: 55 on average, 100 in truth, in both scenarios."""
    instance = Instance(
        name="ten-and-hundred",
        dimms=2,
        hbm_slots=0,
        dimm_slots=None,
        experts=2,
        dram_striped_ns=1000,
        dram_localized_ns=1000,
        scenarios=[_scenario(w, [10, 100], 1000, 1000) for w in (3, 1)],
    )
    for whole, least in ((False, 55), (True, 100)):
        model = aggregated(instance, [0, 1], whole)
        assert model.proven(instance, model.solve(60), [0, 1]) == 3 * least + least


def test_a_layout_of_each_scenario_alone_is_not_enough() -> None:
    """Two scenarios that want different residents: the aggregated bound sees the conflict."""
    instance = _one_slot_two_wishes()
    search = Search(limit_s=600)
    solve(instance, search)
    assert sum(scenario_bounds(instance, Search(limit_s=5), 5)) == 2 * 10
    assert search.objective == optimum(instance) == 110
    assert search.bound == 110


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


def test_no_time_left_is_no_error() -> None:
    """HiGHS refuses negative limits; a model that is asked when the time is up proves nothing."""
    instance = _one_slot_two_wishes()
    model = aggregated(instance, [0, 1])
    assert model.proven(instance, model.solve(-1.0), [0, 1]) <= 110


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
