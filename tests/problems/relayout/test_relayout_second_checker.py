"""Two checkers against each other, and every method where shared assumptions would fail."""

import random

import pytest

from moeopt import solve
from tests.problems.agreement import assert_checkers_agree, assert_found, odd_choice
from tests.problems.instances_to_break import any_numbers
from tests.problems.relayout.by_arrays import judged, optimum
from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    attack,
    random_instance,
)
from tests.rooms.relayout import Instance, Migration, Solution


def random_solution(instance: Instance, rng: random.Random) -> Solution:
    """Return a random solution, wrong in one place or more every other time."""
    bad = rng.random() < 0.4
    odd = odd_choice(rng, bad=bad)
    migrations, assignment = [], []
    for of in instance.experts:
        kinds = [None, None, None if of.resident else "prefetch"]
        kinds += ["localize"] if of.dimm is None else ["stripe", "rebalance"]
        kind = odd(rng.choice(kinds) if of.tokens else None, "prefetch", "stripe", "rebalance")
        dimm = None
        if kind in ("localize", "rebalance"):
            dimm = odd(rng.randrange(instance.dimms), None, instance.dimms)
        if kind == "rebalance" and dimm == of.dimm and not bad:
            kind, dimm = None, None
        if kind is not None:
            number = odd(of.expert, 99)
            migrations += [Migration(expert=number, kind=kind, dimm=dimm)] * odd(1, 2)
        lies = of.dimm is not None if kind in (None, "prefetch") else kind != "stripe"
        able = ["gpu", "cpu", *(["ndp"] if lies else [])]
        assignment.append(odd(rng.choice(able) if of.tokens else None, None, "ndp", "cpu"))
    rng.shuffle(migrations)
    return Solution(
        instance=instance.name,
        migrations=migrations,
        assignment=assignment[: odd(len(assignment), len(assignment) - 1)],
    )


def decided(instance: Instance) -> tuple[Instance, Solution]:
    """Return an instance with a random solution of it."""
    return instance, random_solution(instance, random.Random(f"solution {instance.name}"))


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree(seeds: range) -> None:
    """On random solutions, some of them wrong: valid or not, and the makespan."""
    assert_checkers_agree(map(decided, map(attack, seeds)), judged, 0.15)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree_on_any_numbers(seeds: range) -> None:
    """Numbers of all sizes without a common divisor, sums near the limits of 64 bits."""
    made = (any_numbers("relayout", seed) for seed in seeds)
    assert_checkers_agree(map(decided, made), judged, 0.15)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 20), marks=pytest.mark.slow)])
def test_brute_force_is_both_checkers_optimum(seeds: range) -> None:
    """What the arrays say is what brute force finds."""
    for kind in (*KINDS, *NEWER_KINDS):
        for seed in seeds:
            instance = random_instance(seed, kind, experts=2)
            assert solve(instance, "brute-force").objective == optimum(instance), instance.name


@pytest.mark.parametrize("seeds", [range(8), pytest.param(range(8, 1000), marks=pytest.mark.slow)])
def test_nobody_shares_a_wrong_assumption(seeds: range) -> None:
    """Idle, equal, zero, huge, single, free, tight: every exact method finds the optimum."""
    for instance in map(attack, seeds):
        assert_found(instance, optimum(instance))
