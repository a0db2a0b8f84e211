"""The states of bound-and-pack, each with a lower bound on its makespan.

A state is (r, e): r experts that hosts read striped, e that hosts read localized. Of the others at
most `hits` are hits, and the rest run on NDP. Its bound is that of the items that the DIMMs hold if
the experts with the largest NDP costs are those that leave: replacing an item by a smaller one, or
dropping it, never hurts a packing, so no other choice of those that leave can be packed better.
"""

import numpy as np
from numpy.typing import NDArray

from .scenario import CPU_LOCAL, CPU_STRIPED, GPU_LOCAL, GPU_STRIPED, Scenario, Times


def up(values: Times, step: Times) -> Times:
    """Round up to multiples of `step`."""
    return np.asarray(-(-values // step) * step)


def simple_bounds(scenario: Scenario, upper: int) -> tuple[Times, Times, Times]:
    """Return the states whose simple bound is below `upper`: bounds, striped reads, local reads.

    Sorted by bound, then by how full the DIMMs would be. The bound of (r, e) is the largest of

    - r striped reads, and the DIMMs' average load of the items, rounded up to their divisor;
    - r striped reads, and the largest item; or e / dimms localized reads, rounded up;
    - half the time that the hosts need at least: the r cheapest striped and the e cheapest
      localized experts, each on its cheaper host.

    A state whose localized experts exceed the DIMMs' slots is left out: it has no solution.
    """
    n, free = scenario.experts, scenario.experts - scenario.hits
    least_r = max(0, free - scenario.dimms * scenario.slots)
    striped, local = _cheapest(scenario, GPU_STRIPED), _cheapest(scenario, GPU_LOCAL)
    found: list[tuple[Times, Times, Times]] = []
    for r in range(least_r, n + 1):
        e = np.arange(min(n - r, scenario.dimms * scenario.slots) + 1)
        left = np.minimum(scenario.hits + r + e, n)
        total = scenario.ndp_before[n] - scenario.ndp_before[left] + e * scenario.local_read
        largest = np.append(scenario.ndp, 0)[left]
        reads = -(-e // scenario.dimms) * scenario.local_read
        busiest = np.maximum(np.maximum(-(-total // scenario.dimms), largest), reads)
        without, with_reads = scenario.lattices
        busiest = up(busiest, np.where(e > 0, with_reads[left], without[left]))
        bound = np.maximum(r * scenario.striped_read + busiest, -(-(striped[r] + local[e]) // 2))
        good = bound < upper
        found.append((bound[good], np.full(int(good.sum()), r), e[good]))
        if r * scenario.striped_read >= upper or striped[r] >= 2 * upper:
            break
    bound, reads, local_reads = (np.concatenate(part) for part in zip(*found, strict=True))
    order = np.lexsort((local_reads, reads, bound))
    return bound[order], reads[order], local_reads[order]


def least_capacity(scenario: Scenario, sizes: Times) -> int:
    """Return a bound on the largest load of a DIMM that holds items of these sizes, falling.

    The j D + 1 largest items put j + 1 of themselves on some DIMM. With slots, the DIMM of the
    largest item holds at least what the other DIMMs' slots leave over.
    """
    count, dimms = len(sizes), scenario.dimms
    if not count:
        return 0
    before = np.concatenate([[0], sizes.cumsum()])
    least = int(-(-before[-1] // dimms))
    ends = np.arange(1, count + 1, dimms)
    among = np.arange(len(ends)) + 1
    least = max(least, int((before[ends] - before[ends - among]).max()))
    company = count - (dimms - 1) * scenario.slots - 1
    if company > 0:
        least = max(least, int(sizes[0] + before[-1] - before[count - company]))
    return least


def _cheapest(scenario: Scenario, gpu: int) -> NDArray[np.int64]:
    """Return the sum of the k least host times, k = 0, ..., experts, of striped or local reads."""
    cpu = {GPU_STRIPED: CPU_STRIPED, GPU_LOCAL: CPU_LOCAL}[gpu]
    least = np.sort(np.minimum(scenario.cost[gpu], scenario.cost[cpu]))
    return np.concatenate([[0], least.cumsum()])
