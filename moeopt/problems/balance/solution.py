"""The decision: how many slices of each expert the GPU takes from each NDP unit."""

from typing import Literal

from moeopt.core.envelope import Count, SolutionEnvelope


class Solution(SolutionEnvelope):
    """One row per expert, in the order of the instance, with one count per NDP unit."""

    problem: Literal["balance"] = "balance"
    gpu_slices: tuple[tuple[Count, ...], ...]
