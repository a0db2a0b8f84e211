"""Threshold search against the oracle and CP-SAT: its values, its proofs, its brackets."""

import random
from collections.abc import Iterator
from itertools import product

import pytest

from moeopt import generate, solve
from tests.problems.tri_domain.random_instances import KINDS, least_makespan, random_instance
from tests.rooms.core import Feasibility, Search
from tests.rooms.problems import Ints, table_of
from tests.rooms.tri_domain import (
    DOMAINS,
    NO_CUTOFF,
    Bracket,
    Instance,
    Solution,
    decide,
    first_schedule,
    grid_and_scale,
    objective,
    pareto_labels,
    simple_bound,
    violations,
)
from tests.rooms.tri_domain import search as search_module
from tests.rooms.tri_domain import solve as threshold

PER_KIND = 100
ENOUGH = 2**19
TIGHT_LIMITS = (1, 30, 100, 400)

Certified = tuple[int, int, list[int]]


def narrowed(instance: Instance, upper: int = NO_CUTOFF, limit: int = ENOUGH) -> Certified:
    """Narrow a bracket once, and let the checker confirm the makespan that it has."""
    bracket = Bracket(table(instance), len(instance.experts), instance.dimms)
    bracket.narrow(upper, limit)
    domain = bracket.domain.tolist()
    assert judged(instance, domain) == bracket.upper
    return bracket.lower, bracket.upper, domain


def table(instance: Instance) -> Ints:
    """Return an instance as the kernels take it."""
    c = instance.columns
    return table_of(c.gpu_ns, c.cpu_ns, c.ndp_ns, c.gpu_dram_ns, c.cpu_dram_ns, c.dimm)


def judged(instance: Instance, domain: list[int]) -> int:
    """Return the makespan of a schedule, which must be valid."""
    solution = Solution(instance=instance.name, assignment=tuple(DOMAINS[d] for d in domain))
    assert violations(instance, solution) == []
    return objective(instance, solution)


def zeros_and_ties(seed: int) -> Instance:
    """Return an instance of few different costs, many of them 0, on few DIMMs.

    Hosts, reads and NDP have different steps, so that their common divisor is not one's own. Reads
    differ between the hosts for striped experts, resident or not.
    """
    rng = random.Random(f"ties{seed}")
    dimms = rng.choice([1, 1, 2, 3])
    costs = rng.choice([[0, 1], [0, 3, 6], [2], [1, 2, 4, 8]])
    host, read, ndp = (rng.choice([1, 1, 10]) for _ in range(3))
    rows = []
    for number in range(rng.randint(1, 9)):
        dimm = rng.randrange(dimms) if rng.random() < 0.5 else None
        resident = rng.random() < 0.3
        rows.append(
            {
                "expert": number,
                "tokens": 1,
                "resident": resident,
                "dimm": dimm,
                "gpu_ns": host * rng.choice(costs),
                "cpu_ns": host * rng.choice(costs),
                "ndp_ns": None if dimm is None else ndp * rng.choice(costs),
                "gpu_dram_ns": 0 if resident else read * rng.choice(costs),
                "cpu_dram_ns": read * rng.choice(costs),
            }
        )
    return Instance(name=f"ties-{seed}", dimms=dimms, experts=rows)


def small_instances() -> Iterator[Instance]:
    """Yield 1,000 instances of every kind."""
    for kind, seed in product(KINDS, range(PER_KIND)):
        yield random_instance(seed, kind)
    yield from (zeros_and_ties(seed) for seed in range(300))


def test_every_small_instance_is_proven_right() -> None:
    """On 1,000 instances the value is the optimum, and proven, without another method's help."""
    for instance in small_instances():
        optimum = least_makespan(instance)
        lower, upper, _ = narrowed(instance)
        assert (lower, upper) == (optimum, optimum), instance.name


@pytest.mark.slow
def test_brackets_hold_when_it_gives_up_early() -> None:
    """With hardly any labels allowed the optimum still lies between the bounds."""
    unproven = 0
    for instance in small_instances():
        optimum = least_makespan(instance)
        for limit in TIGHT_LIMITS:
            lower, upper, _ = narrowed(instance, limit=limit)
            assert lower <= optimum <= upper, (instance.name, limit)
            unproven += lower < upper
    assert unproven > 100


def test_a_cutoff_is_decided() -> None:
    """Below the cutoff the optimum is found; if none is below, that is proven, and no more."""
    for seed in range(150):
        instance = zeros_and_ties(seed) if seed % 3 == 0 else random_instance(seed)
        optimum = least_makespan(instance)
        for upper in {max(optimum - 1, 0), optimum, optimum + 1, 2 * optimum}:
            lower, found, _ = narrowed(instance, upper=upper)
            if upper > optimum:
                assert lower == found == optimum
            else:
                assert upper <= lower <= optimum <= found


