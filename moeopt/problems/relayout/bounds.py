"""Lower bounds on the makespan that need no solver, each with its proof.

A mode of an expert is a migration or none, and a domain. Each mode keeps the GPU, the CPU and
every DIMM, channel and PCIe busy for known times, those of the layout it leads to (RE-C8 to
RE-C12).
"""

from math import gcd

import numpy as np
from numpy.typing import NDArray

from .expert import STRIPED, costs_ns
from .instance import Instance, active_experts, reads_ns
from .windows import link_moves_allowed, link_use, prefetch_allowed

Ints = NDArray[np.int64]


def lower_bound(instance: Instance) -> int:
    """Return the best of this package's bounds."""
    return max(longest_expert_ns(instance), eviction_bound_ns(instance))


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the costs' greatest common divisor."""
    costs = [cost for expert in active_experts(instance) for cost in costs_ns(expert)]
    return gcd(instance.base_ns, *reads_ns(instance), *costs) or 1


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long whatever is done with it.

    Proof. In each of its modes an expert alone keeps some device busy for the longest of its
    times, and the makespan is at least that. It takes one of its modes, and none that needs a
    migration which does not fit into its window even alone. So the makespan is at least the least
    of them.
    """
    relayout, _ = link_moves_allowed(instance)
    prefetch = prefetch_allowed(instance)
    localized_read = instance.dram_localized_ns
    striped_read = instance.striped_charge_ns(instance.dram_striped_ns)
    if instance.channels is not None:
        striped_read = max(striped_read, instance.dram_striped_ns)
    floors = [instance.base_ns]
    for expert in active_experts(instance):
        modes = []
        if expert.resident or prefetch:
            modes.append(instance.base_ns + expert.gpu_work_ns(in_memory=True, striped=True))
        for striped, cpu_ns, read_ns in (
            (True, expert.cpu_striped_ns, striped_read),
            (False, expert.cpu_localized_ns, localized_read),
        ):
            if striped != (expert.dimm is None) and not relayout:
                continue
            modes.append(max(cpu_ns, read_ns))
            if not striped:
                modes.append(expert.ndp_ns)
            if not expert.resident:
                gpu_ns = instance.base_ns + expert.gpu_work_ns(in_memory=False, striped=striped)
                modes.append(max(gpu_ns, expert.pcie_ns(striped=striped), read_ns))
        floors.append(min(modes))
    return max(floors)


def eviction_bound_ns(instance: Instance) -> int:
    """Return the least makespan left open by counting what RE-C5 to RE-C7 let migrate.

    Proof. Take a valid solution of makespan at most C, in which k of the r experts that are striped
    and not resident migrate. The other r - k are read by a host, whichever it is, and each read
    keeps every DIMM busy for its share of dram_striped_ns (s, say) and every channel for all of it,
    which must be within C as well. A localized expert that neither is resident nor
    migrates keeps its DIMM busy for at least min(ndp_ns, dram_localized_ns). So DIMM d, with these
    floors and (r - k) s on it, must have lost enough experts to get down to C: at
    least as many as it takes if the largest floors go first. Whatever else lies on the DIMMs
    only adds. Each of these migrations is a prefetch or takes time of the links (`link_use`): one
    of the k at least that of a layout change, one that leaves a DIMM at least the lesser of a
    change's and a move's. Link time is least if the prefetches allowed are spent on the k first. If
    that exceeds the links' windows for every k, no valid solution has makespan C. A larger C needs
    no more evictions, so the least C that is not ruled out, found by bisection, is a lower bound.
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
        link = link_use(instance)
        self.window = link.window_ns
        self.prefetches = prefetch_allowed(instance)
        self.relayout_ns = link.relayout_ns
        self.eviction_ns = link.relayout_ns
        if instance.dimms > 1:
            self.eviction_ns = min(link.relayout_ns, link.rebalance_ns)
        self.k = np.arange(striped + 1)
        self.reads_ns = (striped - self.k) * instance.striped_charge_ns(instance.dram_striped_ns)
        limited = instance.channels is not None
        self.on_channel_ns = (striped - self.k) * (instance.dram_striped_ns if limited else 0)

    def bound(self) -> int:
        """Return the least makespan that is not ruled out."""
        low, high = 0, int(self.reads_ns[0] - min(left[0] for left in self.left))
        high = max(high, int(self.on_channel_ns[0]))
        while low < high:
            middle = (low + high) // 2
            if self._possible(middle):
                high = middle
            else:
                low = middle + 1
        return low

    def _possible(self, makespan_ns: int) -> bool:
        """Return whether counting alone does not refute the makespan."""
        capacity = makespan_ns - self.reads_ns
        evictions: Ints = np.zeros_like(self.k)
        able: NDArray[np.bool_] = self.on_channel_ns <= makespan_ns
        for left in self.left:
            needed = np.searchsorted(left, -capacity, side="left")
            able &= needed < len(left)
            evictions += needed
        spare = np.maximum(self.prefetches - self.k, 0)
        link_ns = np.maximum(self.k - self.prefetches, 0) * self.relayout_ns
        link_ns += np.maximum(evictions - spare, 0) * self.eviction_ns
        return bool((able & (link_ns <= self.window)).any())
