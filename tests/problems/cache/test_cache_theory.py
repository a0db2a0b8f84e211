"""Constraint deletion, heuristics as their sources word them, policies and the view."""

from fractions import Fraction

import pytest

from benchmarks.papers.collaborative.policies import fifo, probability, random_contents
from moeopt import solve
from tests.problems.agreement import assert_missed
from tests.problems.cache.cache_random_instances import KINDS, random_instance
from tests.rooms.cache import (
    CONSTRAINTS,
    Instance,
    Solution,
    best_uniform,
    greedy_marginal,
    objective,
    proportional,
    serve,
    uniform,
    uniform_ways,
    view,
)

DELETED = [
    random_instance(seed, kind) for seed in range(4) for kind in ("mixed", "reuse", "fetch-bound")
]
SOME = [DELETED[:3], pytest.param(DELETED, marks=pytest.mark.slow)]


@pytest.mark.parametrize("rule", CONSTRAINTS)
@pytest.mark.parametrize("drawn", SOME, ids=["some", "all"])
def test_a_deleted_constraint_is_missed(rule: str, drawn: list[Instance]) -> None:
    """See `assert_missed`."""
    assert_missed(rule, drawn, lambda of: solve(of, "dp").objective)


def paper_like(layers: int = 32, slots: int = 56, tokens: int = 3) -> Instance:
    """Return the shape of the paper's example: 32 layers of 8 experts, two at a time, 56 slots."""
    accesses = [[[0, 1 + t % 2]] * layers for t in range(tokens)]
    costs = {"gpu_ns": 125, "cpu_ns": 3670, "activation_ns": 110, "fetch_ns": 1, "other_ns": 630}
    return Instance(name="paper", layers=layers, experts=8, slots=slots, accesses=accesses, **costs)


def test_the_papers_example() -> None:
    """III-B: 56 slots and 4 ways give 14 indexes, layers 0 to 13."""
    assert uniform_ways(paper_like()).ways == (4,) * 14 + (0,) * 18
    assert uniform_ways(paper_like(slots=3)).ways == (0,) * 32
    assert uniform_ways(paper_like(layers=2)).ways == (4, 4)
    assert uniform_ways(paper_like(), ways="top-k").ways == (2,) * 28 + (0,) * 4
    assert uniform_ways(paper_like(), ways="all layers").ways == (1,) * 32
    assert uniform_ways(paper_like(slots=3), ways="all layers").ways == (0,) * 32


def test_the_best_uniform_ways_are_the_best_of_all() -> None:
    """Every M is tried by the checker; ties go to the smallest."""
    for kind in KINDS:
        for seed in range(5):
            instance = random_instance(seed, kind)
            costs = [
                objective(
                    instance, Solution(instance="x", ways=tuple(uniform(instance, m).tolist()))
                )
                for m in range(instance.experts + 1)
            ]
            best = best_uniform(instance).ways
            assert best == tuple(uniform(instance, costs.index(min(costs))).tolist())


def test_proportional_follows_the_misses() -> None:
    """Layer 0 misses twice as often as layer 1 without a cache: 2 and 1 of three slots.

    Nothing is given to a layer beyond its experts, and nothing where nothing is missed.
    """
    accesses = [[[0, 1], [0], []], [[2, 3], [1], []]]
    costs = {"gpu_ns": 0, "cpu_ns": 1, "activation_ns": 0, "fetch_ns": 0, "other_ns": 0}

    def given(slots: int) -> tuple[int | None, ...]:
        instance = Instance(name="p", layers=3, experts=4, slots=slots, accesses=accesses, **costs)
        return proportional(instance).ways

    assert given(2) == (1, 1, 0)  # quotas 4/3 and 2/3
    assert given(5) == (3, 2, 0)  # share 1: still 4 and 2 misses, quotas 10/3 and 5/3
    assert given(7) == (4, 3, 0)  # 14/3 is above 4; what is left goes to layer 1
    assert given(12) == (4, 4, 0)


def test_greedy_jumps_over_the_first_way() -> None:
    """0 1 0 1...: one way is all cost and no hit, two are worth it."""
    accesses = [[[t % 2]] for t in range(10)]
    costs = {"gpu_ns": 0, "cpu_ns": 10, "activation_ns": 0, "fetch_ns": 15, "other_ns": 0}
    instance = Instance(name="g", layers=1, experts=3, slots=3, accesses=accesses, **costs)
    assert greedy_marginal(instance).ways == (2,)


@pytest.mark.parametrize("kind", KINDS)
def test_policies_against_plain_counting(kind: str) -> None:
    """FIFO at full size is LRU; random contents are an average over all contents of one size."""
    for seed in range(5):
        instance = random_instance(seed, kind)
        full = (instance.experts,) * instance.layers
        served = serve(instance, Solution(instance="x", ways=full))
        outcome = fifo(instance, full)
        assert outcome.hits == sum(layer.hits for layer in served)
        assert outcome.fetches == sum(layer.fetches for layer in served)
        assert outcome.trace_ns == objective(instance, Solution(instance="x", ways=full))
        nothing = (0,) * instance.layers
        plain = objective(instance, Solution(instance="x", ways=nothing))
        assert (
            fifo(instance, nothing).trace_ns == random_contents(instance, nothing).trace_ns == plain
        )
        everything = random_contents(instance, full)
        assert everything.hits == int((instance.ids >= 0).sum())


def test_fifo_by_hand() -> None:
    """0 1 0 2 0 with two ways: 2 pushes out 0, though it was just used; LRU keeps it."""
    accesses = [[[e]] for e in (0, 1, 0, 2, 0)]
    costs = {"gpu_ns": 1, "cpu_ns": 10, "activation_ns": 0, "fetch_ns": 2, "other_ns": 0}
    instance = Instance(name="f", layers=1, experts=3, slots=2, accesses=accesses, **costs)
    assert fifo(instance, (2,)).hits == 1
    assert fifo(instance, (2,)).trace_ns == 41
    assert serve(instance, Solution(instance="f", ways=(2,)))[0].hits == 2


@pytest.mark.parametrize("ways", range(9))
def test_random_contents_are_the_papers_closed_forms(ways: int) -> None:
    """IV-D, n = 8, two experts per token: at least one hit, and both."""
    n = 8
    some = 1 - Fraction(n - ways, n) * Fraction(n - ways - 1, n - 1)
    both = Fraction(ways, n) * Fraction(ways - 1, n - 1)
    assert 1 - probability(n, ways, 2, 0) == some
    assert probability(n, ways, 2, 2) == both
    instance = paper_like(layers=2, tokens=4)
    outcome = random_contents(instance, (ways, ways))
    assert outcome.hits == 8 * (some + both)
    miss, half, hit = (instance.costs.lookup_ns(h, 2 - h) for h in range(3))
    assert outcome.trace_ns == 8 * ((1 - some) * miss + (some - both) * half + both * hit)


def test_the_view_adds_up() -> None:
    """The later lane ends with the objective; facts are those of the plan."""
    instance = random_instance(3, "reuse")
    solution = greedy_marginal(instance)
    lanes = view.lanes(instance, solution)
    assert max(lane.end_ns for lane in lanes) == objective(instance, solution)
    facts = view.facts(instance, solution)
    assert facts["bottleneck"] == max(lanes, key=lambda lane: lane.end_ns).device
    assert facts["slots_used"] == sum(ways or 0 for ways in solution.ways)
    served = serve(instance, solution)
    assert facts["fetches"] == sum(layer.fetches for layer in served)
    assert facts["hits_permille"] == 1000 * sum(s.hits for s in served) // int(
        (instance.ids >= 0).sum()
    )
