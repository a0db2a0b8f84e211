"""The checker against runs by hand, and each rule it keeps."""

from typing import Any

import pytest

from tests.rooms.cache import Instance, Served, Solution, objective, serve, violations


def made(accesses: list[list[list[int]]], **changes: Any) -> Instance:
    """Return an instance with round costs: hit 1, miss 10, hand-over 100, fetch 1000."""
    data: dict[str, Any] = {"experts": 4, "slots": 8, "gpu_ns": 1, "cpu_ns": 10}
    data |= {"activation_ns": 100, "fetch_ns": 1000, "other_ns": 10_000}
    return Instance(name="hand", layers=len(accesses[0]), accesses=accesses, **(data | changes))


def ways(*numbers: int | None) -> Solution:
    """Return the solution with these ways."""
    return Solution(instance="hand", ways=numbers)


def test_one_layer_by_hand() -> None:
    """Tokens {0,1} {1,2} {0,2} {1,3} {1}, by the content that each leaves, most recent last.

    Two ways: 01 12 02 13 1, so hits 0 1 1 0 1. One way: 1 2 2 3 1 and hits 0 1 1 0 0. Three ways:
    01 012 102 213 231 with hits 0 1 2 1 1. Times: a miss of two 100 + 20, of one 100 + 10,
    two hits 2; each 10,000 more.
    """
    instance = made([[[0, 1]], [[1, 2]], [[0, 2]], [[1, 3]], [[1]]])
    base = 50_000
    assert serve(instance, ways(0)) == [Served(0, 0, base + 4 * 120 + 110)]
    assert serve(instance, ways(1)) == [Served(2, 7, base + 120 + 110 + 110 + 120 + 110)]
    assert serve(instance, ways(2)) == [Served(3, 6, base + 120 + 110 + 110 + 120 + 1)]
    assert serve(instance, ways(3)) == [Served(5, 4, base + 120 + 110 + 2 + 110 + 1)]
    assert serve(instance, ways(4)) == serve(instance, ways(3))


def test_a_lookup_is_of_the_whole_token() -> None:
    """Two ways hold 2 and 1; then 0 misses, and must not push out 2 before 2 is looked up."""
    instance = made([[[2, 1]], [[0, 2]]])
    assert serve(instance, ways(2)) == [Served(1, 3, 20_000 + 120 + 110)]
    assert serve(instance, ways(1))[0].hits == 0  # only 1, the last one listed, stays


def test_gpu_and_cpu_work_at_the_same_time() -> None:
    """One hit of 1 and one miss: the later of 500 on the GPU and 110 on the CPU."""
    instance = made([[[0]], [[0, 1]]], gpu_ns=500)
    assert serve(instance, ways(2))[0].layer_ns == 20_000 + 110 + 500


def test_the_later_side_is_the_objective() -> None:
    """Two layers of two tokens; six fetches of 1,000 against layers of some 40,000."""
    accesses = [[[0, 1], [3]], [[1, 2], [3]]]
    layers_ns = 20_000 + 120 + 110 + 20_000 + 110 + 1
    assert objective(made(accesses), ways(2, 1)) == layers_ns
    assert objective(made(accesses, fetch_ns=50_000), ways(2, 1)) == 4 * 50_000
    assert objective(made(accesses, fetch_ns=50_000), ways(0, 0)) == 40_000 + 240 + 220


@pytest.mark.parametrize(
    ("solution", "claim", "rules"),
    [
        (ways(2, 1), None, []),
        (ways(2, 1), 40_341, []),
        (ways(2), None, ["CA-C1"]),
        (ways(2, 1, 1), None, ["CA-C1"]),
        (ways(2, None), None, ["CA-C1"]),
        (ways(5, 0), None, ["CA-C1", "CA-C2"]),
        (ways(3, 2), None, ["CA-C2"]),
        (ways(2, 1), 40_340, ["CA-C3"]),
        (ways(1, 1), 3_999, ["CA-C3", "CA-C4"]),
    ],
)
def test_violations_name_the_rule(solution: Solution, claim: int | None, rules: list[str]) -> None:
    """Each rule is named, and no other."""
    instance = made([[[0, 1], [3]], [[1, 2], [3]]], slots=4)
    assert [rule for rule, _ in violations(instance, solution, claim)] == rules


def test_fetches_alone_can_be_late() -> None:
    """A claim that the layers keep and the fetches do not."""
    instance = made([[[0, 1], [3]], [[1, 2], [3]]], fetch_ns=50_000)
    assert [rule for rule, _ in violations(instance, ways(2, 1), 199_999)] == ["CA-C4"]
    assert violations(instance, ways(2, 1), 200_000) == []


def test_layers_without_a_number_cost_nothing() -> None:
    """What is reported as a violation is not simulated."""
    instance = made([[[0, 1], [3]]])
    assert objective(instance, ways(None, None)) == 0
    assert serve(instance, ways(9, 0)) == [Served(0, 0, 0), Served(0, 0, 10_110)]
