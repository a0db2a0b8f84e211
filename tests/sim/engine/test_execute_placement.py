"""The engine and the checker agree on placement: tasks and queues against sums."""

from pathlib import Path

import pytest

import moeopt
from moeopt.core.json_files import read_object
from moeopt.problems.execute import compare
from moeopt.problems.placement.heuristics import HEURISTICS
from moeopt.problems.placement.instance import Instance, Solution, for_other_steps
from tests.problems.placement.placement_random_instances import (
    FREE_KINDS,
    KINDS,
    random_instance,
)

LIBRARY = Path(__file__).parents[3] / "instances" / "placement"
STEPS = 3


@pytest.mark.parametrize("first", [0, pytest.param(5, marks=pytest.mark.slow)])
def test_the_library_runs_as_checked(first: int) -> None:
    """The first steps of every fifth instance, with the best-known placement of the whole."""
    entries = list(read_object(LIBRARY / "best_known.json").items())
    assert len(entries) >= 30
    for file, entry in entries[first::10]:
        whole = moeopt.load(LIBRARY / file)
        assert isinstance(whole, Instance)
        instance = whole.model_copy(update={"steps": whole.steps[:STEPS]})
        solution = moeopt.load_solution(LIBRARY / entry["solution"])
        assert isinstance(solution, Solution)
        compared = compare(instance, for_other_steps(instance, solution))
        assert compared.agree, file


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
