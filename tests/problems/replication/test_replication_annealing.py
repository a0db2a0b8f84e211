"""Annealing: books that are kept over any moves, and placements that keep the rules."""

import numpy as np
import pytest

from tests.problems.replication.replication_random_instances import exchanged, walked
from tests.rooms.algorithms import seeded
from tests.rooms.core import Search
from tests.rooms.replication import (
    Instance,
    annealing,
    objective,
    violations,
)
from tests.shares import first

Arrays = annealing.Arrays


def start(instance: Instance) -> annealing.Solution:
    """Return one copy of each expert, one device after the other."""
    rows = [[expert % instance.devices] for expert in range(instance.experts)]
    return annealing.Solution(instance=instance.name, copies=tuple(map(tuple, rows)))


@pytest.mark.parametrize("seed", first(3, [*range(6)]))
def test_books_are_kept_while_walking(seed: int) -> None:
    """After any moves loads, times and cost are those of the placement made anew."""
    instance = walked(seed, split="even")
    arrays, begin = Arrays.of(instance), start(instance)
    costs, walk = (
        arrays.costs_of(),
        annealing.CopyWalk(held := arrays.held(begin), arrays.nothing()),
    )
    annealing.anneal(costs, walk, seeded(seed), [float(held.cost[0])], 3000)
    assert (held.slot != annealing.slots_of(instance, begin)).any()
    again = arrays.held(annealing.solution_of(instance, held.slot))
    for name in ("copies", "load", "reads", "time"):
        assert np.array_equal(getattr(held, name), getattr(again, name)), (name, seed)
    for n, kept, made in zip(held.copies, held.where, again.where, strict=True):
        assert kept[:n].tolist() == made[:n].tolist()
    assert held.cost[0] == again.cost[0]
    assert (held.time[held.slowest, range(held.time.shape[1])] == held.time.max(axis=0)).all()
    found = annealing.solution_of(instance, held.best)
    assert violations(instance, found) == []
    assert arrays.held(found).cost[0] == held.cost[1]


@pytest.mark.parametrize("seed", range(3))
def test_arrays_have_one_layout(seed: int) -> None:
    """Of one window or several: for arrays in another order Numba compiles all kernels anew."""
    costs = Arrays.of(walked(seed)).costs_of()
    assert all(np.asarray(of).flags.c_contiguous for of in costs)


@pytest.mark.parametrize("seed", range(4))
def test_a_walk_finds_what_the_checker_confirms(seed: int) -> None:
    """No worse than its start by the checker's objective, and the same for the same seed."""
    instance = walked(seed, split="even")
    arrays, first = Arrays.of(instance), start(instance)
    found, again = (arrays.walked(first, 20_000, 3, lambda: False, 1e-2) for _ in range(2))
    assert violations(instance, found) == []
    assert found == again
    assert objective(instance, found) < objective(instance, first)


def test_books_are_kept_while_exchanging() -> None:
    """After any exchanges levels and sums are those of the placement made anew."""
    instance = exchanged(1)
    arrays, first = Arrays.of(instance), start(instance)
    of, at, _ = arrays.exchanges(first, first)
    annealing.exchange(of, at, seeded(5), [1e9], 20_000)
    placed = annealing.solution_of(instance, at.slot)
    assert violations(instance, placed) == []
    assert placed.copies != first.copies
    assert np.allclose(at.level, arrays.levels(placed)[2])
    kept = at.energy.copy()
    annealing.add_up(of, at)
    assert np.allclose(kept, at.energy)


def test_exchanges_find_what_the_checker_confirms() -> None:
    """Better than their start by the checker's objective."""
    instance = exchanged(1)
    arrays, first, search = Arrays.of(instance), start(instance), Search(limit_s=1.0)
    search.offer(first, objective(instance, first))
    found = arrays.exchanged(first, 0.02, search)
    assert violations(instance, found) == []
    assert objective(instance, found) < objective(instance, first)
