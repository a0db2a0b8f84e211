"""The engine and the checker agree on placement: tasks and queues against sums."""

import pytest

from moeopt.problems.execute import compare
from moeopt.problems.placement.heuristics import HEURISTICS
from tests.problems.placement.placement_random_instances import (
    FREE_KINDS,
    KINDS,
    random_instance,
)


@pytest.mark.parametrize("kind", [*KINDS, *FREE_KINDS])
def test_random_placements_run_as_checked(kind: str) -> None:
    """Every heuristic's placement; each expert with tokens is one task on one side."""
    for seed in range(4):
        instance = random_instance(seed, kind)
        tasks = sum(len(layer) for step in instance.steps for layer in step)
        for heuristic in HEURISTICS.values():
            if (solution := heuristic(instance)) is None:
                continue
            compared = compare(instance, solution)
            assert compared.agree, (instance.name, solution)
            usage = {used.resource: used.tasks for used in compared.timeline.usage()}
            assert usage["GPU"] + usage["offload"] == tasks
