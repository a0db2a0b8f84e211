"""What the slots and the two windows allow: prefetches over PCIe, moves over DIMM-Link."""

from dataclasses import dataclass

from .instance import Instance


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
    limit = min(instance.hbm_free_slots, len(instance.experts))
    if instance.prefetch_ns == 0:
        return limit
    return min(limit, instance.pcie_window_ns // instance.prefetch_ns)


def link_moves_allowed(instance: Instance) -> tuple[bool, bool]:
    """Return whether one layout change, and one move to another DIMM, fits into the window."""
    window = instance.dimm_link_window_ns
    return instance.relayout_ns <= window, instance.rebalance_ns <= window and instance.dimms > 1
