"""Simple numbers of an instance: a lower bound, the grid of makespans, the scale of weights."""

import numpy as np

from moeopt.numeric.compiled import compiled
from moeopt.problems.device_loads import CPU, DRAM, GPU, NDP, OWN, PLACE, STRIPED_READS, Ints

MAX_SCALE_BITS = 20
SAFE = 2**61
"""Weighted sums stay below this, so that two of them can be added."""


@compiled
def simple_bound(experts: Ints, dimms: int) -> tuple[int, int, int]:
    """Return a lower bound, and the least and the most that all striped reads can take.

    The bound is the larger of two: the longest expert and the busiest DIMM. Proofs are in
    `moeopt.problems.tri_domain.bounds`.
    """
    longest, least, most = 0, 0, 0
    own = np.zeros(OWN + dimms, np.int64)
    for i in range(experts.shape[1]):
        gpu_read, cpu_read = experts[DRAM + GPU, i], experts[DRAM + CPU, i]
        alone = min(max(experts[GPU, i], gpu_read), max(experts[CPU, i], cpu_read))
        if experts[PLACE, i] == STRIPED_READS:
            least += min(gpu_read, cpu_read)
            most += max(gpu_read, cpu_read)
        else:
            alone = min(alone, experts[DRAM + NDP, i])
            own[experts[PLACE, i]] += min(gpu_read, cpu_read, experts[DRAM + NDP, i])
        longest = max(longest, alone)
    for at in range(OWN, len(own)):
        longest = max(longest, least + own[at])
    return longest, least, most


def grid_and_scale(experts: Ints) -> tuple[int, int]:
    """Return what every makespan is a multiple of, and a safe scale of weights.

    The grid is the greatest common divisor of all costs, at least 1. The scale is a power of two by
    which any sum of the instance's costs can be multiplied safely.
    """
    costs = experts[:PLACE].ravel()
    total = 1 + int(costs.sum())
    scale = min(SAFE.bit_length() - total.bit_length() - 1, MAX_SCALE_BITS)
    return max(int(np.gcd.reduce(costs)), 1), 1 << max(scale, 0)
