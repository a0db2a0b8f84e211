"""Engine and checker agree on balance: slices one by one against sums and Johnson's rule."""

import random

import pytest

from tests.problems.balance.balance_random_instances import KINDS, random_instance
from tests.rooms.balance import Solution, check, lanes
from tests.rooms.problems import execute


@pytest.mark.parametrize("kind", KINDS)
def test_random_counts_run_as_checked(kind: str) -> None:
    """Hundreds of random instances, each with a random valid solution; the picture ends there."""
    for seed in range(60):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        most = instance.slices_per_unit
        rows = [
            [rng.choice([0, most, rng.randint(0, most)]) for _ in range(instance.ndp_units)]
            for _ in instance.experts
        ]
        solution = Solution(instance=instance.name, gpu_slices=rows)
        timeline = execute(instance, solution).timeline
        assert timeline.makespan_ns == check.objective(instance, solution)
        both = check.sides(instance, solution)
        busy = {used.resource: used.busy_ns for used in timeline.usage()}
        assert [busy[f"NDP {u}"] for u in range(instance.ndp_units)] == list(both.units_ns)
        assert max(lane.end_ns for lane in lanes(instance, solution)) == timeline.makespan_ns
