"""The parts of bound and pack, each against something that needs no theory."""

import random
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from moeopt.problems.layout.single_scenario import Scenario, classes, flows
from moeopt.problems.layout.single_scenario.arc_flow import Graph, Items, pack
from moeopt.problems.layout.single_scenario.classes import decide
from moeopt.problems.layout.single_scenario.dive import dive
from moeopt.problems.layout.single_scenario.hosts import assign
from moeopt.problems.layout.single_scenario.in_integers import decide_in_integers
from moeopt.problems.layout.single_scenario.incumbent import Incumbent
from moeopt.problems.layout.single_scenario.packing import longest_first, repair
from moeopt.problems.layout.single_scenario.prices import largest_piece, prices_at
from moeopt.problems.layout.single_scenario.scenario import (
    CPU_LOCAL,
    CPU_STRIPED,
    GPU_LOCAL,
    GPU_STRIPED,
    HIT,
    NDP,
    Plan,
)
from moeopt.problems.layout.single_scenario.states import least_capacity, simple_bounds
from tests.problems.layout.test_bound_and_pack import larger_instance

STRIPED, LOCAL = (GPU_STRIPED, CPU_STRIPED), (GPU_LOCAL, CPU_LOCAL)


@cache
def least_makespan(sizes: tuple[int, ...], bins: int, slots: int) -> int | None:
    """Return the least largest load by trying every packing, None if the slots do not suffice."""
    best = None
    for places in product(range(bins), repeat=len(sizes)):
        if all(places.count(b) <= slots for b in range(bins)):
            loads = [
                sum(s for s, p in zip(sizes, places, strict=True) if p == b) for b in range(bins)
            ]
            best = max(loads) if best is None else min(best, max(loads))
    return best


