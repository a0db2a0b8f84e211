"""The decision: on which devices each expert has a copy."""

from typing import Literal

from moeopt.core.envelope import SolutionEnvelope

from .instance import Copies


class Solution(SolutionEnvelope):
    """The devices of each expert's copies, in the order of the instance's experts."""

    problem: Literal["replication"] = "replication"
    copies: Copies
