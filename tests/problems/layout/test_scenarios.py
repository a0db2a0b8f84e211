"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

import pytest

from moeopt.core.search import Search
from moeopt.problems.layout import check, multi_scenario
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.local_search.state import unit_of
from moeopt.problems.layout.multi_scenario import solve
from moeopt.problems.layout.multi_scenario.aggregated import aggregated, chosen
from moeopt.problems.layout.multi_scenario.incumbents import Improver, start_layout, value
from moeopt.problems.layout.multi_scenario.joint_bound import scenario_bounds
from moeopt.problems.layout.second_stage import Layout
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
    for moves in ("EVALUATIONS", "FIRST_MOVES", "MOVES"):
        monkeypatch.setattr(f"moeopt.problems.layout.multi_scenario.incumbents.{moves}", 50)
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


def test_wait_and_see_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any search, the sum is proven; the search begins at the best of the windows' own."""
    seen = []

    def improver(instance: Instance, search: Search, start: Layout, **_: object) -> None:
        seen.append((search.bound, value(instance, start)))
        raise InterruptedError

    monkeypatch.setattr(multi_scenario, "Improver", improver)
    # Neither the first window's layout nor that of the linear relaxation is the best of those.
    instance = next(of for of in INSTANCES if of.name == "mixed-24")
    search = Search(limit_s=60)
    with pytest.raises(InterruptedError):
        solve(instance, search)
    own = list[Layout]()
    alone = scenario_bounds(instance, Search(limit_s=60), 60, own)
    assert len(own) == len(instance.scenarios)
    assert seen == [(sum(alone), min(value(instance, layout) for layout in own))]


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


@pytest.mark.parametrize("seed", range(6))
def test_annealing_keeps_its_books(seed: int) -> None:
    """The value that annealing gives its best plan is the checker's."""
    instance = random_instance(seed, "several scenarios")
    search = Search(limit_s=600, seed=seed)
    improver = _improver(instance, search)
    for _ in range(2):
        improver.round()
    assert search.objective == check.objective(instance, search.solution)
    assert improver.best.objective[0] * unit_of(instance) == search.objective


def test_same_seed_same_plan() -> None:
    """Two runs of as many rounds give the same plan."""
    instance = random_instance(3, "several scenarios", experts=9)
    found = []
    for _ in range(2):
        search = Search(limit_s=600, seed=7)
        improver = _improver(instance, search)
        for _ in range(3):
            improver.round()
        found.append(search.solution)
    assert found[0] == found[1]


def test_full_dimms_stay_full() -> None:
    """With one slot per DIMM no plan of a larger instance holds two on one."""
    instance = random_instance(5, "several scenarios", experts=9)
    instance = instance.model_copy(update={"dimm_slots": 1, "dimms": 4})
    search = Search(limit_s=600)
    solve(instance, search)
    assert not check.violations(instance, search.solution)


def test_two_workers_agree_with_one() -> None:
    """Side by side, plans and bounds are as valid as in turn."""
    instance = _one_slot_two_wishes()
    search = Search(limit_s=600, workers=2)
    solve(instance, search)
    assert search.closed
    assert search.objective == 110


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


def _improver(instance: Instance, search: Search) -> Improver:
    model = aggregated(instance, list(range(len(instance.scenarios))))
    found = model.solve(60, integer=False)
    resident = chosen(found, model.resident, instance.experts)
    localized = chosen(found, model.localized, instance.experts)
    return Improver(instance, search, start_layout(instance, resident, localized))


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
