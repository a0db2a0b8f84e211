"""The engine and the checker agree on relayout: tasks on links and devices against sums."""

import random

import pytest

from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.rooms.problems import execute
from tests.rooms.relayout import HEURISTICS, Instance, Solution, candidates, check, facts, lanes


def valid_solutions(instance: Instance, seed: int) -> list[Solution]:
    """Return some of the oracle's candidates that the checker allows."""
    rng = random.Random(seed)
    some = [c for c in candidates(instance) if not c.migrations or rng.random() < 0.05]
    return [c for c in some if not check.violations(instance, c)][:20]


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(15), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [*KINDS, *NEWER_KINDS])
def test_random_solutions_run_as_checked(kind: str, seeds: range) -> None:
    """Every device is as busy as the checker says, and so it is in the view."""
    ran = 0
    for seed in seeds:
        instance = random_instance(seed, kind, experts=3)
        for solution in valid_solutions(instance, seed):
            timeline = execute(instance, solution).timeline
            load = check.loads(instance, solution)
            assert timeline.makespan_ns == load.makespan_ns
            busy = [used.busy_ns for used in timeline.usage()]
            more = ([load.pcie_ns] if instance.two_parts else []) + [*load.channel_ns]
            assert busy == [load.gpu_ns, load.cpu_ns, *load.dimm_ns, *more]
            assert [lane.end_ns for lane in lanes(instance, solution)] == busy
            ran += 1
    assert ran >= 50 / 15 * len(seeds)


def test_facts_count_the_migrations() -> None:
    """By kind, and the bottleneck as in tri_domain."""
    instance = random_instance(4, "wide windows", experts=9)
    solution = HEURISTICS["benefit-greedy"](instance)
    found = facts(instance, solution)
    kinds = ("prefetch", "localize", "stripe", "rebalance")
    assert sum(int(found[kind]) for kind in kinds) == len(solution.migrations) > 0
    assert found["bottleneck"] in ("gpu", "cpu", "dimm")
