"""The oracle against hand computation, and every exact method against the oracle."""

from collections import Counter
from typing import Any

import pytest

from tests.problems.agreement import assert_agreement, assert_anchors, assert_starts_help
from tests.problems.deferral.random_schedules import KINDS, random_instance
from tests.rooms.deferral import (
    HEURISTICS,
    Instance,
    candidates,
    count,
    front,
    objective,
    schedule,
    uniform,
    violations,
)

PER_KIND = 45
SHARES = [range(2), pytest.param(range(2, PER_KIND), marks=pytest.mark.slow)]


def small(**changes: Any) -> Instance:
    """Return two experts per layer, one of them deferrable, and times that a test overrides."""
    data: dict[str, Any] = {"layers": 2, "top_k": 2, "min_immediate": 1, "penalty": [0, 1]}
    data |= {"attention_ns": 0, "shared_ns": 0, "sync_ns": 0, "expert_cpu_ns": 0}
    return Instance(name="small", **(data | changes))


ANCHORS: dict[str, tuple[dict[str, Any], tuple[int, int]]] = {
    # One layer: A 10, then S 5 beside hand-over 2 and both experts 2 x 3. Nothing is handed over
    # at the end: 10 + 2 + 6 = 18.
    "one layer": (
        {"layers": 1, "attention_ns": 10, "shared_ns": 5, "sync_ns": 2, "expert_cpu_ns": 3},
        (18, 0),
    ),
    # Nothing deferred: 10 + 2 + 6 + 2 + 10 + 2 + 6 = 38. One deferred: A[1] starts at 17 not 20;
    # the CPU has done D[0] by 18 and waits for 29: 35.
    "one expert hides behind attention": (
        {"attention_ns": 10, "shared_ns": 5, "sync_ns": 2, "expert_cpu_ns": 3},
        (35, 1),
    ),
    # Shared experts hold A[1] until 10 + 20 = 30 whatever is deferred: then deferring is in vain.
    "shared experts hold the GPU": (
        {"attention_ns": 10, "shared_ns": 20, "sync_ns": 2, "expert_cpu_ns": 3},
        (60, 0),
    ),
    # The CPU is all there is: 2 x 2 experts of 3, after no attention at all.
    "only the CPU": ({"expert_cpu_ns": 3}, (12, 0)),
    # A 4; I[0] 4-14, D[0] to 24; A[1] 14-18, its experts from 24 to 44. Not deferred: I[0] 4-24,
    # A[1] to 28, experts to 48.
    "the CPU never waits": ({"attention_ns": 4, "expert_cpu_ns": 10}, (44, 1)),
    # As the second case, but deferring is forbidden.
    "a limit of nothing": (
        {"attention_ns": 10, "shared_ns": 5, "sync_ns": 2, "expert_cpu_ns": 3}
        | {"max_total_penalty": 0},
        (38, 0),
    ),
    # Hand-overs of 0, 9 and 0; else only experts take time, 1 each. I[0] 0-1, A[1] at 1, I[1] from
    # 10 to 11, A[2] at 11 + 9 = 20, both experts to 22. Deferring less in either layer adds 1.
    "a long hand-over in the middle": (
        {"layers": 3, "attention_ns": 0, "sync_ns": [0, 9, 0], "expert_cpu_ns": 1},
        (22, 2),
    ),
    # Layer 1 has nothing on the CPU and a long hand-over. I[0] 1-31, D[0] to 61, A[1] 31-32, A[2]
    # from 61 (D[0]; by layer 1 from 32 + 18 = 50). I[2] 62-63, D[2] to 64, A[3] 63-64, experts 66.
    "a layer without work on the CPU": (
        {"layers": 4, "attention_ns": 1, "sync_ns": [0, 9, 0, 0], "expert_cpu_ns": [30, 0, 1, 1]},
        (66, 2),
    ),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors({name: (small(**times), best) for name, (times, best) in ANCHORS.items()})


def test_the_oracle_leaves_nothing_out() -> None:
    """Three layers: I0, I1, I2 in this order, D0 before I2, which waits for it, D1 behind I0."""
    instance = small(layers=3, attention_ns=1, expert_cpu_ns=1, sync_ns=1, shared_ns=1)
    found = list(candidates(instance))
    assert len(found) == count(instance)
    by_counts = Counter(candidate.deferred[:2] for candidate in found)
    assert by_counts == {(0, 0): 1, (0, 1): 3, (1, 0): 3, (1, 1): 11}  # enumerated by hand


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_every_method_agrees_with_brute_force(kind: str, seeds: range) -> None:
    """Of every kind, some infeasible, where no rule finds anything; see `assert_agreement`."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        status = assert_agreement(instance)
        for name, heuristic in HEURISTICS.items():
            assert (heuristic(instance) is None) == (status == "infeasible"), (instance.name, name)


@pytest.mark.parametrize("seeds", SHARES)
@pytest.mark.parametrize("kind", KINDS)
def test_the_front_is_the_oracles(kind: str, seeds: range) -> None:
    """All undominated pairs of brute force, and no others; solutions are valid and cost that."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        pairs = {
            objective(instance, c) for c in candidates(instance) if not violations(instance, c)
        }
        best = sorted(
            (t, p)
            for t, p in pairs
            if not any(o != (t, p) and o[0] <= t and o[1] <= p for o in pairs)
        )
        points = front(instance)
        assert [point.objective for point in points] == best, instance.name
        for point in points:
            assert violations(instance, point.solution) == []
            assert objective(instance, point.solution) == point.objective


@pytest.mark.parametrize("kind", KINDS)
def test_the_earliest_schedule_is_valid_for_any_counts(kind: str) -> None:
    """The usual order, as early as can be; the oracle has it as a candidate."""
    for seed in range(20):
        instance = random_instance(seed, kind)
        unlimited = instance.model_copy(update={"max_total_penalty": None})
        known = {(c.deferred, objective(unlimited, c)[0]) for c in candidates(unlimited)}
        for d in range(instance.max_deferred + 1):
            made = uniform(unlimited, d)
            assert violations(unlimited, made) == []
            assert (made.deferred, objective(unlimited, made)[0]) in known
            assert made == schedule(unlimited, made.deferred)


@pytest.mark.parametrize("seeds", [range(1), pytest.param(range(1, 8), marks=pytest.mark.slow)])
def test_starting_solutions_change_nothing_but_time(seeds: range) -> None:
    """With the start and the bound the answer is the same."""
    assert_starts_help(random_instance(seed, kind) for kind in KINDS for seed in seeds)
