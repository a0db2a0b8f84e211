"""The bound by counting: how many experts must leave their DIMMs before a makespan is possible."""

import numpy as np
from numpy.typing import NDArray

from .instance import STRIPED, Instance
from .options import prefetch_allowed

Counts = NDArray[np.int64]


def eviction_bound_ns(instance: Instance) -> int:
    """Return the least makespan that the number of possible migrations does not rule out.

    Proof. Take a valid solution of makespan at most C, in which k of the r experts that are striped
    and not resident migrate. The other r - k are read by a host, whichever it is, and each read
    keeps every DIMM busy for dram_striped_ns. A localized expert that neither is resident nor
    migrates keeps its DIMM busy for at least min(ndp_ns, dram_localized_ns). So DIMM d, with these
    floors and (r - k) dram_striped_ns on it, must have lost enough experts to get down to C: at
    least as many as it takes if the largest floors go first. Whatever else lies on the DIMMs
    only adds. Each of these migrations is a prefetch or takes link time: one of the k at least
    relayout_ns, one that leaves a DIMM at least the lesser of relayout_ns and rebalance_ns. Link
    time is least if the prefetches allowed are spent on the k first. If that exceeds the window
    for every k, no valid solution has makespan C. A larger C needs no more evictions, so the least
    C that is not ruled out, found by bisection, is a lower bound.
    """
    return _Counting(instance).bound()


class _Counting:
    """Floors on each DIMM, and what migrations cost.

    Attributes
    ----------
    left
        Per DIMM, entry m: its floor after its m largest experts have left, negated so as to rise.
    k
        Every number of striped experts that can migrate.
    reads_ns
        For each k, how long the striped reads that are left keep every DIMM busy.
    """

    def __init__(self, instance: Instance) -> None:
        c = instance.columns
        counted = (c.tokens > 0) & ~c.resident
        floor = np.minimum(c.ndp_ns, instance.dram_localized_ns)
        self.left = []
        for dimm in range(instance.dimms):
            own = np.sort(floor[counted & (c.dimm == dimm)])[::-1]
            self.left.append(np.concatenate([[0], own.cumsum()]) - own.sum())
        striped = int((counted & (c.dimm == STRIPED)).sum())
        self.window = instance.dimm_link_window_ns
        self.prefetches = prefetch_allowed(instance)
        self.relayout_ns = instance.relayout_ns
        self.eviction_ns = instance.relayout_ns
        if instance.dimms > 1:
            self.eviction_ns = min(instance.relayout_ns, instance.rebalance_ns)
        self.k = np.arange(striped + 1)
        self.reads_ns = (striped - self.k) * instance.dram_striped_ns

    def bound(self) -> int:
        """Return the least makespan that is not ruled out."""
        low, high = 0, int(self.reads_ns[0] - min(left[0] for left in self.left))
        while low < high:
            middle = (low + high) // 2
            if self._possible(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _possible(self, makespan_ns: int) -> bool:
        room = makespan_ns - self.reads_ns
        evictions: Counts = np.zeros_like(self.k)
        able = np.ones(len(self.k), dtype=np.bool_)
        for left in self.left:
            needed = np.searchsorted(left, -room, side="left")
            able &= needed < len(left)
            evictions += needed
        spare = np.maximum(self.prefetches - self.k, 0)
        link_ns = np.maximum(self.k - self.prefetches, 0) * self.relayout_ns
        link_ns += np.maximum(evictions - spare, 0) * self.eviction_ns
        return bool((able & (link_ns <= self.window)).any())
