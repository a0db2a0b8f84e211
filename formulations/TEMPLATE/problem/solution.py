"""The decision: which experts are kept, in the order of the instance's experts."""

from typing import Literal

from moeopt.core.envelope import SolutionEnvelope


class Solution(SolutionEnvelope):
    """One flag per expert."""

    problem: Literal["TEMPLATE"] = "TEMPLATE"
    kept: tuple[bool, ...]
