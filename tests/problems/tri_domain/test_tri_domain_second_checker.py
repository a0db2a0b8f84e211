"""Two checkers against each other, and every method where shared assumptions would fail."""

import random

import pytest

import moeopt
from tests.problems.agreement import assert_checkers_agree, assert_found, odd_choice
from tests.problems.instances_to_break import any_numbers
from tests.problems.tri_domain.by_arrays import judged
from tests.problems.tri_domain.random_instances import attack, least_makespan, random_instance
from tests.rooms.tri_domain import Instance, Solution


def random_solution(instance: Instance, rng: random.Random) -> Solution:
    """Return a random solution, wrong in one place or more every other time."""
    bad = rng.random() < 0.5
    odd = odd_choice(rng, bad=bad)
    source, assignment = [], []
    for of in instance.experts:
        lie = rng.choice([of, *(of.copies or ())])
        able = ["gpu", "cpu", *([] if lie.dimm is None else ["ndp"])]
        assignment.append(odd(rng.choice(able), None, "ndp"))
        source.append(odd(None if lie is of else lie.dimm, 0, instance.dimms))
    return Solution(
        instance=instance.name,
        assignment=assignment[: odd(len(assignment), len(assignment) - 1)],
        source=source if instance.has_copies or bad else None,
    )


def decided(instance: Instance) -> tuple[Instance, Solution]:
    """Return an instance with a random solution of it."""
    return instance, random_solution(instance, random.Random(f"solution {instance.name}"))


@pytest.mark.parametrize("seeds", [range(100), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree(seeds: range) -> None:
    """On random solutions, half of them wrong somewhere: valid or not, and the makespan."""
    # The checker adds up many experts with arrays of its own.
    made = (attack(seed) if seed % 4 else random_instance(seed, experts=64) for seed in seeds)
    assert_checkers_agree(map(decided, made), judged, 0.2)


@pytest.mark.parametrize("seeds", [range(40), pytest.param(range(9000), marks=pytest.mark.slow)])
def test_two_checkers_agree_on_any_numbers(seeds: range) -> None:
    """Numbers of all sizes without a common divisor, sums near the limits of 64 bits."""
    made = (any_numbers("tri_domain", seed) for seed in seeds)
    assert_checkers_agree(map(decided, made), judged, 0.15)


@pytest.mark.parametrize(
    "seeds", [range(15), pytest.param(range(15, 2000), marks=pytest.mark.slow)]
)
def test_nobody_shares_a_wrong_assumption(seeds: range) -> None:
    """Equal, zero, huge, single, dominated: every exact method finds the optimum."""
    for instance in map(attack, seeds):
        assert_found(instance, least_makespan(instance))


def test_cp_sat_does_not_end_the_process() -> None:
    """Its substitutions in presolve did (OR-tools 9.15), after a start from a rule's solution."""
    result = moeopt.solve(attack(2037), "cp-sat", work_limit=5)
    assert (result.status, result.objective) == ("optimal", least_makespan(attack(2037)))
