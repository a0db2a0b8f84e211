"""The parts of bound and pack, each against something that needs no theory."""

import random
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.problems.layout.test_bound_and_pack import larger_instance
from tests.rooms.core import Feasibility
from tests.rooms.layout import (
    CPU_PATHS,
    GPU_PATHS,
    LOCAL_READS,
    STRIPED_READS,
    Assignment,
    Branch,
    ClassProblem,
    Graph,
    Incumbent,
    Items,
    Path,
    Row,
    SingleScenario,
    Subproblems,
    arc_flow,
    assign_hosts,
    classes,
    dual_multipliers,
    largest_item,
    leaving,
    load_divisors,
    longest_first,
    pack_cpsat,
    packing_bound,
    repair,
    simple_bounds,
    solve_class_cpsat,
)
from tests.shares import shares

FEASIBLE, INFEASIBLE = Feasibility.FEASIBLE, Feasibility.INFEASIBLE

SMALL = [seed for seed in range(60) if larger_instance(seed).experts <= 5]


def first_quick(seeds: Sequence[int], quick: int) -> list[Any]:
    """Return parameters of which only so many first ones are not slow."""
    slow = [pytest.param(seed, marks=pytest.mark.slow) for seed in seeds[quick:]]
    return [*seeds[:quick], *slow]


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


@pytest.mark.parametrize("seeds", shares(15, 60))
def test_flows_decide_packings(seeds: range) -> None:
    """Feasible exactly from the least makespan on, with bins that hold every item once."""
    for seed in seeds:
        sizes, bins, slots = packing_case(seed)
        least = least_makespan(tuple(sizes.tolist()), bins, slots)
        assert least is not None
        bound = packing_bound(Dimms(bins, slots), sizes)  # type: ignore[arg-type]
        assert bound <= least
        items = Items.of(sizes, slots)
        for capacity in range(max(0, least - 3), least + 3):
            waste = bins * capacity - int(sizes.sum())
            graph = Graph.of(items.sizes, items.copies, capacity, slots, waste)
            expected = FEASIBLE if capacity >= least else INFEASIBLE
            answer, packed = pack_cpsat(graph, items.copies, bins, 10.0)
            assert answer == expected
            assert answer == INFEASIBLE or fits(items.places(packed, sizes), sizes, capacity, slots)


