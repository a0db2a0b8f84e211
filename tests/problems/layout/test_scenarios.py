"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

import numpy as np
import pytest

from moeopt.problems.layout import check
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario import solve
from moeopt.problems.layout.multi_scenario.aggregated import aggregated, chosen, proven
from moeopt.problems.layout.multi_scenario.annealing import anneal
from moeopt.problems.layout.multi_scenario.incumbent import Improver, start_layout
from moeopt.problems.layout.multi_scenario.moves import UNDO_ROWS, carry, rearrange, switch
from moeopt.problems.layout.multi_scenario.plan import (
    DIMM,
    DOMAIN,
    RESIDENT,
    Floats,
    Plan,
    load,
    total_value,
)
from moeopt.problems.layout.multi_scenario.rows import IDLE, STRIPED, Rows
from moeopt.problems.layout.multi_scenario.wait_and_see import scenario_bounds
from moeopt.problems.layout.oracle import candidates, count
from moeopt.problems.search import Search
from tests.problems.layout.layout_random_instances import KINDS, random_instance

MAX_CANDIDATES = 6_000
DOUBLINGS = 4


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


@pytest.mark.parametrize(
    "share", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 3))]
)
def test_bounds_optimum_and_value_are_in_order(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every single bound is at most the optimum, the plan at least, and closed means equal."""
    for moves in ("FIRST_MOVES", "MOVES"):
        monkeypatch.setattr(f"moeopt.problems.layout.multi_scenario.incumbent.{moves}", 50)
    closed = 0
    for number, instance in enumerate(INSTANCES[share::4]):
        optimum = _optimum(instance)
        rows = Rows.of(instance)
        scenarios = list(range(len(instance.scenarios)))
        model = aggregated(instance, rows, scenarios, whole=True)  # without whole it is lower
        found = proven(instance, rows, model, model.solve(5), scenarios)
        assert found <= optimum, instance.name
        search = Search(limit_s=600, seed=number)
        bound = solve(instance, search)
        assert max(sum(bound.alone), sum(bound.grouped), bound.together) <= optimum, instance.name
        assert search.bound is not None
        assert search.objective is not None
        assert not check.violations(instance, search.solution), instance.name
        assert check.objective(instance, search.solution) == search.objective, instance.name
        assert search.bound <= optimum <= search.objective, instance.name
        closed += search.closed
    assert closed > len(INSTANCES) // 24  # so that the claims are put to the test


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
    rows = Rows.of(instance)
    for whole, least in ((False, 55), (True, 100)):
        model = aggregated(instance, rows, [0, 1], whole)
        assert proven(instance, rows, model, model.solve(10), [0, 1]) == 3 * least + least


def test_slopes_and_changes_are_those_of_the_value() -> None:
    """A move reports the change of the value, kept right; a rejected one changes nothing."""
    for seed in range(12):
        instance = random_instance(seed, "several scenarios", experts=8)
        improver = _improver(instance, Rows.of(instance), Search(limit_s=60, seed=seed))
        plan, rng = improver.plan, np.random.default_rng(seed)
        undo = np.empty((UNDO_ROWS, plan.choice.shape[1]))
        made = 0
        for _ in range(150):
            load(plan, DOUBLINGS)
            before, choice = total_value(plan.state), plan.choice.copy()
            limit = float(rng.choice([np.inf, 0.0]))
            change = _random_move(plan, undo, rng, instance.dimms, limit)
            if change is None:
                continue
            value = total_value(plan.state)
            if change == np.inf:
                assert (plan.choice == choice).all()
                assert value == before
            else:
                made += 1
                assert change <= limit
                assert value - before == pytest.approx(change, abs=1e-9 * before)
                load(plan, DOUBLINGS)
                assert value == pytest.approx(total_value(plan.state))
        assert made > 0


def test_whoever_is_moved_runs_where_it_suits_best() -> None:
    """After a row was put elsewhere, no other domain of its own lowers the value in a scenario."""
    for seed in range(20):
        instance = random_instance(seed, "cheap localized reads", experts=8)
        plan = _improver(instance, Rows.of(instance), Search(limit_s=60)).plan
        load(plan, DOUBLINGS)
        undo = np.empty((UNDO_ROWS, plan.choice.shape[1]))
        for i in range(len(plan.choice)):
            for to in range(-1, instance.dimms):
                rearrange(plan, undo, i, -1, to, STRIPED, False, np.inf, DOUBLINGS)
                least = total_value(plan.state) * (1 - 1e-9)
                for s in range(plan.choice.shape[1] - DOMAIN):
                    chosen_domain = int(plan.choice[i, DOMAIN + s])
                    for other in range(0 if chosen_domain == IDLE else 2 if to == STRIPED else 3):
                        switch(plan, i, s, other, DOUBLINGS)
                        assert total_value(plan.state) >= least
                    switch(plan, i, s, chosen_domain, DOUBLINGS)


def test_slots_and_residents_are_counted_at_any_temperature() -> None:
    """However hot, no DIMM holds more rows than its slots, and as many rows are resident."""
    instance = random_instance(5, "several scenarios", experts=12)
    instance = instance.model_copy(update={"dimm_slots": 2, "dimms": 5, "hbm_slots": 3})
    improver = _improver(instance, Rows.of(instance), Search(limit_s=60))
    plan, residents = improver.plan, improver.plan.choice[:, RESIDENT].sum()
    for _ in range(200):
        anneal(plan, improver.best, 2, improver.random, 1e12, DOUBLINGS, 100)
        dimm = plan.choice[:, DIMM]
        assert np.bincount(dimm[dimm != STRIPED], minlength=5).max() <= 2
        assert plan.choice[:, RESIDENT].sum() == residents


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


def _improver(instance: Instance, rows: Rows, search: Search) -> Improver:
    model = aggregated(instance, rows, list(range(len(instance.scenarios))))
    found = model.solve(10, integer=False)
    start = start_layout(
        instance, rows, chosen(found, model.resident), chosen(found, model.localized)
    )
    return Improver(instance, rows, search, start)


def _random_move(
    plan: Plan, undo: Floats, rng: np.random.Generator, dimms: int, limit: float
) -> float | None:
    """Try a random move of any kind; None if the one drawn is none."""
    choice = plan.choice
    i, j = rng.choice(len(choice), 2, replace=False).tolist()
    d, e = int(choice[i, DIMM]), int(choice[j, DIMM])
    kind = rng.integers(5)
    if kind == 0:
        other = int(rng.integers(dimms))
        allowed = d != STRIPED and d != other
        return carry(plan, i, -1, d, other, limit, DOUBLINGS) if allowed else None
    if kind == 1:
        allowed = STRIPED not in (d, e) and d != e
        return carry(plan, i, j, d, e, limit, DOUBLINGS) if allowed else None
    if kind == 2:
        s = int(rng.integers(choice.shape[1] - DOMAIN))
        domain = int(rng.integers(2 if d == STRIPED else 3))
        idle = choice[i, DOMAIN + s] == IDLE
        return None if idle or limit == 0 else switch(plan, i, s, domain, DOUBLINGS)
    if kind == 3:
        to = int(rng.integers(-1, dimms))
        return rearrange(plan, undo, i, -1, to, STRIPED, False, limit, DOUBLINGS)
    hbm = bool(choice[i, RESIDENT] == 1 and choice[j, RESIDENT] == 0)
    stay = hbm and rng.random() < 0.5
    to_i, to_j = (d, e) if stay else (e, d)
    before = choice[:, RESIDENT].copy()
    change = rearrange(plan, undo, i, j, to_i, to_j, hbm, limit, DOUBLINGS)
    assert choice[:, RESIDENT].sum() == before.sum()
    return change


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
