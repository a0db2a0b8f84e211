"""Two checkers against each other, and every method where shared assumptions would fail."""

import random

import pytest

from tests.mathprog.solve import solve
from tests.problems.agreement import (
    assert_checkers_agree,
    assert_found,
    exact,
    odd_choice,
)
from tests.problems.instances_to_break import any_numbers
from tests.problems.layout.by_arrays import best, judged
from tests.problems.layout.layout_random_instances import attack
from tests.rooms.layout import Copies, Instance, Solution, violations


def random_solution(instance: Instance, rng: random.Random) -> Solution:
    """Return a random solution, wrong in one place or more every other time."""
    experts, dimms = instance.experts, instance.dimms
    most = instance.copies.max_per_expert if instance.copies else 1
    bad = rng.random() < 0.5
    odd = odd_choice(rng, bad=bad)
    places = []
    for _ in range(experts):
        number = odd(rng.randint(1, min(most, 1 + dimms)), min(most + 1, 1 + dimms))
        places.append(sorted(rng.sample(range(1 + dimms), number)))
    resident = [rng.random() < instance.hbm_slots / experts for _ in range(experts)]
    if not bad:
        resident = [of and sum(resident[:e]) < instance.hbm_slots for e, of in enumerate(resident)]
    assignment, source = [], []
    for scenario in instance.scenarios:
        domains, sources = [], []
        for tokens, lies in zip(scenario.tokens, places, strict=True):
            at = rng.choice(lies)
            able = ("gpu", "cpu", "ndp") if at else ("gpu", "cpu")
            busy = odd(tokens > 0, tokens == 0)
            domains.append(odd(rng.choice(able), "ndp") if busy else None)
            sources.append(odd(None if at == lies[0] else at - 1, 0))
        assignment.append(domains)
        source.append(sources)
    return Solution(
        instance=instance.name,
        resident=resident[: odd(experts, experts - 1)],
        dimm=[odd(of[0] - 1 if of[0] else None, dimms) for of in places],
        assignment=assignment[: odd(len(assignment), len(assignment) - 1)],
        copies=[[p - 1 for p in of[1:]] for of in places] if instance.copies else None,
        source=source if instance.copies else None,
    )


def decided(instance: Instance) -> tuple[Instance, Solution]:
    """Return an instance with a random solution of it."""
    return instance, random_solution(instance, random.Random(f"solution {instance.name}"))


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree(seeds: range) -> None:
    """On random solutions, half of them wrong somewhere: valid or not, and the objective."""
    assert_checkers_agree(map(decided, map(attack, seeds)), judged, 0.2)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree_on_any_numbers(seeds: range) -> None:
    """Numbers of all sizes without a common divisor, sums near the limits of 64 bits."""
    made = (any_numbers("layout", seed) for seed in seeds)
    assert_checkers_agree(map(decided, made), judged, 0.15)


@pytest.mark.parametrize("seeds", [range(3), pytest.param(range(3, 1000), marks=pytest.mark.slow)])
def test_nobody_shares_a_wrong_assumption(seeds: range) -> None:
    """Idle, equal, zero, huge, single, falling, tight: every exact method finds the optimum."""
    for instance in map(attack, seeds):
        value, solution = best(instance)
        assert violations(instance, solution) == [], instance.name
        assert_found(instance, value)


@pytest.mark.parametrize("method", ["brute-force", *exact("layout")])
def test_an_idle_expert_makes_room(method: str) -> None:
    """On DIMM 0 it leaves DIMM 1's two bytes to the other one, which NDP then runs in 1."""
    host = [[100, 100]]
    instance = Instance.from_arrays(
        tokens=[[0, 1]],
        gpu_hit_ns=host,
        gpu_miss_striped_ns=host,
        gpu_miss_localized_ns=host,
        cpu_striped_ns=host,
        cpu_localized_ns=host,
        ndp_ns=[[1, 1]],
        dimms=2,
        hbm_slots=0,
        dram_striped_ns=0,
        dram_localized_ns=0,
        copies=Copies(max_per_expert=1, expert_bytes=2, dimm_bytes=2),
    )
    result = solve(instance, method)
    assert (result.status, result.objective, result.bound) == ("optimal", 1, 1)
    assert result.solution.dimm in ((0, 1), (1, 0))
