"""Two oracles against hand computation and each other, and every exact method against them."""

from typing import Any

import pytest

import moeopt
from tests.problems.agreement import (
    assert_agreement,
    assert_anchors,
    assert_missed,
    assert_starts_help,
    proven,
)
from tests.problems.threads.second_checker import oracle
from tests.problems.threads.threads_random_instances import KINDS, random_instance
from tests.rooms.core import Search
from tests.rooms.threads import CONSTRAINTS, Instance, candidates, count, solve, violations
from tests.shares import shares

PER_KIND = 34
SHARES = [range(1), pytest.param(range(1, PER_KIND), marks=pytest.mark.slow)]


def instance_of(
    experts: list[tuple[int, list[int | None]]], grains: tuple[int, ...], threads: int, pull: int
) -> Instance:
    """Return an instance from (load, times of parts) per expert."""
    rows = [{"expert": e, "load_ns": load, "part_ns": p} for e, (load, p) in enumerate(experts)]
    return Instance(name="small", threads=threads, pull_ns=pull, grains=grains, experts=rows)


ANCHORS: dict[str, tuple[Instance, int]] = {
    # P||Cmax: 7 + 5 against 6 + 4 + 2.
    "no loads, one grain": (instance_of([(0, [n]) for n in (7, 6, 5, 4, 2)], (1,), 2, 0), 12),
    # Whole: 40 + 1 + 5. Halves: 21 + 1 + 5 = 27. Quarters on four threads: 11 + 1 + 5.
    "the example's first expert": (instance_of([(5, [40, 21, 11])], (1, 2, 4), 4, 1), 17),
    # Quarters of both on all threads: 12 + 5 and 4 + 5. Quarters of the first on three threads are
    # 29 on one of them, halves on two are 27.
    "the example": (instance_of([(5, [40, 21, 11]), (5, [9, 5, 3])], (1, 2, 4), 4, 1), 26),
    # Loads outweigh what parts save: 10 + 20 on one thread, not 5 + 20 + 1 on each of two.
    "a load is not worth it": (instance_of([(20, [10, 10])], (1, 2), 2, 1), 31),
    # A grain that does not exist: halves would end at 5.
    "a grain that is not there": (instance_of([(0, [10, None])], (1, 2), 2, 0), 10),
    # Three parts of 2 + 1 and a load of 1: an expert on each thread. Mixed parts load twice.
    "each keeps its own input": (instance_of([(1, [2]), (1, [2])], (3,), 2, 1), 10),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


def test_the_oracle_leaves_nothing_out() -> None:
    """One expert on two threads, whole or in two parts: 2 + 4 candidates, once each."""
    instance = instance_of([(1, [4, 2])], (1, 2), 2, 0)
    found = [(one.grain, one.thread) for one in candidates(instance)]
    assert len(found) == len(set(found)) == count(instance) == 6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", shares(2, 20))
def test_the_oracles_agree(kind: str, seeds: range) -> None:
    """Parts by name and parts by number have one optimum."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        assert moeopt.solve(instance, "brute-force").objective == oracle(instance), instance


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind; see `assert_agreement`."""
    for seed in seeds:
        assert_agreement(random_instance(seed, kind), run=True)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 4), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help(random_instance(seed, kind) for kind in KINDS for seed in seeds)


@pytest.mark.parametrize("rule", CONSTRAINTS)
def test_a_rule_that_is_left_out_is_missed(rule: str) -> None:
    """The optimum falls, and the checker names that rule alone."""
    assert_missed(rule, [random_instance(seed) for seed in range(6)], proven)


@pytest.mark.parametrize(
    "seeds", [range(1000, 1020), pytest.param(range(1020, 1100), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_filling_claims_nothing_false(kind: str, seeds: range) -> None:
    """By itself, without what goes on: its bracket holds the optimum, on 100 more of each kind."""
    closed = 0
    for seed in seeds:
        instance: Any = random_instance(seed, kind)
        optimum, search = oracle(instance), Search()
        solve(instance, search)
        assert search.objective is not None
        assert search.bound is not None
        assert search.bound <= optimum <= search.objective, instance
        assert violations(instance, search.solution, search.objective) == []
        closed += search.closed
    assert closed >= 0.4 * len(seeds)
