"""Widths of the experts beside the GPU, by the prefix split (context-aware CXL-NDP 4.2)."""

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.problems.bitwidth.instance import Instance
from moeopt.problems.bitwidth.prefix_split import prefix_split

from .system import RunState
from .work import Integers

BITS = (1, 2, 3, 4)
"""The widths of the paper."""

LOSS_STEPS = 10**6
"""Losses are integers of so many steps."""


def ranks(counts: Integers | NDArray[np.float64]) -> Integers:
    """Return how much each expert matters: its share of the layer's tokens, in millionths.

    Shape (layers, experts).
    """
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    rank: Integers = np.rint(share * LOSS_STEPS).astype(np.int64)
    return rank


def losses(rank: Integers) -> Integers:
    """Return what experts lose at each of `BITS`, shape (experts, widths): the convex law.

    An expert's rank times 4 to the power of minus its bits.
    """
    lost: Integers = np.rint(rank[:, None] * 4.0 ** -np.array(BITS)).astype(np.int64)
    return lost


def prefix_widths(
    state: RunState, counts: Integers | NDArray[np.float64], average_bits: int
) -> Integers:
    """Return the row of the cost tables for each expert, shape (layers, experts).

    Residents keep the model's own width, the last row.
    """
    world = state.world
    width = np.full((world.layers, world.experts), len(world.widths) - 1, dtype=np.int64)
    rank = ranks(counts)
    for layer in range(world.layers):
        away = np.flatnonzero(~state.resident[layer])
        if not len(away):
            continue
        instance = Instance.from_arrays(
            loss=losses(rank[layer, away])[None],
            importance=rank[layer, away][None],
            bits=BITS,
            budget_bits=average_bits * len(away),
            name=f"layer{layer}",
        )
        found = prefix_split(instance)
        if found is None:
            raise InputError(f"layer {layer}: no split of widths keeps the average")
        width[layer, away] = np.array(found.bits[0]) - BITS[0]
    return width
