"""What the slots and the two windows allow: prefetches over PCIe, moves over DIMM-Link."""

from dataclasses import dataclass
from math import gcd

from .instance import Instance, active_experts


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
    window, experts = instance.dimm_link_window_ns, len(active_experts(instance))
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


def own_link_threshold_ns(instance: Instance) -> float:
    """Return the same for the link of one DIMM, where every DIMM has its own.

    Every total is a multiple of the lengths' greatest common divisor.
    """
    share = instance.relayout_share_ns or 0
    step = gcd(instance.relayout_ns, instance.rebalance_ns, share) or 1
    return (instance.dimm_link_window_ns // step + 0.5) * step


@dataclass(frozen=True)
class LinkUse:
    """DIMM-Link time summed over all links: what one migration takes of it, and what there is."""

    relayout_ns: int
    rebalance_ns: int
    window_ns: int


def link_use(instance: Instance) -> LinkUse:
    """Return what one layout change and one move take of all links' windows together.

    Where all DIMMs share a link this is RE-C7; where each has its own, the sum of RE-C13 over all
    DIMMs, which it implies.
    """
    i, dimms = instance, instance.dimms
    if i.relayout_share_ns is None:
        return LinkUse(i.relayout_ns, i.rebalance_ns, i.dimm_link_window_ns)
    change = i.relayout_ns + (dimms - 1) * i.relayout_share_ns
    return LinkUse(change, 2 * i.rebalance_ns, dimms * i.dimm_link_window_ns)


def prefetch_allowed(instance: Instance) -> int:
    """Return how many prefetches free slots and the PCIe window allow together."""
    return min(instance.hbm_free_slots, prefetch_limit(instance))


def link_moves_allowed(instance: Instance) -> tuple[bool, bool]:
    """Return whether one layout change, and one move to another DIMM, fits into the window."""
    window = instance.dimm_link_window_ns
    return instance.relayout_ns <= window, instance.rebalance_ns <= window and instance.dimms > 1
