"""Bounds that hold and where they are tight, and the gap that filling leaves on large instances."""

import random

import pytest

from tests.problems.threads.second_checker import oracle
from tests.problems.threads.threads_random_instances import KINDS, random_instance
from tests.rooms.core import Search
from tests.rooms.threads import (
    MOST_TOGETHER,
    SHARES,
    Instance,
    Refuter,
    filled,
    items_of,
    lower_bound,
    objective_grid,
    solve,
    violations,
)
from tests.shares import first, shares


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", shares(6, 60))
def test_nothing_that_is_possible_is_refuted(kind: str, seeds: range) -> None:
    """By no condition at the optimum, nor a little above it."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        optimum, refuter = oracle(instance), Refuter(instance)
        assert optimum % objective_grid(instance) == 0
        assert lower_bound(instance) <= optimum
        assert refuter.least_ns <= optimum
        for makespan in (optimum, optimum + 1, 2 * optimum + 3):
            assert not refuter.average_refutes(makespan)
            for together in range(1, MOST_TOGETHER + 1):
                for share in range(1, SHARES + 1):
                    assert not refuter.prices_refute(makespan, together, share)


def of_parts(parts: list[list[int]], threads: int, load: int = 0, pull: int = 0) -> Instance:
    """Return an instance with grains 1, 2, ... and the same load for each expert."""
    rows = [{"expert": e, "load_ns": load, "part_ns": of} for e, of in enumerate(parts)]
    grains = [1, 2, 4][: len(parts[0])]
    return Instance(name="bound", threads=threads, pull_ns=pull, grains=grains, experts=rows)


def test_the_average_counts_loads_that_are_needed() -> None:
    """40 in quarters of 10 with loads of 5: in less than 30 one thread does not hold all.

    Two threads: 20 + 5 each. By 24 three threads would be needed.
    """
    assert lower_bound(of_parts([[40, 20, 10]], 2, load=5)) == 25


def test_the_largest_part() -> None:
    """The longest expert cannot be cut, and is alone for longer than the average."""
    assert lower_bound(of_parts([[50], [1]], 2, load=2, pull=1)) == 53


def test_the_pigeonhole() -> None:
    """Three experts of 10 on two threads: two share one. The average is 15."""
    assert Refuter(of_parts([[10], [10], [10]], 2)).least_ns == 20
    assert lower_bound(of_parts([[10], [10], [10]], 2)) == 20


def test_prices_raise_the_bound() -> None:
    """Three experts of 10, or of two parts of 8, on two threads.

    Whole they take 15 on average, but two of them do not fit in 17; cut they take too much. One
    that is cut leaves 8 + 10 on each thread, which is optimal.
    """
    instance = of_parts([[10, 8]] * 3, 2)
    refuter = Refuter(instance)
    assert (refuter.average_refutes(14), refuter.average_refutes(15)) == (True, False)
    assert refuter.least_ns == 16
    assert not refuter.prices_refute(17, 1, SHARES)
    assert lower_bound(instance) == oracle(instance) == 18


def test_large_numbers_do_not_overflow() -> None:
    """Near the limit of sums Python's integers are taken: the bound scales with the numbers."""
    rng = random.Random(5)
    parts = [[rng.randint(1, 2**10) for _ in range(3)] for _ in range(40)]
    small = lower_bound(of_parts(parts, 8))
    large = lower_bound(of_parts([[2**32 * part for part in of] for of in parts], 8))
    assert large == 2**32 * small


def test_filling_meets_its_target_or_fails() -> None:
    """No thread ends after the target, and at the sum of all work it never fails."""
    met = 0
    for kind in KINDS:
        for seed in range(20):
            instance = random_instance(seed, kind)
            items = items_of(instance)
            assert filled(instance.threads, items, instance.horizon_ns) is not None
            target = oracle(instance)
            found = filled(instance.threads, items, target)
            met += found is not None
            assert filled(instance.threads, items, target - 1) is None
    assert met > 60


def large_instance(seed: int) -> Instance:
    """Return 256 experts on 32 threads, lognormal, with grains up to 64."""
    rng = random.Random(seed)
    sigma, share = rng.choice([0.3, 1.0, 1.5, 2.0]), rng.choice([0.0, 0.02, 0.2])
    grains, rows = (1, 2, 4, 8, 16, 32, 64), []
    for number in range(256):
        work = int(1e6 * rng.lognormvariate(0, sigma))
        parts = [-(-work // grain) + rng.randint(0, 200) for grain in grains]
        rows.append({"expert": number, "load_ns": int(work * share), "part_ns": parts})
    return Instance(
        name=f"large-{seed}", threads=32, pull_ns=rng.choice([1, 100, 2000]), grains=grains,
        experts=rows,
    )  # fmt: skip


@pytest.mark.parametrize("seed", first(2, [*range(6)]))
def test_large_instances_are_closed_to_a_percent(seed: int) -> None:
    """256 experts on 32 threads, in a second of one core."""
    instance, search = large_instance(seed), Search(limit_s=2)
    solve(instance, search)
    assert isinstance(search.objective, int)
    assert isinstance(search.bound, int)
    assert search.objective <= 1.01 * search.bound
    assert violations(instance, search.solution, search.objective) == []
