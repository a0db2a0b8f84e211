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


def prefix_widths(
    state: RunState, counts: Integers | NDArray[np.float64], average_bits: int
) -> Integers:
    """Return the row of the cost tables for each expert, shape (layers, experts).

    An expert's loss is its share of the tokens times 4 to the power of minus its bits: the convex
    law. Residents keep the model's own width, the last row.
    """
    world = state.world
    width = np.full((world.layers, world.experts), len(world.widths) - 1, dtype=np.int64)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    for layer in range(world.layers):
        away = np.flatnonzero(~state.resident[layer])
        if not len(away):
            continue
        ranks = np.rint(share[layer, away] * LOSS_STEPS).astype(np.int64)
        loss = np.rint(ranks[:, None] * 4.0 ** -np.array(BITS)).astype(np.int64)
        instance = Instance.from_arrays(
            loss=loss[None],
            importance=ranks[None],
            bits=BITS,
            budget_bits=average_bits * len(away),
            name=f"layer{layer}",
        )
        found = prefix_split(instance)
        if found is None:
            raise InputError(f"layer {layer}: no split of widths keeps the average")
        width[layer, away] = np.array(found.bits[0]) - BITS[0]
    return width
