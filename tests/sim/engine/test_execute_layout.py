"""The engine and the checker agree on layout: tasks and queues against sums."""

import random

import pytest

from tests.problems.layout.layout_random_instances import KINDS, random_instance, with_schema_2
from tests.rooms.layout import Domain, Instance, Solution, check, lanes
from tests.rooms.problems import execute
from tests.rooms.sim import Timeline


def random_solution(instance: Instance, rng: random.Random) -> Solution:
    """Return a solution that is valid but for the slots, which the engine does not look at."""
    active = [any(s.tokens[row] for s in instance.scenarios) for row in range(instance.experts)]
    resident = tuple(on and rng.random() < 0.4 for on in active)
    dimm = tuple(
        rng.randrange(instance.dimms) if on and rng.random() < 0.6 else None for on in active
    )

    def domain(row: int, tokens: int) -> Domain | None:
        able: tuple[Domain, ...] = ("gpu", "cpu") if dimm[row] is None else ("gpu", "cpu", "ndp")
        return rng.choice(able) if tokens else None

    assignment = tuple(
        tuple(domain(row, tokens) for row, tokens in enumerate(s.tokens))
        for s in instance.scenarios
    )
    return Solution(instance=instance.name, resident=resident, dimm=dimm, assignment=assignment)


def busy_ns(timeline: Timeline) -> list[int]:
    """Return how long each device was busy; what stands between scenarios is none."""
    return [used.busy_ns for used in timeline.usage() if used.idle_ns is not None]


@pytest.mark.parametrize("newer", [False, True], ids=["schema 1", "schema 2"])
@pytest.mark.parametrize("kind", KINDS)
def test_random_solutions_run_as_checked(kind: str, newer: bool) -> None:
    """Every device as the sums say: channels, PCIe and the base load too; and so are they drawn."""
    for seed in range(35):
        base = random_instance(seed, kind)
        instance = with_schema_2(base, seed) if newer else base
        solution = random_solution(instance, random.Random(seed))
        executed = execute(instance, solution)
        load = check.loads(instance, solution)
        assert executed.objective == check.objective(instance, solution), instance.name
        assert executed.timeline.makespan_ns == sum(of.makespan_ns for of in load)
        rows = [
            [of.gpu_ns, of.cpu_ns, *of.dimm_ns, *of.channel_ns]
            + ([of.pcie_ns] if instance.in_two_parts else [])
            for of in load
        ]
        busy = busy_ns(executed.timeline)
        assert busy == [sum(of) for of in zip(*rows, strict=True)], instance.name
        drawn = [
            sum(bar.end_ns - bar.start_ns for bar in lane.bars)
            for lane in lanes(instance, solution)
        ]
        assert drawn == [ns for row in rows for ns in row], instance.name
