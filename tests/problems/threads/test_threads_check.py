"""The checker refuses what each rule forbids; both checkers agree on random decisions."""

import random
from typing import Any

import pytest

from moeopt import InputError
from tests.problems.threads.second_checker import threads_answer, threads_decision
from tests.problems.threads.threads_random_instances import KINDS, random_instance
from tests.rooms.threads import Instance, Solution, ends_ns, objective, violations

DATA: dict[str, Any] = {
    "name": "two",
    "threads": 2,
    "pull_ns": 1,
    "grains": [1, 2],
    "experts": [
        {"expert": 0, "load_ns": 5, "part_ns": [40, 21]},
        {"expert": 7, "load_ns": 3, "part_ns": [9, None]},
    ],
}
INSTANCE = Instance.model_validate(DATA)


def judged(grain: Any, thread: Any, claim: int | None = None) -> list[str]:
    """Return the rules that a decision breaks."""
    solution = Solution(instance="two", grain=grain, thread=thread)
    return [rule for rule, _ in violations(INSTANCE, solution, claim)]


def test_a_valid_solution() -> None:
    """Halves: 22 + 5 on each thread, and 10 + 3 more on the second."""
    solution = Solution(instance="two", grain=[1, 0], thread=[[0, 1], [1]])
    assert ends_ns(INSTANCE, solution) == [27, 40]
    assert objective(INSTANCE, solution) == 40
    assert violations(INSTANCE, solution, 40) == []
    found = violations(INSTANCE, solution, 39)
    assert found == [("TH-C3", "thread 1 ends at 40 ns, past the claimed makespan of 39 ns")]


def test_a_load_counts_once_for_a_thread() -> None:
    """Both halves on thread 0: 22 + 22 + 5."""
    solution = Solution(instance="two", grain=[1, 0], thread=[[0, 0], [1]])
    assert ends_ns(INSTANCE, solution) == [49, 13]


@pytest.mark.parametrize(
    ("grain", "thread", "rules"),
    [
        ([1, 1], [[0, 1], [1, 0]], ["TH-C1"]),  # expert 7 has no halves
        ([2, 0], [[0, 1], [1]], ["TH-C1"]),  # no such grain
        ([1], [[0, 1], [1]], ["TH-C1"]),
        ([1, 0, 0], [[0, 1], [1]], ["TH-C1"]),
        ([1, 0], [[0], [1]], ["TH-C2"]),  # a part runs nowhere
        ([1, 0], [[0, 1, 1], [1]], ["TH-C2"]),  # and one too many
        ([1, 0], [[0, 1]], ["TH-C2"]),
        ([1, 0], [[0, 1], [1], []], ["TH-C2"]),
        ([1, 0], [[0, 2], [1]], ["TH-C2"]),  # no such thread
        ([], [], ["TH-C1", "TH-C2"]),
    ],
)
def test_what_is_wrong_is_named(grain: Any, thread: Any, rules: list[str]) -> None:
    assert judged(grain, thread) == rules


@pytest.mark.parametrize("kind", KINDS)
def test_the_checkers_agree(kind: str) -> None:
    """On decisions drawn at random, and on those that are spoilt."""
    valid = 0
    for seed in range(40):
        instance, rng = random_instance(seed, kind), random.Random(seed)
        solution = threads_decision(rng, instance)
        value, broken = threads_answer(instance, solution)
        assert value == objective(instance, solution)
        assert {rule for rule, _ in violations(instance, solution)} == broken
        assert {rule for rule, _ in violations(instance, solution, value)} == broken
        below = {rule for rule, _ in violations(instance, solution, value - 1)}
        assert below == broken | {"TH-C3"}
        valid += not broken
    assert 20 < valid < 40


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"threads": 0}, "threads: must be at least 1, not 0"),
        ({"grains": [1, 0]}, r"grains\[1\]: must be at least 1, not 0"),
        ({"grains": [1]}, r"experts\[0\].part_ns: must have 1 entries, one for each grain, not 2"),
        ({"pull_ns": -1}, "pull_ns: must be at least 0, not -1"),
        ({"pull_ns": 1.5}, "pull_ns: must be an integer"),
        ({"experts": []}, "experts: .* should have at least 1 item"),
        (
            {"experts": [DATA["experts"][0], DATA["experts"][0]]},
            r"experts\[1\].expert: 0 stands already in experts\[0\]",
        ),
        (
            {"experts": [{"expert": 0, "load_ns": 0, "part_ns": [None, None]}]},
            r"experts\[0\].part_ns: must have a time for one grain at least",
        ),
        (
            {
                "grains": [4096],
                "experts": [
                    {"expert": e, "load_ns": 2**42, "part_ns": [2**42]} for e in range(128)
                ],
            },
            "experts: all parts, each with a load of its own could sum to",
        ),
    ],
)
def test_wrong_data_are_one_line(change: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Instance.model_validate(DATA | change)


def test_arrays() -> None:
    """-1 stands for a grain that does not exist; the class's example."""
    made = Instance.from_arrays(
        part_ns=[[40, 21, 11], [9, 5, -1]], grains=[1, 2, 4], threads=4, name="small"
    )
    assert made.experts[1].part_ns == (9, 5, None)
    assert (made.pull_ns, made.experts[0].load_ns) == (0, 0)
