"""Several scenarios: no bound above the optimum, no plan below it, and claims that hold."""

from collections import Counter
from itertools import combinations_with_replacement, islice

import numpy as np
import pytest

from tests.problems.layout.by_arrays import optimum
from tests.problems.layout.layout_random_instances import (
    of_every_kind,
    random_instance,
    several_scenarios,
)
from tests.rooms.core import Search
from tests.rooms.layout import (
    Box,
    Instance,
    Multipliers,
    Pattern,
    Relaxation,
    Room,
    Scenario,
    SharedLayout,
    check,
    rounds,
    scenario_bounds,
    unit_of,
)
from tests.rooms.layout import solve_several_scenarios as solve

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
    monkeypatch.setattr(rounds, "PER_EXPERT", 50)
    closed = 0
    for number, instance in enumerate(of_every_kind(INSTANCES, slice(share, None, SHARES))):
        least = optimum(instance)
        assert _shared(instance, least // unit_of(instance) + 3) <= least, instance.name
        search = Search(limit_s=600, seed=number)
        solve(instance, search)
        alone = scenario_bounds(instance, Search(limit_s=600), 600)
        assert sum(alone) <= least, instance.name
        tight = _shared(instance, least // unit_of(instance) + 1, alone)
        assert tight <= least, instance.name
        assert search.bound is not None
        assert search.objective is not None
        assert not check.violations(instance, search.solution), instance.name
        assert check.objective(instance, search.solution) == search.objective, instance.name
        assert search.bound <= least <= search.objective, instance.name
        closed += search.closed
    assert closed > len(INSTANCES) // (6 * SHARES)  # so that the claims are put to the test


def test_patterns_that_gain_most() -> None:
    """The search over sets finds the best of all, at any multipliers; cut short, a bound on it."""
    rng = np.random.default_rng(0)
    for instance in of_every_kind(INSTANCES, slice(0, None, 3)):
        unit, windows = unit_of(instance), range(len(instance.scenarios))
        some = [s for s in windows if instance.path_times.active[s].any()]
        if not some:
            continue
        makespan = (
            max(max(of.ndp_ns) for of in instance.scenarios) // unit * int(rng.integers(1, 4))
        )
        least, most = [rng.integers(0, makespan + 1, len(some)).tolist() for _ in range(2)]
        least, most = np.sort([least, most], axis=0).tolist()
        relaxation = Relaxation(instance, some, box := Box(0, 2, tuple(least), tuple(most)))
        room, size = relaxation.room(box), len(relaxation.size)
        dimm, gpu, cpu, work = rng.integers(0, 10, (4, len(some)))
        read = rng.integers(0, 1 + 10 * makespan, len(some))
        cover = rng.integers(0, 1 + 30 * makespan, size)
        by = Multipliers(dimm, gpu, cpu, read, work, cover, 0, int(rng.integers(0, 99)))
        worth, _ = relaxation._worth(by, room)
        at = np.flatnonzero(worth > 0)
        gains = dict(_gains(relaxation, by, room, at.tolist()))
        top, found, looks = relaxation._patterns(by, room, at, 10**6)
        assert looks < 10**6
        assert top == max(by.each, *gains.values(), 0), instance.name
        for of in found:
            assert isinstance(of, Pattern)
            assert gains[of.members] > by.each
        for few in (1, 2, 5):
            assert relaxation._patterns(by, room, at, few)[0] >= top


def _gains(
    relaxation: Relaxation, by: Multipliers, room: Room, classes: list[int]
) -> list[tuple[tuple[int, ...], int]]:
    """Return all sets that a DIMM has room for, and what they gain."""
    found = []
    for count in range(1, relaxation.most_members + 1):
        for members in combinations_with_replacement(classes, count):
            if any(n > relaxation.size[i] for i, n in Counter(members).items()):
                continue
            costs = []
            for s, own in enumerate(relaxation.ndp[:, list(members)].tolist()):
                ways = list[int]()
                for k in range(min(count, room.reads[s]) + 1):
                    own.sort(reverse=True)
                    load = sum(min(n, relaxation.local) for n in own[:k]) + sum(own[k:])
                    if load <= room.most[s]:
                        ways.append(int(by.read[s] * k + by.work[s] * load))
                costs.append(min(ways, default=None))
            if None not in costs:
                gain = int(sum(by.cover[i] for i in members)) - sum(c for c in costs if c)
                found.append((members, gain))
    return found


def test_pieces_are_not_divided() -> None:
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
    assert _shared(instance, 50) == 3 * 100 + 100


def test_what_shares_a_dimm_in_one_window_does_in_the_other() -> None:
    """Three experts on two DIMMs: each pair is long in another window, though not on average."""
    loads = ([10, 10, 1], [10, 1, 10], [1, 10, 10])
    instance = _one_slot_two_wishes().model_copy(
        update={
            "experts": 3,
            "hbm_slots": 0,
            "scenarios": tuple(Scenario.model_validate(_scenario(1, of, 99, 99)) for of in loads),
        }
    )
    least = optimum(instance)
    alone = scenario_bounds(instance, Search(limit_s=5), 5)
    assert sum(alone) == 33 < least == 42
    assert _shared(instance, 60, alone) == least


def test_a_layout_of_each_scenario_alone_is_not_enough() -> None:
    """Two scenarios that want different residents: the shared bound sees the conflict."""
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


def test_a_stop_is_heard() -> None:
    """A search that was stopped before it began returns without a proof of more than it has."""
    instance = random_instance(1, "several scenarios", experts=10)
    search = Search(limit_s=600)
    search.stop()
    solve(instance, search)
    assert search.objective is None or search.objective >= (search.bound or 0)


def _shared(instance: Instance, upper: int, alone: list[int] | None = None) -> int:
    """Return the bound after some steps; without `alone` no window by itself helps."""
    unit = unit_of(instance)
    least = [0] * len(instance.scenarios)
    if alone is not None:
        weights = instance.path_times.weight.tolist()
        least = [of // (weight * unit) for of, weight in zip(alone, weights, strict=True)]
    found = [*islice(SharedLayout(instance, least, upper).bounds(), 100)]
    assert found == sorted(found)
    return found[-1] * unit_of(instance)


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
