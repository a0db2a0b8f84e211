"""The engine and the checker agree on deferral: tasks and queues against start times."""

import random

import pytest

from tests.problems.deferral.random_schedules import KINDS, random_instance
from tests.rooms.deferral import candidates, objective, uniform, view
from tests.rooms.problems import compare, execute


@pytest.mark.parametrize("seeds", [range(12), pytest.param(range(12, 30), marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", KINDS)
def test_random_schedules_run_as_checked(kind: str, seeds: range) -> None:
    """Any counts in any order of the CPU, started as early as can be."""
    for seed in seeds:
        instance = random_instance(seed, kind).model_copy(update={"max_total_penalty": None})
        found = list(candidates(instance))
        for solution in random.Random(seed).sample(found, min(6, len(found))):
            assert compare(instance, solution).agree, (instance.name, solution)


def test_waiting_without_need_is_executed_as_well() -> None:
    """A schedule that starts everything later ends later, in the engine too."""
    instance = random_instance(1, "equal layers")
    solution = uniform(instance, 0)
    late = {
        kind: tuple(5 * number + start for number, start in enumerate(starts, 1))
        for kind, starts in solution.start_ns
    }
    starts = type(solution.start_ns)(**late)
    later = solution.model_copy(update={"start_ns": starts})
    compared = compare(instance, later)
    assert compared.agree
    assert compared.measured > execute(instance, solution).objective


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_waits_by_itself(kind: str) -> None:
    """Told to start everything at 0, it finds the earliest schedule in the usual order."""
    for seed in range(30):
        instance = random_instance(seed, kind).model_copy(update={"max_total_penalty": None})
        for count in range(instance.max_deferred + 1):
            solution = uniform(instance, count)
            at_once = {name: (0,) * instance.layers for name, _ in solution.start_ns}
            starts = type(solution.start_ns)(**at_once)
            executed = execute(instance, solution.model_copy(update={"start_ns": starts}))
            assert executed.objective == objective(instance, solution), instance.name


@pytest.mark.parametrize("kind", KINDS)
def test_lanes_show_what_the_devices_do(kind: str) -> None:
    """Bars do not overlap, and their lengths sum up to the work there is."""
    for seed in range(10):
        instance = random_instance(seed, kind).model_copy(update={"max_total_penalty": None})
        solution = uniform(instance, instance.max_deferred)
        gpu, cpu = view.lanes(instance, solution)
        work = (
            sum(instance.attention_ns) + sum(instance.shared_ns),
            instance.top_k * sum(instance.expert_cpu_ns),
        )
        for lane, due in zip((gpu, cpu), work, strict=True):
            assert sum(bar.end_ns - bar.start_ns for bar in lane.bars) == due
            ends = [0, *(bar.end_ns for bar in lane.bars)]
            assert all(b.start_ns >= e for b, e in zip(lane.bars, ends, strict=False))
        kinds = {bar.kind for bar in cpu.bars if bar.label.startswith("D")}
        assert kinds <= {"deferred"}
        facts = view.facts(instance, solution)
        assert facts["deferred"] == instance.max_deferred * (instance.layers - 1)
        assert 0 <= facts["gpu_busy_percent"] <= 100  # type: ignore[operator]
