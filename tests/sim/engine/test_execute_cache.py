"""The engine and the checker agree on cache: tasks and queues against sums."""

from pathlib import Path

import pytest

import moeopt
from moeopt.core.json_files import read_object
from moeopt.problems.cache.check import serve
from moeopt.problems.cache.heuristics import HEURISTICS
from moeopt.problems.cache.instance import Instance
from moeopt.problems.execute import compare
from tests.problems.cache.cache_random_instances import KINDS, random_instance

LIBRARY = Path(__file__).parents[3] / "instances" / "cache"
TOKENS = 12


def test_the_library_runs_as_checked() -> None:
    """The beginning of every tenth instance, with the best-known ways of the whole."""
    entries = list(read_object(LIBRARY / "best_known.json").items())
    assert len(entries) >= 30
    for file, entry in entries[::10]:
        whole = moeopt.load(LIBRARY / file)
        assert isinstance(whole, Instance)
        instance = whole.model_copy(update={"accesses": whole.accesses[:TOKENS]})
        compared = compare(instance, moeopt.load_solution(LIBRARY / entry["solution"]))
        assert compared.agree, file


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
