"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

import numpy as np
import pytest

from moeopt.numeric.believed import believed
from moeopt.problems.layout import check
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.oracle import candidates, count
from moeopt.problems.layout.scenarios import solve
from moeopt.problems.layout.scenarios.aggregated import aggregated, chosen, proven
from moeopt.problems.layout.scenarios.incumbent import Improver, start_layout
from moeopt.problems.layout.scenarios.joint_bound import JointBound
from moeopt.problems.layout.scenarios.levels import add_levels, even_thresholds
from moeopt.problems.layout.scenarios.rows import Rows
from moeopt.problems.layout.scenarios.wait_and_see import scenario_bounds
from moeopt.problems.search import Search
from tests.problems.layout.layout_random_instances import KINDS, random_instance

MAX_CANDIDATES = 6_000


def _several() -> list[Instance]:
    """Return tiny instances of at least two scenarios, of every kind."""
    made = [random_instance(seed, "several scenarios") for seed in range(190)]
    made += [random_instance(seed, kind) for kind in KINDS for seed in range(30)]
    return [
        instance
        for instance in made
        if len(instance.scenarios) > 1 and count(instance) <= MAX_CANDIDATES
    ]


INSTANCES = _several()


def _optimum(instance: Instance) -> int:
    return min(
        check.objective(instance, solution)
        for solution in candidates(instance)
        if not check.violations(instance, solution)
    )


def test_there_are_enough_instances() -> None:
    """The random instances below are at least two hundred."""
    assert len(INSTANCES) >= 200


def test_bounds_optimum_and_value_are_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single bound is at most the optimum, the plan at least, and closed means equal."""
    monkeypatch.setattr("moeopt.problems.layout.scenarios.incumbent.FIRST_MOVES", 50)
    closed = 0
    for number, instance in enumerate(INSTANCES):
        optimum = _optimum(instance)
        rows = Rows.of(instance)
        scenarios = list(range(len(instance.scenarios)))
        alone = scenario_bounds(instance, Search(limit_s=5), 5)
        assert sum(alone) <= optimum, instance.name
        plain = aggregated(instance, rows, scenarios)
        assert proven(instance, rows, plain, plain.solve(5), scenarios) <= optimum, instance.name
        rng = np.random.default_rng(number)
        top = int(rows.cost[:, rows.active].max()) + instance.dram_localized_ns + 1
        levels = [
            sorted(set(rng.integers(1, 2 * top, rng.integers(1, 6)).tolist())) for _ in scenarios
        ]
        model = aggregated(instance, rows, scenarios)
        add_levels(model, instance.dimms, levels)
        assert proven(instance, rows, model, model.solve(5), scenarios) <= optimum, instance.name
        search = Search(limit_s=600, seed=number)
        solve(instance, search)
        assert search.bound is not None
        assert search.objective is not None
        assert not check.violations(instance, search.solution), instance.name
        assert check.objective(instance, search.solution) == search.objective, instance.name
        assert search.bound <= optimum <= search.objective, instance.name
        closed += search.closed
    assert closed > len(INSTANCES) // 6  # so that the claims are put to the test


def test_groups_add_up() -> None:
    """Groups of two of three scenarios are disjoint, and the sum of their bounds is a bound."""
    complete = 0
    for instance in [i for i in INSTANCES if len(i.scenarios) == 3][:12]:
        rows, search = Rows.of(instance), Search(limit_s=600)
        _improver(instance, rows, search)
        bound = JointBound(instance, rows, search, group=2)
        bound.raise_until(0.0)
        members = sorted(s for group in bound.grouped for s in group)
        assert sorted(members + bound.ungrouped()) == [0, 1, 2]
        rest = sum(bound.alone[s] for s in bound.ungrouped())
        assert sum(bound.grouped.values()) + rest <= _optimum(instance)
        complete += members == [0, 1, 2]
    assert complete > 0


def test_levels_see_that_three_do_not_fit_on_two() -> None:
    """Three pieces of 10 on two DIMMs: 15 on average, 20 in truth, in both scenarios."""
    instance = _three_on_two()
    rows = Rows.of(instance)
    plain = aggregated(instance, rows, [0, 1])
    assert proven(instance, rows, plain, plain.solve(10), [0, 1]) == 3 * 15 + 15
    model = aggregated(instance, rows, [0, 1])
    add_levels(model, 2, [even_thresholds(20, 2)] * 2)
    assert proven(instance, rows, model, model.solve(10), [0, 1]) == 3 * 20 + 20


def test_a_layout_of_each_scenario_alone_is_not_enough() -> None:
    """Two scenarios that want different residents: the aggregated bound sees the conflict."""
    instance = _one_slot_two_wishes()
    search = Search(limit_s=600)
    solve(instance, search)
    assert sum(scenario_bounds(instance, Search(limit_s=5), 5)) == 2 * 10
    assert search.objective == _optimum(instance) == 110
    assert search.bound == 110


@pytest.mark.parametrize("seed", range(6))
def test_annealing_keeps_its_books(seed: int) -> None:
    """The value that annealing gives its best plan is the judge's."""
    instance = random_instance(seed, "several scenarios")
    rows, search = Rows.of(instance), Search(limit_s=60, seed=seed)
    improver = _improver(instance, rows, search)
    for _ in range(2):
        improver.round()
    heaviest = max(scenario.weight for scenario in instance.scenarios)
    assert search.objective == check.objective(instance, search.solution)
    assert improver.best.objective[0] * heaviest == pytest.approx(search.objective)


