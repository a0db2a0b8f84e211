"""Residents chosen once for many steps: against all choices, on small cases."""

from itertools import combinations, product

import numpy as np
import pytest

from tests.rooms.systems import StepPaths, best_residents


def step_ns(step: StepPaths, resident: set[int]) -> int:
    """Return the least that a step takes: all paths of all experts are tried.

    As many others as the step has come ahead of time, whichever are the best.
    """
    paths, devices, experts = step.cost_ns.shape
    others = [expert for expert in range(experts) if expert not in resident]
    least = None
    for ahead in combinations(others, min(step.extra, len(others))):
        there = resident | set(ahead)
        for choice in product(range(paths), repeat=experts):
            if all(path or expert in there for expert, path in enumerate(choice)):
                busy = [
                    int(step.base_ns[device])
                    + sum(int(step.cost_ns[choice[e], device, e]) for e in range(experts))
                    for device in range(devices)
                ]
                least = max(busy) if least is None else min(least, max(busy))
    assert least is not None
    return least


@pytest.mark.parametrize("seed", range(40))
def test_no_residents_are_below_the_bound(seed: int) -> None:
    rng = np.random.default_rng(seed)
    experts, slots = 4, int(rng.integers(0, 4))
    steps = []
    for _ in range(int(rng.integers(1, 4))):
        cost = rng.integers(0, 60, (3, 3, experts)) * (rng.random((3, 3, experts)) < 0.6)
        cost[:, :, rng.random(experts) < 0.3] = 0
        steps.append(StepPaths(cost, rng.integers(0, 30, 3), int(rng.integers(0, 2))))
    least = min(
        sum(step_ns(step, set(chosen)) for step in steps)
        for chosen in combinations(range(experts), slots)
    )
    found = best_residents(steps, slots)
    assert int(found.resident.sum()) == slots
    assert found.bound_ns <= least
    assert found.bound_ns >= least / 3  # a step's devices are three: their mean is no less


def test_uploads_that_a_link_waits_for_are_saved_for_the_most_frequent() -> None:
    """Where the link decides, bound and residents are exact."""
    active = np.array([[1, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 0], [0, 1, 1, 0]])
    steps = [
        StepPaths(np.array([[row, 0 * row], [row, 100 * row]]), np.array([2, 0])) for row in active
    ]
    found = best_residents(steps, 2)
    assert found.resident.tolist() == [True, True, False, False]
    assert found.bound_ns == 100 * (1 + 1 + 0 + 1) + 4  # the third step uploads nothing


def test_with_room_for_all_nothing_is_uploaded() -> None:
    cost = np.array([[[3, 4]], [[30, 40]]])
    assert best_residents([StepPaths(cost, np.array([5]))] * 2, 2).bound_ns == 2 * 12
