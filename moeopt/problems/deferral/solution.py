"""The decision: how many experts each layer defers, and when everything starts."""

from typing import Annotated, Literal

from pydantic import Field

from moeopt.core.envelope import Count, Data, SolutionEnvelope

Start = Annotated[int, Field(strict=True, ge=0, le=2**62)]
"""An instant in ns since the step began; sums of many durations fit."""


class StartTimes(Data):
    """When each task of each layer starts; what takes no time has a start as well."""

    attention: tuple[Start, ...]
    shared: tuple[Start, ...]
    immediate: tuple[Start, ...]
    deferred: tuple[Start, ...]


class Solution(SolutionEnvelope):
    """One count and four starts per layer.

    None stands for a layer without a count: such a file can be read, and the checker reports it.
    """

    problem: Literal["deferral"] = "deferral"
    deferred: tuple[Count | None, ...]
    start_ns: StartTimes
