"""The decision: what lies where and at which width, and which experts stay off the GPU."""

from typing import Literal

from moeopt.core.envelope import Count, SolutionEnvelope


class Solution(SolutionEnvelope):
    """All decisions of a plan; None stands for one that is missing, which the checker reports.

    Parameters
    ----------
    context
        Which of the instance's contexts.
    resident
        By layer, the experts that stay on the GPU.
    bits
        By layer and expert, its width.
    ways, deferred
        By layer, cache ways, and how many of the experts on the CPU are deferred.
    swapped
        (step, layer, expert): an expert that the GPU holds, and that the CPU runs nevertheless.
        All others run on the GPU exactly where it holds them.
    """

    problem: Literal["joint"] = "joint"
    context: Count | None
    resident: tuple[tuple[Count, ...], ...]
    bits: tuple[tuple[Count | None, ...], ...]
    ways: tuple[Count | None, ...]
    deferred: tuple[Count | None, ...]
    swapped: tuple[tuple[Count, Count, Count], ...] = ()
