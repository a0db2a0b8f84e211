"""The checker of each problem against a second one, which somebody else wrote from the spec."""

import random
from itertools import cycle, islice

import pytest

from tests.problems.instances_to_break import MAKERS
from tests.problems.second_checkers import SECOND
from tests.rooms.problems import get_problem

SHARES = [range(80), pytest.param(range(80, 10_000), marks=pytest.mark.slow)]
CLAIMED = {"PL-C6", "PL-C7", "PL-C8", "JT-C6", "JT-C7", "JT-C8", "JT-C9", "CA-C3", "CA-C4"}
CLAIMED |= {"DE-C8", "BA-C2", "BA-C3", "RP-C5", "RP-C6", "RP-C8", "SP-C5", "SP-C6", "TH-C3"}
"""Rules that hold a solution to a claim; without one there is nothing to break."""

SHAPE = {"PL-C1", "JT-C1", "CA-C1", "BW-C1", "DE-C1", "BA-C1"}
"""Rules that random decisions keep, all or in part: they are of the right shape."""


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("problem", SECOND)
def test_both_checkers_say_the_same(problem: str, seeds: range) -> None:
    """Objective and broken rules, on instances of every kind; each rule is broken by some."""
    check = get_problem(problem)
    answer, decide = SECOND[problem]
    makers = MAKERS[problem]
    order = cycle([kind for other in makers for kind in ("edges", other)])
    seen: set[str] = set()
    valid = 0
    for seed, kind in zip(seeds, islice(order, len(seeds)), strict=True):
        rng = random.Random(f"{problem} {seed}")
        instance = makers[kind](seed)
        for _ in range(2):
            solution = decide(rng, instance)
            broken = {rule for rule, _ in check.violations(instance, solution)}
            found = check.objective(instance, solution), broken
            assert found == answer(instance, solution), (kind, seed, solution)
            seen |= broken
            valid += not broken
    assert seen >= set(check.constraints()) - CLAIMED - SHAPE
    assert valid
