"""The decision: the width of every expert, in the order of the instance's arrays."""

from typing import Literal

from moeopt.core.envelope import Count, SolutionEnvelope


class Solution(SolutionEnvelope):
    """One width per expert, layer by layer.

    None stands for an expert without a width: such a file can be read, and the checker reports it.
    """

    problem: Literal["bitwidth"] = "bitwidth"
    bits: tuple[tuple[Count | None, ...], ...]
