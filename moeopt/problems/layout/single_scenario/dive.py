"""Packing by fractional flows: whole bins are kept, and what is left is asked again.

A flow need not be whole, but at a vertex most of it is. The bins that it fills entirely are closed;
the items that are left make a smaller graph with less to waste, and soon none is left. That finds
nearly every packing that there is, in a fraction of the time of a search for a whole flow.
"""

from time import perf_counter
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.numeric.highs import Vector, minimize

from .arc_flow import Graph, program

Ints = NDArray[np.int64]

WHOLE = 1e-6
"""How far below a whole number a flow may be."""

Packing = list[list[int]]
"""The items of each bin, as numbers into ``graph.sizes``."""


def dive(
    graph: Graph, copies: Ints, bins: int, capacity: int, slots: int, limit_s: float
) -> Packing | Literal["infeasible", "open"]:
    """Return a packing, that there is none, or that this way found none.

    "infeasible" is a proof: there is not even a fractional flow (see `arc_flow.pack`).

    Parameters
    ----------
    graph, copies
        The graph of all items, and how many there are of each of its sizes.
    bins, capacity, slots
        How many bins, and the largest load and number of items of each.
    limit_s
        Seconds.
    """
    if not graph.sizes.all():
        return "open"  # items without a size, which only need slots: rare, and left to `pack`
    begin = perf_counter()
    sizes, left, packing = graph.sizes, copies.copy(), Packing()
    here = np.arange(len(sizes))  # the sizes of `graph`, which shrinks, among all
    while left.any():
        remaining_s = limit_s - (perf_counter() - begin)
        if not len(graph.tail) or remaining_s <= 0:
            return "open" if packing or remaining_s <= 0 else "infeasible"
        relaxed = program(graph, left[here], bins - len(packing), whole=False)
        found = minimize(relaxed, remaining_s)
        if found.values is None:
            return "infeasible" if found.status == "infeasible" and not packing else "open"
        closed = len(packing)
        for share, path in sorted(_paths(graph, found.values), reverse=True):
            items = here[path]
            used = np.bincount(items, minlength=len(sizes))
            # A bin that is filled in part is closed as well where there is none but those.
            for _ in range(int(share + WHOLE) or len(packing) == closed):
                if len(packing) < bins and (used <= left).all():
                    left -= used
                    packing.append(items.tolist())
        if len(packing) == closed:
            return "open"
        here = np.flatnonzero(left)
        waste = (bins - len(packing)) * capacity - int(sizes @ left)
        graph = Graph.of(sizes[here], left[here], capacity, slots, waste)
    return packing


def _paths(graph: Graph, flow: Vector) -> list[tuple[float, list[int]]]:
    """Take a flow apart into bins: the share of each, and its items; widest arcs first."""
    left = flow.copy()
    leaving: dict[int, list[int]] = {}
    for arc in np.flatnonzero(flow > WHOLE).tolist():
        leaving.setdefault(int(graph.tail[arc]), []).append(arc)
    paths = list[tuple[float, list[int]]]()
    while True:
        node, arcs = 0, list[int]()
        while open_ := [arc for arc in leaving.get(node, []) if left[arc] > WHOLE]:
            arcs.append(max(open_, key=left.__getitem__))
            node = int(graph.head[arcs[-1]])
        if not arcs:
            return paths
        share = float(left[arcs].min())
        left[arcs] -= share
        paths.append((share, graph.item[arcs].tolist()))
