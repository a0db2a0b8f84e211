"""The decision: the device of each layer's attention, and the one of its routed experts."""

from typing import Annotated, Literal

from pydantic import Field

from moeopt.core.envelope import SolutionEnvelope

Home = Annotated[int, Field(strict=True, ge=-1, le=2**31)]
"""A device; -1 for the experts of a layer that has none, and what has no home at all."""


class Solution(SolutionEnvelope):
    """One device per layer for attention, and one, or -1, for routed experts."""

    problem: Literal["split"] = "split"
    attention: tuple[Home, ...]
    experts: tuple[Home, ...]