def test_first_schedules_are_valid_and_mostly_good() -> None:
    """The compiled incumbent claims the makespan it has; two in three are optimal on these."""
    optimal = 0
    for seed in range(150):
        instance = random_instance(seed)
        makespan, domain = first_schedule(table(instance), instance.dimms)
        assert judged(instance, domain.tolist()) == makespan >= least_makespan(instance)
        optimal += makespan == least_makespan(instance)
    assert optimal >= 100


@pytest.mark.parametrize("quantum_ns", [1, 5000])
@pytest.mark.parametrize("dimms", [8, 16, 32])
def test_paper_scale_equals_cp_sat(dimms: int, quantum_ns: int) -> None:
    """At paper scale it proves its value alone, and CP-SAT gives the same one."""
    for seed, residents in product(range(2), (0, 6)):
        instance = generate(
            "tri_domain",
            machine="trimoe",
            model="deepseek-v2",
            workload="trimoe-skew",
            batch=(64, 512)[seed],
            dimms=dimms,
            residents=residents,
            quantum_ns=quantum_ns,
            seed=seed,
        )
        assert isinstance(instance, Instance)
        lower, upper, _ = narrowed(instance)
        other = solve(instance, "cp-sat", workers=1, time_limit_s=20)
        assert other.bound is not None
        assert other.objective is not None
        assert lower == upper
        assert other.bound <= upper <= other.objective


def test_what_it_leaves_open_goes_to_cp_sat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Given no labels at all it hands over incumbent and bound, and the answer is the optimum."""
    monkeypatch.setattr(search_module, "FIRST_WORK", 1)
    monkeypatch.setattr(search_module, "MOST_WORK", 1)
    handed_over = 0
    for seed in range(30):
        instance = random_instance(seed, "heavy contention")
        result = solve(instance, "threshold")
        assert (result.status, result.objective) == ("optimal", least_makespan(instance))
        handed_over += "then cp-sat" in result.raw_status
    assert handed_over >= 3


def test_it_reports_incumbent_and_bound_and_stops_when_told() -> None:
    """A stopped search still has a schedule and a bound; a finished one is closed."""
    instance = random_instance(4)
    for stopped in (False, True):
        search = Search()
        if stopped:
            search.stop()
        threshold(instance, search)
        assert search.solution is not None
        assert objective(instance, search.solution) == search.objective
        assert search.bound is not None
        assert search.bound <= objective(instance, search.solution)
        assert search.closed or stopped


def test_thinned_lists_refute_nothing() -> None:
    """With lists of one label most of what is open stays open: the optimum is never refuted."""
    unknown = 0
    for seed in range(100):
        instance = random_instance(seed, "no contention", experts=9)
        optimum = least_makespan(instance)
        experts = table(instance)
        _, least, most = simple_bound(experts, instance.dimms)
        _, scale = grid_and_scale(experts)
        labels = pareto_labels(experts, instance.dimms, least, most, 0, 2 * optimum, ENOUGH)
        for width, undecided in (
            (1, Feasibility.UNKNOWN),
            (ENOUGH, Feasibility.FEASIBLE),
        ):
            outcome = decide(
                experts, instance.dimms, labels, optimum, scale, scale // 2, width, ENOUGH
            )
            assert outcome.feasibility in (Feasibility.FEASIBLE, undecided), (instance.name, width)
            unknown += outcome.feasibility == Feasibility.UNKNOWN
    assert unknown >= 5


def partition(seed: int) -> Instance:
    """Return an instance that is the partition of large numbers over GPU and CPU."""
    rng = random.Random(seed)
    rows = []
    for number in range(9):
        cost = rng.randint(2**41, 2**42)
        row = {"expert": number, "tokens": 1, "resident": False, "dimm": None, "ndp_ns": None}
        rows.append(
            row | {"gpu_ns": cost, "cpu_ns": cost, "gpu_dram_ns": cost, "cpu_dram_ns": 2**42}
        )
    return Instance(name=f"partition-{seed}", dimms=1, experts=rows)


def test_the_largest_numbers_overflow_nothing() -> None:
    """Costs of about 2**42, the largest that instances may have, give the exact optimum."""
    for seed in range(20):
        instance = partition(seed)
        lower, upper, _ = narrowed(instance)
        assert lower == upper == least_makespan(instance)


def test_the_scale_of_weights_is_the_largest_safe_one() -> None:
    """All costs together times the scale stay below 2**61, and only just where costs are large."""
    for seed in range(20):
        for instance, is_large in ((partition(seed), True), (random_instance(seed), False)):
            c = instance.columns
            _, scale = grid_and_scale(table(instance))
            total = 1 + int(c.gpu_ns.sum() + c.cpu_ns.sum() + c.ndp_ns.sum())
            total += int(c.gpu_dram_ns.sum() + c.cpu_dram_ns.sum())
            assert total * scale < 2**61
            assert 2 * total * scale >= 2**61 if is_large else scale == 2**20
