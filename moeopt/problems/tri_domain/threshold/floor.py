"""Simple numbers of an instance: a lower bound, the grid of makespans, the scale of weights."""

from typing import Any

import numpy as np

from moeopt.numeric.compiled import compiled

from .loads import CPU, GPU, NDP, OWN, STRIPED_READS, Ints

MAX_SCALE_BITS = 20
SAFE = 2**61
"""Weighted sums stay below this, so that two of them can be added."""


@compiled
def simple_bound(host: Ints, dram: Ints, place: Ints, dimms: int) -> Any:
    """Return the larger of two lower bounds: the longest expert and the busiest DIMM.

    Proofs are in `moeopt.problems.tri_domain.bounds`.
    """
    longest, every = 0, 0
    own = np.zeros(dimms, np.int64)
    for i in range(len(place)):
        alone = min(max(host[GPU, i], dram[GPU, i]), max(host[CPU, i], dram[CPU, i]))
        read = min(dram[GPU, i], dram[CPU, i])
        if place[i] == STRIPED_READS:
            every += read
        else:
            alone = min(alone, dram[NDP, i])
            own[place[i] - OWN] += min(read, dram[NDP, i])
        longest = max(longest, alone)
    return max(longest, every + own.max())


@compiled
def striped_reads(dram: Ints, place: Ints) -> Ints:
    """Return the least and the most that the reads of all striped experts can take."""
    reads = np.zeros(2, np.int64)
    for i in range(len(place)):
        if place[i] == STRIPED_READS:
            reads[0] += min(dram[GPU, i], dram[CPU, i])
            reads[1] += max(dram[GPU, i], dram[CPU, i])
    return reads


@compiled
def grid_of(host: Ints, dram: Ints, place: Ints) -> Any:
    """Return the greatest common divisor of all costs, which divides every makespan; at least 1."""
    grid = 0
    for i in range(len(place)):
        for to in range(2 if place[i] == STRIPED_READS else 3):
            for cost in (host[to, i], dram[to, i]):
                while cost != 0:
                    grid, cost = cost, grid % cost
    return max(grid, 1)


@compiled
def weight_scale(host: Ints, dram: Ints, place: Ints) -> Any:
    """Return a power of two by which any sum of the instance's costs can be multiplied safely."""
    total = 1
    for i in range(len(place)):
        total += host[GPU, i] + host[CPU, i] + dram[GPU, i] + dram[CPU, i] + dram[NDP, i]
    bits = 0
    while bits < MAX_SCALE_BITS and total << (bits + 1) < SAFE:
        bits += 1
    return 1 << bits