def test_same_seed_same_plan() -> None:
    """Two runs of as many rounds give the same plan."""
    instance = random_instance(3, "several scenarios", experts=9)
    rows, found = Rows.of(instance), []
    for _ in range(2):
        search = Search(limit_s=600, seed=7)
        improver = _improver(instance, rows, search)
        for _ in range(3):
            improver.round()
        found.append(search.solution)
    assert found[0] == found[1]


def test_full_dimms_stay_full() -> None:
    """With one slot per DIMM no plan of a larger instance holds two on one."""
    instance = random_instance(5, "several scenarios", experts=12)
    instance = instance.model_copy(update={"dimm_slots": 1, "dimms": 5})
    search = Search(limit_s=1.0)
    solve(instance, search)
    assert not check.violations(instance, search.solution)


def test_two_workers_agree_with_one() -> None:
    """Side by side, plans and bounds are as valid as in turn."""
    instance = _one_slot_two_wishes()
    search = Search(limit_s=600, workers=2)
    solve(instance, search)
    assert search.closed
    assert search.objective == 110


def test_a_stop_is_heard() -> None:
    """A search that was stopped before it began returns without a proof of more than it has."""
    instance = random_instance(1, "several scenarios", experts=10)
    search = Search(limit_s=600)
    search.stop()
    solve(instance, search)
    assert search.objective is None or search.objective >= (search.bound or 0)


def test_what_is_believed_of_a_float() -> None:
    """A bound loses a hundred-thousandth, then rises to the next multiple of the grid."""
    assert believed(1000.0, 1.0, 1) == 1000
    assert believed(1_000_000.0, 1.0, 1) == 999_990
    assert believed(1_000_000.0, 1.0, 5000) == 1_000_000
    assert believed(1_000_050.0, 1.0, 5000) == 1_005_000


def _improver(instance: Instance, rows: Rows, search: Search) -> Improver:
    model = aggregated(instance, rows, list(range(len(instance.scenarios))))
    found = model.solve(10, integer=False)
    start = start_layout(
        instance, rows, chosen(found, model.resident), chosen(found, model.localized)
    )
    return Improver(instance, rows, search, start)


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


def _three_on_two() -> Instance:
    return Instance(
        name="three-on-two",
        dimms=2,
        hbm_slots=0,
        dimm_slots=None,
        experts=3,
        dram_striped_ns=1000,
        dram_localized_ns=1000,
        scenarios=[_scenario(w, [10, 10, 10], 1000, 1000) for w in (3, 1)],
    )


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
