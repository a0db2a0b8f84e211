"""The decision: which experts live on the GPU."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from moeopt.core.envelope import Count, SolutionEnvelope
from moeopt.core.host_memory import absent

from .instance import Instance

Flags = NDArray[np.bool_]


class Solution(SolutionEnvelope):
    """Which experts live on the GPU; all others are computed elsewhere.

    Parameters
    ----------
    gpu
        By layer.
    computed_on_gpu
        With free dispatch, by step and layer, the experts that the GPU computes: some of those on
        it that have tokens there. None: all of them.
    """

    problem: Literal["placement"] = "placement"
    gpu: tuple[tuple[Count, ...], ...]
    computed_on_gpu: Annotated[
        tuple[tuple[tuple[Count, ...], ...], ...] | None, Field(exclude_if=absent)
    ] = None


def solution_of(instance: Instance, held: Flags) -> Solution:
    """Return the solution of flags of shape (layers, experts), dispatched best where it is free."""
    gpu = tuple(tuple(np.flatnonzero(row).tolist()) for row in held)
    if instance.dispatch == "resident":
        return Solution(instance=instance.name, gpu=gpu)
    fixed_ns = instance.layer_offload_fixed_ns
    runs = [of.computed(row, fixed_ns) for of, row in zip(instance.layer_steps, held, strict=True)]
    return dispatched(instance, gpu, runs)


def dispatched(
    instance: Instance, gpu: tuple[tuple[int, ...], ...], runs: Sequence[Flags]
) -> Solution:
    """Return the solution in which the GPU computes some of the entries of `layer_steps`.

    Parameters
    ----------
    gpu
        By layer, the experts on the GPU.
    runs
        By layer, a flag for each entry. Where the GPU computes all that is there, nothing is said.
    """
    by_row = []
    differ = False
    for of, held, flags in zip(instance.layer_steps, gpu, runs, strict=True):
        parts = [slice(*part) for part in pairwise(of.start.tolist())]
        by_row.append([tuple(of.expert[part][flags[part]].tolist()) for part in parts])
        differ |= bool((np.isin(of.expert, held) != flags).any())
    if not differ:
        return Solution(instance=instance.name, gpu=gpu)
    rows = zip(*(of.row_of_step.tolist() for of in instance.layer_steps), strict=True)
    computed = tuple(
        tuple(by_row[layer][row] if row >= 0 else () for layer, row in enumerate(of_step))
        for of_step in rows
    )
    return Solution(instance=instance.name, gpu=gpu, computed_on_gpu=computed)


def held_of(solution: Solution, layers: int, experts: int) -> Flags:
    """Return the flags of a valid solution, shape (layers, experts)."""
    held = np.zeros((layers, experts), dtype=bool)
    for row, chosen in zip(held, solution.gpu, strict=True):
        row[list(chosen)] = True
    return held


def for_other_steps(instance: Instance, decision: Solution) -> Solution:
    """Return a placement decided on other steps, dispatched best on those of an instance.

    One that does not fit the instance comes back as it is, for the checker to say why.
    """
    moved = decision.model_copy(update={"instance": instance.name, "computed_on_gpu": None})
    fits = len(moved.gpu) == instance.layers
    if not fits or any(expert >= instance.experts for row in moved.gpu for expert in row):
        return moved
    return solution_of(instance, held_of(moved, instance.layers, instance.experts))
