"""Facts about an instance that bounds and models share: its windows and its largest costs."""

from .instance import Expert, Instance


def costs_ns(expert: Expert) -> tuple[int, ...]:
    """Return the costs of every path that the expert may ever take."""
    misses = (expert.gpu_miss_striped_ns, expert.gpu_miss_localized_ns)
    hosts = (expert.gpu_hit_ns, expert.cpu_striped_ns, expert.cpu_localized_ns)
    return (*hosts, expert.ndp_ns) if expert.resident else (*hosts, *misses, expert.ndp_ns)


def active(instance: Instance) -> list[Expert]:
    """Return the experts with tokens."""
    return [expert for expert in instance.experts if expert.tokens]


def longest_ns(instance: Instance) -> int:
    """Return what no device's load exceeds: every expert's longest path or read, one by one."""
    reads = (instance.dram_striped_ns, instance.dram_localized_ns)
    return sum(max(*costs_ns(expert), *reads) for expert in active(instance))


def prefetch_limit(instance: Instance) -> int:
    """Return how many prefetches the PCIe window holds; at most one per expert matters."""
    if instance.prefetch_ns == 0:
        return len(instance.experts)
    return min(instance.pcie_window_ns // instance.prefetch_ns, len(instance.experts))


def link_threshold_ns(instance: Instance) -> float:
    """Return a limit on the DIMM-Link's total time that no total comes near to.

    It lies half-way between the largest total that fits into the window and the smallest that does
    not, over all numbers of layout changes and moves. As a right-hand side it means the same as the
    window, and a solver's rounding cannot blur it.
    """
    window, experts = instance.dimm_link_window_ns, len(active(instance))
    fits, over = 0, window + instance.relayout_ns + instance.rebalance_ns + 1
    for rebalances in range(experts + 1):
        moves_ns = rebalances * instance.rebalance_ns
        if moves_ns > window:
            over = min(over, moves_ns)
            break
        relayouts = 2 * experts  # each is striped and localized at most, even without RE-C3
        if instance.relayout_ns:
            relayouts = min(relayouts, (window - moves_ns) // instance.relayout_ns)
        fits = max(fits, moves_ns + relayouts * instance.relayout_ns)
        if (more := moves_ns + (relayouts + 1) * instance.relayout_ns) > window:
            over = min(over, more)
    return (fits + over) / 2


def prefetch_allowed(instance: Instance) -> int:
    """Return how many prefetches free slots and the PCIe window allow together."""
    return min(instance.hbm_free_slots, prefetch_limit(instance))


def link_moves_allowed(instance: Instance) -> tuple[bool, bool]:
    """Return whether one layout change, and one move to another DIMM, fits into the window."""
    window = instance.dimm_link_window_ns
    return instance.relayout_ns <= window, instance.rebalance_ns <= window and instance.dimms > 1
