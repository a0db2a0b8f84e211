"""The decision: how many experts each layer may keep on the GPU."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from moeopt.core.envelope import Count, SolutionEnvelope


class Solution(SolutionEnvelope):
    """Ways of each layer.

    None stands for a layer without a number: such a file can be read, and the checker reports it.
    """

    problem: Literal["cache"] = "cache"
    ways: tuple[Count | None, ...]


def read_off(instance: str, gets: Sequence[Sequence[Any]], value: Callable[[Any], int]) -> Solution:
    """Return the solution in which each layer gets the first number whose variable is 1.

    With a constraint left out there may be several, or none: then the layer has no number.
    """
    ways = tuple(next((w for w, variable in enumerate(of) if value(variable)), None) for of in gets)
    return Solution(instance=instance, ways=ways)
