"""The engine and the checker agree on tri_domain: tasks and queues against sums."""

import random

import pytest

from moeopt import InputError
from tests.problems.tri_domain.random_instances import KINDS, random_instance
from tests.rooms.problems import compare, execute
from tests.rooms.tri_domain import Solution, check


@pytest.mark.parametrize("kind", KINDS)
def test_random_assignments_run_as_checked(kind: str) -> None:
    """Hundreds of random instances, each with a random valid assignment."""
    for seed in range(60):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        able = [
            ("gpu", "cpu") if e.dimm is None else ("gpu", "cpu", "ndp") for e in instance.experts
        ]
        chosen = tuple(rng.choice(domains) for domains in able)
        solution = Solution(instance=instance.name, assignment=chosen)
        timeline = execute(instance, solution).timeline
        load = check.loads(instance, solution)
        assert timeline.makespan_ns == load.makespan_ns
        busy = [used.busy_ns for used in timeline.usage()]
        assert busy == [load.gpu_ns, load.cpu_ns, *load.dimm_ns]


@pytest.mark.usefixtures("template_problem")
def test_what_cannot_run_is_refused() -> None:
    """Another instance's solution, an invalid one, a problem without an executor."""
    instance = random_instance(0)
    other = Solution(instance="else", assignment=())
    with pytest.raises(InputError, match="instance: the solution is for 'else'"):
        compare(instance, other)
    nowhere = Solution(instance=instance.name, assignment=(None,) * len(instance.experts))
    with pytest.raises(InputError, match=r"TD-C1: assignment\[0\]: expert \d+ runs nowhere"):
        compare(instance, nowhere)
    foreign = instance.model_copy(update={"problem": "TEMPLATE"})
    with pytest.raises(InputError, match="TEMPLATE cannot be executed: the objective is a sum"):
        execute(foreign, other)
