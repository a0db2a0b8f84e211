"""Packing as a flow (Valerio de Carvalho 1999): is there one within a capacity or not.

A bin is a path from node (0, 0) through nodes (load, items): an arc adds an item. Items are added
by falling size, so that each set of items is one path. Nodes that no bin can end at, because more
would be wasted than there is to waste, and arcs that lead to none of them, are left out.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from moeopt.numeric.highs import Program, minimize

from .scenario import Times

ANY_PACKING = 10.0
"""Relative gap at which the first packing found ends the search."""

Ints = NDArray[np.int64]
Nodes = NDArray[np.bool_]


@dataclass(frozen=True)
class Items:
    """Different sizes, falling, and how many items have each.

    Zero sizes are left out unless they need slots.
    """

    sizes: Times
    copies: Ints
    slots: int

    @classmethod
    def of(cls, sizes: Times, slots: int) -> "Items":
        """Count the items, given in falling order."""
        if len(sizes) <= slots:
            sizes = sizes[sizes > 0]
        different, copies = np.unique(-sizes, return_counts=True)
        return cls(-different, copies.astype(np.int64), slots)

    def cells(self, capacity: int) -> int:
        """Return how many nodes and sizes there are to look at."""
        rows = self.slots + 1 if _slots_bind(self.sizes, self.copies, capacity, self.slots) else 1
        return rows * (capacity + 1) * len(self.sizes)

    def places(self, bins: list[list[int]], sizes: Times) -> Ints:
        """Return the bin of each item; `sizes` are theirs, falling, those left out included."""
        place = np.zeros(len(sizes), dtype=np.int64)
        of_size = [np.flatnonzero(sizes == size).tolist() for size in self.sizes.tolist()]
        for number, items in enumerate(bins):
            for item in items:
                place[of_size[item].pop()] = number
        return place


@dataclass(frozen=True)
class Graph:
    """Arcs, sorted by item: the arc `a` adds an item of ``sizes[item[a]]``.

    Node 0 is the empty bin. `ends` says at which nodes a bin may end.
    """

    sizes: Times
    tail: Ints
    head: Ints
    item: Ints
    ends: Nodes

    @classmethod
    def of(cls, sizes: Times, copies: Ints, capacity: int, slots: int, waste: int) -> "Graph":
        """Return the graph of bins with items of different positive `sizes`, falling.

        Parameters
        ----------
        sizes, copies
            The sizes (zero only with binding slots), and how many items there are of each.
        capacity, slots
            The largest load of a bin, and its largest number of items.
        waste
            A bin with a load below ``capacity - waste`` cannot be part of any packing.
        """
        counted = _slots_bind(sizes, copies, capacity, slots)
        step = int(counted)
        reached = np.zeros((slots + 1 if counted else 1, capacity + 1), dtype=np.bool_)
        reached[0, 0] = True
        tails = []
        for size, number in zip(sizes.tolist(), copies.tolist(), strict=True):
            tail, front = np.zeros_like(reached), reached
            for _ in range(number):
                tail |= front
                front = _add(front, size, step)
                if not front.any():
                    break
                reached = reached | front
            tails.append(tail)
        ends = reached.copy()
        ends[:, : max(0, capacity - waste)] = False
        useful, arcs = ends.copy(), []
        for item in range(len(sizes) - 1, -1, -1):
            size, before = int(sizes[item]), None
            while before is None or (useful != before).any():
                before = useful
                useful = useful | tails[item] & _remove(useful, size, step)
            arcs.append((item, tails[item] & _remove(useful, size, step)))
        return cls._numbered(sizes, arcs[::-1], ends, counted)

    @classmethod
    def _numbered(
        cls,
        sizes: Times,
        arcs: list[tuple[int, Nodes]],
        ends: Nodes,
        counted: bool,
    ) -> "Graph":
        width = ends.shape[1]
        tail = [np.flatnonzero(at) for _, at in arcs]
        item = np.repeat([number for number, _ in arcs], [len(t) for t in tail])
        tails = np.concatenate([*tail, np.array([], dtype=np.int64)]).astype(np.int64)
        item = item.astype(np.int64)
        heads = tails + sizes[item] + (width if counted else 0)
        nodes = np.unique(np.concatenate([[0], tails, heads]))
        return cls(
            sizes,
            np.searchsorted(nodes, tails),
            np.searchsorted(nodes, heads),
            item,
            ends.ravel()[nodes],
        )


def _slots_bind(sizes: Times, copies: Ints, capacity: int, slots: int) -> bool:
    """Return whether some `slots` + 1 items fit together."""
    if copies.sum() <= slots:
        return False
    smallest = np.repeat(sizes[::-1], copies[::-1])[: slots + 1]
    return int(smallest.sum()) <= capacity


def _add(at: Nodes, size: int, step: int) -> Nodes:
    """Return the nodes that an item leads to from those in `at`; `step` is 1 if items count."""
    to = np.zeros_like(at)
    rows, width = at.shape
    if size < width:
        to[step:, size:] = at[: rows - step, : width - size]
    return to


def _remove(at: Nodes, size: int, step: int) -> Nodes:
    """Return the nodes that an item leads from to those in `at`."""
    to = np.zeros_like(at)
    rows, width = at.shape
    if size < width:
        to[: rows - step, : width - size] = at[step:, size:]
    return to


def pack(
    graph: Graph, copies: Ints, bins: int, limit_s: float
) -> list[list[int]] | Literal["infeasible", "limit"]:
    """Return the items of each bin (numbers into ``graph.sizes``), or that there is no packing.

    HiGHS decides. Its "infeasible" is used as a proof: every entry of the matrix is -1, 0 or 1 and
    every right-hand side a small integer, so that a packing satisfies each row without any error,
    and tolerances of 1e-6 only admit more. What it calls a packing, the caller checks.
    """
    if not len(graph.tail):
        return "infeasible" if copies.any() else []
    found = minimize(program(graph, copies, bins, whole=True), limit_s, relative_gap=ANY_PACKING)
    if found.values is None:
        return "infeasible" if found.status == "infeasible" else "limit"
    return bins_of(graph, np.rint(found.values).astype(np.int64))


def program(graph: Graph, copies: Ints, bins: int, *, whole: bool) -> Program:
    """Return the program of the flows that use each size as often as there are copies."""
    arcs, nodes, sizes = len(graph.tail), len(graph.ends), len(graph.sizes)
    each, ones = np.arange(arcs), np.ones(arcs)
    # Rows: what flows into each node less what flows out; then how often each item is used.
    row = np.concatenate([graph.head, graph.tail, nodes + graph.item])
    entries = (np.concatenate([ones, -ones, ones]), (row, np.tile(each, 3)))
    matrix = csr_array(coo_array(entries, shape=(nodes + sizes, arcs)))
    lower = np.concatenate([np.zeros(nodes), copies]).astype(np.float64)
    upper = np.concatenate([np.where(graph.ends, bins, 0), copies]).astype(np.float64)
    lower[0], upper[0] = -bins, 0
    most = copies[graph.item].astype(np.float64)
    kind = np.full(arcs, int(whole))
    return Program(preference(graph), np.zeros(arcs), most, kind, matrix, lower, upper)


def preference(graph: Graph) -> NDArray[np.float64]:
    """Return a price of each arc, between 0 and 1.

    Any flow will do, but with an objective, whichever it is, flows run along few arcs, and are
    whole sooner: that makes HiGHS up to ten times faster.
    """
    drawn = np.random.default_rng(0).random(len(graph.tail))
    return np.asarray(drawn * graph.sizes[graph.item] / graph.sizes.max(initial=1))


def bins_of(graph: Graph, flow: Ints) -> list[list[int]]:
    """Take the flow apart into paths from the empty bin; each gives the items of one bin."""
    left: dict[int, list[int]] = {}
    for arc in np.repeat(np.arange(len(flow)), flow).tolist():
        left.setdefault(int(graph.tail[arc]), []).append(arc)
    bins = []
    while left.get(0):
        node, items = 0, []
        while left.get(node):
            arc = left[node].pop()
            items.append(int(graph.item[arc]))
            node = int(graph.head[arc])
        bins.append(items)
    return bins
