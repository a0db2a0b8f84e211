"""Whole layers on the GPU or none of one: a 0-1 knapsack, solved by dynamic programming.

Proof. With this restriction a layer costs either what it takes with all its experts on the GPU, or
with none, and takes all its slots or none. So the objective is a sum over layers of two constants
each, and the table of the least cost of the first layers at every number of slots taken is exact.
Slots are counted in the layers' greatest common divisor.
"""

from math import gcd

import numpy as np

from moeopt.problems.placement.layer_steps import Flags

from .relaxation import Model

MOST_CELLS = 2**27
FAR = 2**61


def cheapest_layers(model: Model) -> Flags | None:
    """Return the best placement; None if there is none.

    Raises
    ------
    MemoryError
        If the table would have more than `MOST_CELLS` entries.
    """
    capacity = model.capacity
    sizes = [int(total) for total in capacity.sizes.sum(axis=1)]
    unit = gcd(*sizes)
    most, least = capacity.most // unit, -(-capacity.least // unit)
    if (most + 1) * len(sizes) > MOST_CELLS:
        raise MemoryError
    experts = capacity.sizes.shape[1]
    best = np.full(most + 1, FAR, dtype=np.int64)
    best[0] = 0
    taken = np.zeros((len(sizes), most + 1), dtype=bool)
    for number, (layer, size) in enumerate(zip(model.layers, sizes, strict=True)):
        on, off = (
            layer.cost_ns(np.full(experts, there), model.fixed_ns) for there in (True, False)
        )
        units = size // unit
        without = np.minimum(FAR, best + off)
        with_it = np.full(most + 1, FAR, dtype=np.int64)
        if units <= most:
            with_it[units:] = np.minimum(FAR, best[: most + 1 - units] + on)
        taken[number] = with_it < without
        best = np.minimum(with_it, without)
    if least > most or int(best[least:].min()) >= FAR:
        return None
    held = np.zeros(capacity.sizes.shape, dtype=bool)
    at = least + int(best[least:].argmin())
    for number in reversed(range(len(sizes))):
        if taken[number, at]:
            held[number] = True
            at -= sizes[number] // unit
    return held
