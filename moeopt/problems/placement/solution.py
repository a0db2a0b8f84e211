"""The decision: which experts live on the GPU."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.problems.envelope import Count, SolutionEnvelope

Flags = NDArray[np.bool_]


class Solution(SolutionEnvelope):
    """By layer, the experts on the GPU; all others are computed elsewhere."""

    problem: Literal["placement"] = "placement"
    gpu: tuple[tuple[Count, ...], ...]


def solution_of(instance: str, held: Flags) -> Solution:
    """Return the solution of flags of shape (layers, experts)."""
    gpu = tuple(tuple(np.flatnonzero(row).tolist()) for row in held)
    return Solution(instance=instance, gpu=gpu)


def held_of(solution: Solution, layers: int, experts: int) -> Flags:
    """Return the flags of a valid solution, shape (layers, experts)."""
    held = np.zeros((layers, experts), dtype=bool)
    for row, chosen in zip(held, solution.gpu, strict=True):
        row[list(chosen)] = True
    return held
