"""Cases with a known answer."""

import random

import numpy as np
import pytest

from tests.rooms.sim import Engine, Resource, critical_path

SEEDS = range(20)


@pytest.mark.parametrize("seed", SEEDS)
def test_independent_tasks_add_up(seed: int) -> None:
    """One resource: starts are prefix sums, the end is the sum, everything is critical."""
    lengths = np.random.default_rng(seed).integers(0, 9, size=12)
    engine = Engine([Resource("a")])
    for length in lengths.tolist():
        engine.add("a", length)
    engine.run()
    timeline = engine.timeline()
    assert timeline.start_ns.tolist() == [0, *lengths.cumsum()[:-1].tolist()]
    assert timeline.makespan_ns == lengths.sum()
    assert set(np.flatnonzero(lengths)) <= set(critical_path(timeline))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_adds_up_on_any_resources(seed: int) -> None:
    """Every task after the one before."""
    rng = random.Random(seed)
    engine = Engine([Resource("a"), Resource("b")])
    lengths = [rng.randint(0, 9) for _ in range(12)]
    for row, length in enumerate(lengths):
        engine.add(rng.choice("ab"), length, after=[row - 1] if row else [])
    engine.run()
    timeline = engine.timeline()
    assert timeline.makespan_ns == sum(lengths)
    assert len(critical_path(timeline)) >= sum(length > 0 for length in lengths)


@pytest.mark.parametrize("seed", SEEDS)
def test_flow_shop_in_given_order(seed: int) -> None:
    """Two machines: the longest "first k on the one, from the k-th on the other"."""
    rng = random.Random(seed)
    jobs = [(rng.randint(1, 9), rng.randint(1, 9)) for _ in range(10)]
    engine = Engine([Resource("link"), Resource("gpu")])
    for first, second in jobs:
        transfer = engine.add("link", first)
        engine.add("gpu", second, after=[transfer])
    engine.run()
    longest = max(
        sum(a for a, _ in jobs[: k + 1]) + sum(b for _, b in jobs[k:]) for k in range(len(jobs))
    )
    assert engine.timeline().makespan_ns == longest


@pytest.mark.parametrize("seed", SEEDS)
def test_fork_and_join(seed: int) -> None:
    """Branches on resources of their own: the longest counts, between head and tail."""
    rng = random.Random(seed)
    lengths = [rng.randint(1, 99) for _ in range(5)]
    engine = Engine(Resource(name) for name in "abcdef")
    head = engine.add("f", 10)
    branches = [
        engine.add(name, length, after=[head])
        for name, length in zip("abcde", lengths, strict=True)
    ]
    tail = engine.add("f", 5, after=branches)
    engine.run()
    timeline = engine.timeline()
    assert timeline.makespan_ns == 10 + max(lengths) + 5
    longest = branches[lengths.index(max(lengths))]
    assert critical_path(timeline) == [head, longest, tail]