def packing_case(seed: int) -> tuple[np.ndarray, int, int]:
    """Return sizes, falling, a number of bins and slots that suffice."""
    rng = random.Random(seed)
    bins, count = rng.randint(1, 3), rng.randint(1, 7)
    slots = min(count, max(-(-count // bins), rng.randint(1, 4)))
    sizes = sorted((rng.randint(0, rng.choice([4, 15])) for _ in range(count)), reverse=True)
    return np.array(sizes), bins, slots


@pytest.mark.parametrize("seed", range(60))
def test_flows_decide_packings(seed: int) -> None:
    """Yes exactly from the least makespan on, with bins that hold every item once.

    A dive may leave it open, but is not wrong.
    """
    sizes, bins, slots = packing_case(seed)
    least = least_makespan(tuple(sizes.tolist()), bins, slots)
    assert least is not None
    bound = least_capacity(Dimms(bins, slots), sizes)  # type: ignore[arg-type]
    assert bound <= least
    items = Items.of(sizes, slots)
    for capacity in range(max(0, least - 3), least + 3):
        waste = bins * capacity - int(sizes.sum())
        graph = Graph.of(items.sizes, items.copies, capacity, slots, waste)
        packed = pack(graph, items.copies, bins, 10.0)
        dived = dive(graph, items.copies, bins, capacity, slots, 10.0)
        if capacity < least:
            assert packed == "infeasible"
            assert isinstance(dived, str)
        else:
            assert not isinstance(packed, str)
            assert dived != "infeasible"
            for found in (packed, dived):
                if not isinstance(found, str):
                    place = items.places(found, sizes)
                    assert np.bincount(place, sizes, bins).max() <= capacity
                    assert len(sizes) <= slots or np.bincount(place).max() <= slots


def test_dives_find_packings() -> None:
    """Nearly all there are, and where items fill the bins entirely, too."""
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        bins, capacity = 8, 300
        cuts = [np.sort(rng.choice(np.arange(1, capacity), 3, replace=False)) for _ in range(bins)]
        parts = [np.diff(np.concatenate([[0], cut, [capacity]])) for cut in cuts]
        sizes = -np.sort(-np.concatenate(parts))
        items = Items.of(sizes, len(sizes))
        graph = Graph.of(items.sizes, items.copies, capacity, len(sizes), 0)
        packed = dive(graph, items.copies, bins, capacity, len(sizes), 10.0)
        assert packed != "infeasible"
        if not isinstance(packed, str):
            found += 1
            loads = np.bincount(items.places(packed, sizes), sizes, bins)
            assert loads.tolist() == [capacity] * bins
    assert found >= 18


def test_a_dive_stops_in_time() -> None:
    """Without time it says nothing."""
    items = Items.of(np.array([3, 2, 2]), 3)
    graph = Graph.of(items.sizes, items.copies, 4, 3, 1)
    assert dive(graph, items.copies, 2, 4, 3, 0.0) == "open"
    assert dive(graph, items.copies, 2, 4, 3, 10.0) in ([[0], [1, 1]], [[1, 1], [0]])


class Dimms:
    """As much of a scenario as `least_capacity` looks at."""

    def __init__(self, dimms: int, slots: int) -> None:
        self.dimms, self.slots = dimms, slots


@pytest.mark.parametrize("coarse", [0, 2, 3, 5])
@pytest.mark.parametrize("seed", range(30))
def test_flows_of_rounded_sizes_refute_no_packing(
    seed: int, coarse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the least makespan, where nothing is to waste, the answer is never no."""
    sizes, bins, slots = packing_case(seed)
    least = least_makespan(tuple(sizes.tolist()), bins, slots)
    assert least is not None
    if coarse:
        monkeypatch.setattr(flows, "MAX_CELLS", -1)
        monkeypatch.setattr(flows, "COARSE", coarse)
    dimms: Any = Dimms(bins, slots)
    for capacity in (least, least + 1):
        step, items, graph = flows.graph_of(dimms, sizes, capacity, int(sizes.sum()))
        packed = pack(graph, items.copies, bins, 10.0)
        assert packed != "infeasible"
        assert dive(graph, items.copies, bins, capacity // step, slots, 10.0) != "infeasible"


@pytest.mark.parametrize("seed", [s for s in range(40) if larger_instance(s).experts <= 5])
def test_no_margin_refutes_a_schedule(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much is added to it, a makespan that is attained is never refuted."""
    scenario = Scenario.of(larger_instance(seed), 0)
    plans = plans_of(scenario)
    for way, r, e in random.Random(seed).sample(plans, min(25, len(plans))):
        at = int(np.ceil(together(scenario, way, r)))
        prices = prices_at(scenario, r, e, largest_piece(scenario, r, at))
        for margin in (0.0001, 30.0, 1000.0):
            monkeypatch.setattr(classes, "MARGIN", margin)
            assert decide(scenario, r, e, at, prices, 10.0) != "infeasible"


@pytest.mark.parametrize("seed", [s for s in range(40) if larger_instance(s).experts <= 5])
def test_the_gpu_is_done_at_the_latest_sum_of_its_costs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No schedule within a makespan is done later."""
    monkeypatch.setattr(classes, "MANY_COSTS", 10)
    scenario = Scenario.of(larger_instance(seed), 0)
    rng, everyone, times = random.Random(seed), np.arange(scenario.experts), {}
    for way, r, e in plans_of(scenario):
        on_gpu = np.isin(way, (HIT, GPU_STRIPED, GPU_LOCAL))
        times.setdefault((r, e), set()).add(int(scenario.cost[way, everyone][on_gpu].sum()))
    for state in rng.sample(sorted(times), min(10, len(times))):
        for makespan in rng.sample(sorted(times[state]), min(3, len(times[state]))):
            assert classes.latest(scenario, *state, makespan) == makespan
            before = max((t for t in times[state] if t < makespan), default=0)
            if makespan:
                assert before <= classes.latest(scenario, *state, makespan - 1) < makespan


def test_in_integers_without_a_flow_the_dimms_are_taken_together() -> None:
    """CP-SAT and HiGHS agree on both sides of the least makespan."""
    for seed in [s for s in range(60) if larger_instance(s).experts == 4]:
        scenario = Scenario.of(larger_instance(seed), 0)
        least: dict[tuple[int, int], float] = {}
        for way, r, e in plans_of(scenario):
            least[r, e] = min(least.get((r, e), np.inf), together(scenario, way, r))
        state = random.Random(seed).choice(sorted(least))
        at = int(np.ceil(least[state]))
        for makespan in (at, at - 1) if at else (at,):
            most = classes.most_of(scenario, *state, makespan, None)
            answer = decide_in_integers(scenario, *state, makespan, most, 10.0)
            assert (answer == "infeasible") == (makespan < at)


@pytest.mark.parametrize("seed", [s for s in range(60) if larger_instance(s).experts <= 5][:9])
def test_a_state_has_a_plan_from_its_least_makespan_on(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HiGHS and, where it lets too much pass, CP-SAT find what trying every packing finds."""
    scenario = Scenario.of(larger_instance(seed), 0)
    exact: dict[tuple[int, int], int] = {}
    for way, r, e in plans_of(scenario):
        sizes = (*sorted(scenario.ndp[way == NDP].tolist()), *[scenario.local_read] * e)
        own = least_makespan(sizes, scenario.dimms, scenario.slots)
        if own is not None:
            hosts = Plan(way, np.full(scenario.experts, -1)).hosts(scenario)
            makespan = max(hosts, r * scenario.striped_read + own)
            exact[r, e] = min(exact.get((r, e), makespan), makespan)
    for r, e in random.Random(seed).sample(sorted(exact), min(8, len(exact))):
        for at in (exact[r, e], exact[r, e] - 1) if exact[r, e] else (0,):
            prices = prices_at(scenario, r, e, largest_piece(scenario, r, at))
            for margin in (0.0001, 10_000.0):
                monkeypatch.setattr(classes, "MARGIN", margin)
                incumbent = Incumbent(scenario, at + 1, lambda plan, makespan: None)
                verdict = flows.packs_somehow(incumbent, at, r, e, prices, 10.0)
                assert verdict == ("better" if at == exact[r, e] else "no")
                assert (incumbent.plan is None) == (verdict == "no")


@pytest.mark.parametrize("seed", range(40))
def test_repair_keeps_what_it_says(seed: int) -> None:
    """Slots hold; success means within the capacity; from a makespan's own value it succeeds."""
    sizes, bins, slots = packing_case(seed)
    least = least_makespan(tuple(sizes.tolist()), bins, slots)
    draws = np.random.default_rng(seed).integers(2**62, size=(200, 3))
    place = longest_first(sizes, bins, slots)
    assert least is not None
    done = repair(sizes, place, bins, slots, least, draws)
    assert np.bincount(place, minlength=bins).max() <= slots
    assert done == (np.bincount(place, sizes, bins).max() <= least)


def plans_of(scenario: Scenario) -> list[tuple[np.ndarray, int, int]]:
    """Return every way of running the experts that respects the HBM slots, with r and e."""
    found = []
    for ways in product(range(6), repeat=scenario.experts):
        if ways.count(HIT) <= scenario.hits:
            r, e = sum(w in STRIPED for w in ways), sum(w in LOCAL for w in ways)
            if ways.count(NDP) + e <= scenario.dimms * scenario.slots:
                found.append((np.array(ways), r, e))
    return found


def together(scenario: Scenario, way: np.ndarray, r: int) -> float:
    """Return the makespan with the DIMMs taken together, but each item on one of them."""
    own = scenario.cost[NDP][way == NDP].tolist()
    own += [scenario.local_read] * int(np.isin(way, LOCAL).sum())
    striped = r * scenario.striped_read
    hosts = Plan(way, np.full(scenario.experts, -1)).hosts(scenario)
    return max(hosts, striped + max([sum(own) / scenario.dimms, *own], default=0))


@pytest.mark.parametrize("seed", [s for s in range(60) if larger_instance(s).experts <= 5][:9])
def test_bounds_and_decisions_hold_in_every_state(seed: int) -> None:
    """Simple bounds and prices are below every schedule of a state; `decide` is right about it."""
    scenario = Scenario.of(larger_instance(seed), 0)
    least: dict[tuple[int, int], float] = {}
    for way, r, e in plans_of(scenario):
        least[r, e] = min(least.get((r, e), np.inf), together(scenario, way, r))
    top = 10**9
    simple = {
        (r, e): b
        for b, r, e in zip(*map(np.ndarray.tolist, simple_bounds(scenario, top)), strict=True)
    }
    rng = random.Random(seed)
    for state in rng.sample(sorted(least), min(6, len(least))):
        room = largest_piece(scenario, state[0], int(least[state]))
        prices = prices_at(scenario, *state, room)
        for other, value in least.items():
            reads = -(-other[1] // scenario.dimms) * scenario.local_read
            packed = max(value, other[0] * scenario.striped_read + reads)
            lattice = int(scenario.lattices[other[1] > 0][scenario.leavers(*other)])
            assert simple[other] <= np.ceil(packed) or lattice > 1
            assert prices is None or prices.bound(*other) <= np.ceil(value)
        at = int(np.ceil(least[state]))
        for makespan in (at, at - 1) if at else (at,):
            prices = prices_at(scenario, *state, largest_piece(scenario, state[0], makespan))
            for known in (prices, None):
                answer = decide(scenario, *state, makespan, known, 10.0)
                assert (answer == "infeasible") == (makespan < at)
        if (way := assign(scenario, *state, at)) is not None:
            everyone = np.concatenate([way, np.full(scenario.experts - len(way), NDP)])
            assert len(way) == scenario.leavers(*state)
            assert (np.isin(way, STRIPED).sum(), np.isin(way, LOCAL).sum()) == state
            assert (way == HIT).sum() <= scenario.hits
            assert Plan(everyone, np.full(scenario.experts, -1)).hosts(scenario) <= at