@pytest.mark.parametrize("seed", first_quick(range(60), 12))
def test_flows_hold_few_of_the_first_size(seed: int) -> None:
    """As above, with so many reads in a bin at most; a size equal to theirs is another item."""
    rng = np.random.default_rng(seed)
    bins, reads, most = int(rng.integers(2, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    read = int(rng.integers(1, 9))
    others = -np.sort(-rng.choice([read, *range(1, 12)], int(rng.integers(0, 5))))
    sizes = np.concatenate([np.full(reads, read), others])
    slots = len(sizes) if rng.random() < 0.5 else -(-len(sizes) // bins)

    def allowed(place: np.ndarray, capacity: int) -> bool:
        few = np.bincount(place[:reads], minlength=bins).max() <= most
        return bool(few and fits(place, sizes, capacity, slots))

    places = [np.array(of) for of in product(range(bins), repeat=len(sizes))]
    loads = [np.bincount(of, sizes).max() for of in places if allowed(of, int(sizes.sum()))]
    least = int(min(loads)) if loads else None
    items = Items.of(sizes, slots, reads)
    for capacity in range(max(read, (least or 12) - 2), (least or 12) + 3):
        waste = bins * capacity - int(sizes.sum())
        graph = Graph.of(items.sizes, items.copies, capacity, slots, waste, most)
        expected = FEASIBLE if least is not None and capacity >= least else INFEASIBLE
        answer, packed = pack_cpsat(graph, items.copies, bins, 10.0)
        assert answer == expected
        assert answer == INFEASIBLE or allowed(items.places(packed, sizes), capacity)


def fits(place: np.ndarray, sizes: np.ndarray, capacity: int, slots: int) -> bool:
    """Tell whether each bin keeps to its capacity and its slots."""
    return bool(np.bincount(place, sizes).max() <= capacity and np.bincount(place).max() <= slots)


class Dimms:
    """As much of a scenario as `packing_bound` looks at."""

    def __init__(self, dimms: int, slots: int) -> None:
        self.dimms, self.slots = dimms, slots


@pytest.mark.parametrize("coarse", [0, 2, 3, 5])
@pytest.mark.parametrize("seeds", shares(8, 30))
def test_flows_of_rounded_sizes_refute_no_packing(
    seeds: range, coarse: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the least makespan, where nothing is to waste, the answer is never infeasible."""
    for seed in seeds:
        sizes, bins, slots = packing_case(seed)
        least = least_makespan(tuple(sizes.tolist()), bins, slots)
        assert least is not None
        if coarse:
            monkeypatch.setattr(arc_flow, "MAX_NODES", 0)
            monkeypatch.setattr(arc_flow, "COARSE", coarse)
        dimms: Any = Dimms(bins, slots)
        for capacity in (least, least + 1):
            _, items, graph = arc_flow.build(dimms, sizes, capacity, int(sizes.sum()))
            assert pack_cpsat(graph, items.copies, bins, 10.0)[0] == FEASIBLE


@pytest.mark.parametrize("seed", [s for s in SMALL if s < 40])
def test_the_gpu_is_done_at_the_latest_sum_of_its_costs(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No schedule within a makespan is done later."""
    monkeypatch.setattr(classes, "MANY_COSTS", 10)
    scenario = SingleScenario.of(larger_instance(seed), 0)
    rng, times, schedules = random.Random(seed), {}, Schedules(scenario)
    for branch, gpu in zip(schedules.branch, schedules.gpu.tolist(), strict=True):
        times.setdefault(branch, set()).add(gpu)
    for branch in rng.sample(sorted(times), min(10, len(times))):
        for makespan in rng.sample(sorted(times[branch]), min(3, len(times[branch]))):
            assert classes.largest_sum(scenario, branch, Row.GPU, makespan) == makespan
            before = max((t for t in times[branch] if t < makespan), default=0)
            if makespan:
                found = classes.largest_sum(scenario, branch, Row.GPU, makespan - 1)
                assert before <= found < makespan


@pytest.mark.parametrize("seed", first_quick(SMALL[:9], 2))
def test_a_branch_is_feasible_from_its_least_makespan_on(seed: int) -> None:
    """CP-SAT finds what trying every packing finds."""
    scenario = SingleScenario.of(larger_instance(seed), 0)
    schedules = Schedules(scenario)
    hosts = np.maximum(schedules.gpu, schedules.cpu).tolist()
    stay = [tuple(row) for row in (schedules.path == Path.NDP).tolist()]
    makespans = []
    for branch, on_ndp, host in zip(schedules.branch, stay, hosts, strict=True):
        sizes = sorted(np.compress(on_ndp, scenario.ndp).tolist())
        reads = [scenario.local_read] * branch.local
        own = least_makespan((*sizes, *reads), scenario.dimms, scenario.slots)
        striped = branch.striped * scenario.striped_read
        makespans.append(np.inf if own is None else max(host, striped + own))
    exact = {
        b: int(m) for b, m in least_by_branch(schedules.branch, makespans).items() if m < np.inf
    }
    for branch in random.Random(seed).sample(sorted(exact), min(8, len(exact))):
        for at in (exact[branch], exact[branch] - 1) if exact[branch] else (0,):
            incumbent = Incumbent(scenario, at + 1, lambda *_: None)
            answer = Subproblems(incumbent).with_arc_flow(branch, at, 10)
            assert answer == (FEASIBLE if at == exact[branch] else INFEASIBLE)
            assert (incumbent.upper <= at) == (answer == FEASIBLE)


@pytest.mark.parametrize("seeds", shares(10, 40))
def test_repair_keeps_what_it_says(seeds: range) -> None:
    """Slots hold; success means within the capacity; from a makespan's own value it succeeds."""
    for seed in seeds:
        sizes, bins, slots = packing_case(seed)
        least = least_makespan(tuple(sizes.tolist()), bins, slots)
        draws = np.random.default_rng(seed).integers(2**62, size=(200, 3))
        place = longest_first(sizes, bins, slots)
        assert least is not None
        load = np.zeros(bins, np.int64)
        np.add.at(load, place, sizes)
        done = repair(
            sizes, place, load, slots, least, draws, np.zeros((5, len(sizes) + 1), np.int64)
        )
        assert (load == np.bincount(place, sizes, bins)).all()
        assert np.bincount(place, minlength=bins).max() <= slots
        assert done == (np.bincount(place, sizes, bins).max() <= least)


class Schedules:
    """Every choice of paths that respects HBM and DIMM slots, one a row, and what it comes to."""

    def __init__(self, scenario: SingleScenario) -> None:
        path = np.indices((len(Path),) * scenario.experts).reshape(scenario.experts, -1).T
        reads = np.isin(path, LOCAL_READS)
        localized = (reads | (path == Path.NDP)).sum(axis=1)
        kept = (path == Path.HIT).sum(axis=1) <= scenario.hits
        kept &= localized <= scenario.dimms * scenario.slots
        self.path, reads = path[kept], reads[kept]
        self.striped = np.isin(self.path, STRIPED_READS).sum(axis=1)
        self.branch = list(map(Branch, self.striped.tolist(), reads.sum(axis=1).tolist()))
        cost = scenario.cost[self.path, np.arange(scenario.experts)]
        self.gpu = np.where(np.isin(self.path, GPU_PATHS), cost, 0).sum(axis=1)
        self.cpu = np.where(np.isin(self.path, CPU_PATHS), cost, 0).sum(axis=1)
        own = np.where(self.path == Path.NDP, cost, np.where(reads, scenario.local_read, 0))
        dimm = np.maximum(own.sum(axis=1) / scenario.dimms, own.max(axis=1))
        striped_ns = self.striped * scenario.striped_read
        self.aggregated = np.maximum(np.maximum(self.gpu, self.cpu), striped_ns + dimm)
        """The makespan with the DIMM rows aggregated, but each item on one of them."""


def least_by_branch(branches: list[Branch], values: Iterable[float]) -> dict[Branch, float]:
    """Return the least value of each branch."""
    least: dict[Branch, float] = {}
    for branch, value in zip(branches, values, strict=True):
        least[branch] = min(least.get(branch, np.inf), value)
    return least


def least_aggregated(scenario: SingleScenario) -> dict[Branch, float]:
    """Return the least of these makespans of each branch."""
    schedules = Schedules(scenario)
    return least_by_branch(schedules.branch, schedules.aggregated.tolist())


def class_problem(scenario: SingleScenario, branch: Branch, makespan: int) -> ClassProblem:
    """Return the subproblem without a flow, with the branch's best multipliers."""
    largest = largest_item(scenario, branch, makespan)
    return ClassProblem(scenario, branch, makespan, dual_multipliers(scenario, branch, largest))


@pytest.mark.parametrize("seed", first_quick(SMALL[:9], 3))
def test_bounds_and_decisions_hold_in_every_branch(seed: int) -> None:
    """Simple and Lagrangian bounds are below every schedule of a branch; CP-SAT decides rightly."""
    scenario = SingleScenario.of(larger_instance(seed), 0)
    least = least_aggregated(scenario)
    simple = {branch: bound for bound, branch in simple_bounds(scenario, 10**9)}
    rng = random.Random(seed)
    for branch in rng.sample(sorted(least), min(6, len(least))):
        at = int(np.ceil(least[branch]))
        found = class_problem(scenario, branch, int(least[branch])).multipliers
        for other, value in least.items():
            reads = -(-other.local // scenario.dimms) * scenario.local_read
            packed = max(value, other.striped * scenario.striped_read + reads)
            divisor = load_divisors(scenario)[other.local > 0][leaving(scenario, other)]
            assert simple[other] <= np.ceil(packed) or divisor > 1
            assert found is None or found.bound(other) <= np.ceil(value)
        for makespan in (at, at - 1) if at else (at,):
            expected = INFEASIBLE if makespan < at else FEASIBLE
            for problem in (
                class_problem(scenario, branch, makespan),
                ClassProblem(scenario, branch, makespan),
            ):
                assert solve_class_cpsat(problem, 10.0).feasibility == expected
        if (path := assign_hosts(scenario, branch, at)) is not None:
            kinds = (STRIPED_READS, LOCAL_READS)
            assert tuple(np.isin(path, kind).sum() for kind in kinds) == branch
            assert (path == Path.NDP).tolist() == [
                i >= leaving(scenario, branch) for i in range(scenario.experts)
            ]
            assert (path == Path.HIT).sum() <= scenario.hits
            assert Assignment(path, np.full(len(path), -1)).host_makespan(scenario) <= at
