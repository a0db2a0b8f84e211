"""Groups of scenarios: what exists is never called infeasible, and the bounds hold."""

from itertools import chain

import numpy as np
import pytest

from moeopt.core.search import Search
from moeopt.problems.layout.instance import Instance
from moeopt.problems.layout.multi_scenario.aggregated import aggregated
from moeopt.problems.layout.multi_scenario.destructive_bounds import (
    PARTS,
    Group,
    GroupProgram,
    grouped_bounds,
    groups_of,
    shares,
)
from moeopt.problems.layout.multi_scenario.wait_and_see import scenario_bounds
from moeopt.problems.layout.single_scenario import least_by_striped_reads, solve_scenario
from moeopt.problems.layout.solution import Solution
from tests.problems.layout.by_arrays import best as optimum
from tests.problems.layout.layout_random_instances import of_every_kind, several_scenarios

INSTANCES = several_scenarios(60, 12)
THIRD = slice(0, None, 3)
SHARES = [THIRD, pytest.param(slice(None), marks=pytest.mark.slow)]


def test_pieces_that_fit_get_at_most_one() -> None:
    """Whatever is put into a DIMM, the shares of its pieces come to at most 1."""
    rng = np.random.default_rng(0)
    full = 0
    for _ in range(3000):
        capacity = int(rng.integers(1, 60))
        pieces, left = [], capacity
        while left and len(pieces) < 12:
            pieces.append(int(rng.integers(0, left + 1)))
            left -= pieces[-1]
        for parts in PARTS:
            total = shares(np.array(pieces), capacity, parts).sum() / parts
            assert total <= 1 + 1e-9, (pieces, capacity, parts)
            full += total > 1 - 1e-9
    assert full > 1000


def test_large_pieces_do_not_share() -> None:
    """By hand: of a capacity of 10, pieces of 6, 5 and 4 get 1, 1/2 and 0 of a DIMM at first."""
    assert shares(np.array([6, 5, 4, 10, 0]), 10, 1).tolist() == [1, 0.5, 0, 1, 0]
    assert (shares(np.array([7, 4, 3, 5]), 10, 2) / 2).tolist() == [1, 0.5, 0, 0.5]


@pytest.mark.parametrize("share", SHARES, ids=["third", "all"])
def test_only_what_does_not_exist_is_infeasible(share: slice) -> None:
    """However far a bound may rise, it stops at the optimum, mostly right there."""
    met, instances = 0, of_every_kind(INSTANCES, share)
    for number, instance in enumerate(instances):
        best, _ = optimum(instance)
        search = Search(limit_s=600)
        alone = scenario_bounds(instance, search, 600)
        rise = best - sum(alone) + number % 3 * best // 20
        group = Group.of(instance, search, dict(enumerate(alone)), rise, 0.0)
        bound = group.raised(sum(alone), rise, search, 0.0)
        assert bound <= best, instance.name
        met += bound == best > sum(alone)
    assert met > 5


def test_the_relaxation_admits_the_optimum() -> None:
    """With the optimum's own numbers of striped reads, both relaxations are feasible."""
    for instance in of_every_kind(INSTANCES, THIRD):
        best, solution = optimum(instance)
        scenarios = list(range(len(instance.scenarios)))
        reads = [(count, count) for count in _striped_reads(solution)]
        program = GroupProgram.of(instance, scenarios)
        for whole in (False, True):
            bound = program.bound(reads, [0] * len(scenarios), best, whole, 600)
            assert bound <= best, instance.name


def test_least_makespans_by_striped_reads() -> None:
    """The least of all is the scenario's own, and with the optimum's number none is above it."""
    above = 0
    for instance in of_every_kind(INSTANCES, slice(0, None, 12)):
        best, solution = optimum(instance)
        reads, whole = _striped_reads(solution), 0
        for s, scenario in enumerate(instance.scenarios):
            upper = best // scenario.weight + 1
            least = least_by_striped_reads(instance, s, lambda: 600.0, upper)
            alone = solve_scenario(instance, s, lambda: 600.0).bound_ns
            assert min(least.values()) == alone, instance.name
            above += max(least.values()) > alone
            whole += scenario.weight * least[reads[s]]
        assert whole <= best, instance.name
    assert above > 3


