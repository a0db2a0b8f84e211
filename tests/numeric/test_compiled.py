"""Compiled functions give what Python gives."""

from moeopt.numeric.compiled import compiled


def collatz_steps(number: int) -> int:
    """Count the steps to 1."""
    steps = 0
    while number != 1:
        number = number // 2 if number % 2 == 0 else 3 * number + 1
        steps += 1
    return steps


def test_the_same_as_plain_python() -> None:
    """For every start below 200."""
    fast = compiled(collatz_steps)
    assert [fast(n) for n in range(1, 200)] == [collatz_steps(n) for n in range(1, 200)]
