"""The steps of each layer as arrays, equal ones merged: what all methods compute with."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LayerSteps:
    """The steps of one layer in which it has tokens; steps with the same tokens are one row.

    Attributes
    ----------
    weight
        How many steps a row stands for, shape (rows,).
    start
        Where a row's entries begin, and the end of the last, shape (rows + 1,).
    expert, gpu_ns, offload_ns
        Shape (entries,): an expert with tokens in the row, and its time on either side.
    """

    weight: Ints
    start: Ints
    expert: Ints
    gpu_ns: Ints
    offload_ns: Ints

    @property
    def rows(self) -> int:
        """Number of distinct steps."""
        return len(self.weight)

    @cached_property
    def row(self) -> Ints:
        """The row of every entry."""
        return np.repeat(np.arange(self.rows), np.diff(self.start))

    def sides(self, held: Flags) -> tuple[Ints, Ints, Ints]:
        """Return what the GPU and the other side take, and how many are offloaded, by row."""
        on = held[self.expert]
        row = self.row
        gpu = np.bincount(row[on], self.gpu_ns[on], self.rows)
        off = np.bincount(row[~on], self.offload_ns[~on], self.rows)
        count = np.bincount(row[~on], minlength=self.rows)
        return gpu.astype(np.int64), off.astype(np.int64), count.astype(np.int64)

    def cost_ns(self, held: Flags, fixed_ns: int) -> int:
        """Return the layer's time over all steps with some experts on the GPU."""
        gpu, off, count = self.sides(held)
        return int((self.weight * np.maximum(gpu, off + fixed_ns * (count > 0))).sum())


def layer_steps_of(
    steps: Sequence[Sequence[Sequence[tuple[int, int]]]],
    gpu_expert_ns: Sequence[int],
    offload_expert_ns: Sequence[int],
) -> list[LayerSteps]:
    """Return the merged steps of every layer.

    Parameters
    ----------
    steps
        By step and layer: (expert, tokens) of each expert with tokens; at least one step.
    gpu_expert_ns, offload_expert_ns
        Time of an expert on either side by its tokens; beyond the end the last slope continues.
    """
    most = max((n for step in steps for layer in step for _, n in layer), default=1)
    tables = [extended(table, most) for table in (gpu_expert_ns, offload_expert_ns)]
    return [_merged(of_layer, *tables) for of_layer in zip(*steps, strict=True)]


def extended(table: Sequence[int], most: int) -> Ints:
    """Return a table of times up to so many tokens, the last slope continued."""
    ns = np.array(table, dtype=np.int64)
    beyond = np.arange(1, max(0, most + 1 - len(ns)) + 1)
    return np.concatenate([ns, ns[-1] + beyond * (ns[-1] - ns[-2])])


def total_ns(layers: list[LayerSteps], held: Flags, fixed_ns: int) -> int:
    """Return the objective of flags of shape (layers, experts)."""
    return sum(layer.cost_ns(row, fixed_ns) for layer, row in zip(layers, held, strict=True))


def _merged(
    steps: Sequence[Sequence[tuple[int, int]]], gpu_ns: Ints, offload_ns: Ints
) -> LayerSteps:
    weights: dict[tuple[tuple[int, int], ...], int] = {}
    for active in steps:
        if active:
            key = tuple(sorted(active))
            weights[key] = weights.get(key, 0) + 1
    entries = np.array([pair for key in weights for pair in key], dtype=np.int64).reshape(-1, 2)
    start = np.cumsum([0, *(len(key) for key in weights)], dtype=np.int64)
    expert, tokens = entries[:, 0].copy(), entries[:, 1]
    weight = np.array(list(weights.values()), dtype=np.int64)
    return LayerSteps(weight, start, expert, gpu_ns[tokens], offload_ns[tokens])
