"""In which order pulled slices pass link and GPU."""

from .instance import Instance


def flow_shop_order(instance: Instance) -> list[int]:
    """Return the rows of the experts in an order that is best however many slices are pulled.

    Residents come first, then the others by falling computation. Proof: among equal transfers that
    is Johnson's order, up to the order of those with the longer computation, which is free.
    """
    experts = instance.experts
    return sorted(
        range(len(experts)), key=lambda row: (not experts[row].resident, -experts[row].slice_gpu_ns)
    )