@pytest.mark.parametrize("group", [2, 3])
@pytest.mark.parametrize("share", SHARES, ids=["third", "all"])
def test_bounds_of_groups_are_bounds(
    share: slice, group: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With any incumbent, the groups' bounds sum to no more than the optimum, mostly to it."""
    monkeypatch.setattr("moeopt.problems.layout.multi_scenario.destructive_bounds.GROUP", group)
    met, raised = 0, 0
    instances = of_every_kind(INSTANCES, share)
    for number, instance in enumerate(instances):
        best, solution = optimum(instance)
        search = Search(limit_s=600)
        search.offer(solution, best + number % 3)
        alone = scenario_bounds(instance, search, 600)
        bounds = grouped_bounds(instance, search, alone, 0.0)
        assert sum(alone) <= sum(bounds) <= best, instance.name
        raised += sum(bounds) > sum(alone)
        met += sum(bounds) == best
    assert raised > 5
    assert met > len(instances) // 2


def test_one_resident_for_two_windows() -> None:
    """By hand: 12 by wait and see, 15 on average over the DIMMs, 18 in truth and by this.

    Two DIMMs; three pieces of 6 in each window, other ones in the second. The one resident spares
    one window a piece, so that it lasts 6; the other window has two pieces on one DIMM, 12.
    """
    hosts = ("gpu_miss_striped_ns", "gpu_miss_localized_ns", "cpu_striped_ns", "cpu_localized_ns")
    scenarios = [
        {"weight": 1, "tokens": [1] * 6, "ndp_ns": ndp, "gpu_hit_ns": [1] * 6}
        | {name: [99] * 6 for name in hosts}
        for ndp in ([6, 6, 6, 0, 0, 0], [0, 0, 0, 6, 6, 6])
    ]
    instance = Instance(
        name="one-resident",
        dimms=2,
        hbm_slots=1,
        dimm_slots=None,
        experts=6,
        dram_striped_ns=99,
        dram_localized_ns=99,
        scenarios=scenarios,
    )
    search = Search(limit_s=600)
    search.offer(None, 18)
    alone = scenario_bounds(instance, search, 600)
    model = aggregated(instance, [0, 1])
    assert alone == [6, 6]
    assert model.proven(instance, model.solve(60), [0, 1]) == 15
    assert grouped_bounds(instance, search, alone, 0.0) == [18]


def test_without_time_or_incumbent_nothing_is_claimed() -> None:
    """The wait-and-see bounds come back as they were."""
    instance = INSTANCES[0]
    alone = scenario_bounds(instance, Search(limit_s=60), 60)
    assert sum(grouped_bounds(instance, Search(limit_s=60), alone, 0.0)) == sum(alone)
    stopped = Search(limit_s=60)
    stopped.offer(None, 10**15)
    stopped.stop()
    assert sum(grouped_bounds(instance, stopped, alone, 0.0)) == sum(alone)


def test_every_scenario_is_in_one_group() -> None:
    """Groups of at most four, sizes that differ by one, in order."""
    for scenarios in range(1, 40):
        groups = groups_of(scenarios)
        assert list(chain.from_iterable(groups)) == list(range(scenarios))
        sizes = [len(group) for group in groups]
        assert max(sizes) <= 4
        assert max(sizes) - min(sizes) <= 1


def _striped_reads(solution: Solution) -> list[int]:
    """Return the number of striped reads in each scenario."""
    return [
        sum(
            domain in ("gpu", "cpu") and dimm is None and not (resident and domain == "gpu")
            for domain, dimm, resident in zip(
                assignment, solution.dimm, solution.resident, strict=True
            )
        )
        for assignment in solution.assignment
    ]
