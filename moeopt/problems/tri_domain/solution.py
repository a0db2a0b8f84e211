"""The decision: the domain in which each active expert runs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from moeopt.problems.envelope import SolutionEnvelope

Domain = Literal["gpu", "cpu", "ndp"]

DOMAINS: tuple[Domain, ...] = ("gpu", "cpu", "ndp")
"""The domains, in the order that breaks ties."""


class Solution(SolutionEnvelope):
    """One domain per expert, in the order of the instance's experts.

    None stands for an expert that runs nowhere: such a file can be read; the checker reports it.
    """

    problem: Literal["tri_domain"] = "tri_domain"
    assignment: tuple[Domain | None, ...]


def read_off(
    instance: str, runs: Sequence[Mapping[Domain, Any]], value: Callable[[Any], int]
) -> Solution:
    """Return the solution in which each expert takes the first domain whose variable is 1.

    With a constraint left out there may be several, or none: then the expert runs nowhere.
    """
    assignment = tuple(next((d for d in DOMAINS if value(of[d])), None) for of in runs)
    return Solution(instance=instance, assignment=assignment)
