"""The engine and the checker agree on cache: tasks and queues against sums."""

import pytest

from moeopt.problems.cache.check import serve
from moeopt.problems.cache.heuristics import HEURISTICS
from moeopt.problems.execute import compare
from tests.problems.cache.cache_random_instances import KINDS, random_instance


@pytest.mark.parametrize("kind", KINDS)
def test_random_plans_run_as_checked(kind: str) -> None:
    """Every heuristic's ways; copies are as many as the checker's fetches, one by one."""
    for seed in range(6):
        instance = random_instance(seed, kind)
        for heuristic in HEURISTICS.values():
            solution = heuristic(instance)
            compared = compare(instance, solution)
            assert compared.agree, (instance.name, solution)
            usage = {used.resource: used for used in compared.timeline.usage()}
            fetches = sum(layer.fetches for layer in serve(instance, solution))
            assert usage["copies"].tasks == fetches
            assert usage["copies"].busy_ns == fetches * instance.fetch_ns
