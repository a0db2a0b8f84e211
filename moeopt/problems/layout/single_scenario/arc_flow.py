"""Packing as an arc flow (Valerio de Carvalho 1999): do items fit into bins of a capacity.

A bin is a path from node (0, 0) through nodes (load, items): an arc adds an item. Items are added
by falling size, so that each set of items is one path, and integral flows fall apart into paths.
Nodes that no bin can end at, and arcs that lead to none of them, are left out: in a packing no bin
wastes more than all may together, which is their room less the sum of all sizes.

Where a bin may hold few of one kind, the localized reads of a channel (LA-C8), those are added
first: their arcs begin at the loads of 0, 1, ... of them, fewer than the limit, and since loads
grow along a path, it has no more of them.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import spend

from .scenario import Ints, SingleScenario, Times

ARCS_PER_UNIT = 2_000_000
"""Arcs that are made in a unit of work."""

MAX_NODES = 50_000
"""Largest graph in nodes, before any are left out, without rounding sizes."""

COARSE = 2000
"""Steps of a bin's capacity in graphs that would be too large otherwise."""

Nodes = NDArray[np.bool_]


class TooManyNodesError(Exception):
    """The graph has more nodes than it may have."""


Packing = list[list[int]]
"""The items of each bin, as numbers into ``graph.sizes``."""


@dataclass(frozen=True)
class Items:
    """Different sizes, falling, and how many items have each; with `first`, those stand first.

    Zero sizes are left out unless they need slots.
    """

    sizes: Times
    copies: Ints
    slots: int
    first: int = 0

    @classmethod
    def of(cls, sizes: Times, slots: int, first: int = 0) -> "Items":
        """Count the items, given in falling order but for the `first` equal ones: a size apart."""
        apart, sizes = sizes[:first], sizes[first:]
        if len(sizes) + first <= slots:
            sizes = sizes[sizes > 0]
        different, copies = np.unique(-sizes, return_counts=True)
        sizes = np.concatenate([apart[:1], -different])
        return cls(sizes, np.append([first] * bool(first), copies).astype(np.int64), slots, first)

    def places(self, bins: list[list[int]], sizes: Times) -> Ints:
        """Return the bin of each item; `sizes` as in `of`, those left out included."""
        place, first = np.zeros(len(sizes), dtype=np.int64), self.first
        rest = self.sizes[int(first > 0) :].tolist()
        of_size = [(first + np.flatnonzero(sizes[first:] == size)).tolist() for size in rest]
        of_size = [list(range(first))] * bool(first) + of_size
        for number, items in enumerate(bins):
            for item in items:
                place[of_size[item].pop()] = number
        return place


@dataclass(frozen=True)
class Graph:
    """Arcs, sorted by item: the arc `a` adds an item of ``sizes[item[a]]``.

    Node 0 is the empty bin. `ends` says at which nodes a bin may end. If `most_first` is not None,
    a bin holds at most so many of the first size.
    """

    sizes: Times
    tail: Ints
    head: Ints
    item: Ints
    ends: Nodes
    most_first: int | None = None

    @classmethod
    def of(
        cls,
        sizes: Times,
        copies: Ints,
        capacity: int,
        slots: int,
        waste: int,
        most_first: int | None = None,
        most_nodes: int | None = None,
    ) -> "Graph":
        """Return the graph of bins with items of different positive `sizes`, falling.

        Parameters
        ----------
        sizes, copies
            The sizes (zero only with binding slots), and how many items there are of each.
        capacity, slots
            The largest load of a bin, and its largest number of items.
        waste
            A bin with a load below ``capacity - waste`` cannot be part of any packing.
        most_first
            How many of the first size, which need not be the largest, a bin holds at most.
        most_nodes
            How many loads may be reached; none: any number.

        Raises
        ------
        TooManyNodesError
            If more are reached.
        """
        used = copies if most_first is None else np.append(min(copies[0], most_first), copies[1:])
        counted = _slots_bind(sizes, copies, capacity, slots)
        # A node is load * rows + number of items, or the load alone where slots do not bind.
        rows = slots + 1 if counted else 1
        steps, top = sizes * rows + int(counted), (capacity + 1) * rows
        reached, tails = np.zeros(1, dtype=np.int64), []
        for step, number in zip(steps.tolist(), used.tolist(), strict=True):
            front, tail = reached, reached
            for of in range(number):
                if counted:
                    front = front[front % rows < slots]
                front = front[front + step < top]
                tail = front if of == 0 else _union(tail, front)
                front = front + step
                if not len(front):
                    break
                reached = _union(reached, front)
                if most_nodes is not None and len(reached) > most_nodes:
                    raise TooManyNodesError
            tails.append(tail)
        ends = reached[reached >= rows * max(0, capacity - waste)]
        useful, arcs = ends, []
        for step, tail in zip(steps[::-1].tolist(), tails[::-1], strict=True):
            before = -1
            while len(useful) != before:
                before = len(useful)
                useful = _union(useful, tail[_among(tail + step, useful)])
            arcs.append(tail[_among(tail + step, useful)])
        arcs = arcs[::-1]
        item = np.repeat(np.arange(len(sizes)), [len(tail) for tail in arcs])
        tails_of = np.concatenate([*arcs, np.zeros(0, dtype=np.int64)])
        heads_of = tails_of + steps[item]
        nodes = np.unique(np.concatenate([[0], tails_of, heads_of]))
        return cls(
            sizes,
            np.searchsorted(nodes, tails_of),
            np.searchsorted(nodes, heads_of),
            item,
            _among(nodes, ends),
            most_first,
        )


def _union(first: Ints, second: Ints) -> Ints:
    """Return the union of two rising arrays, rising."""
    both = np.sort(np.concatenate([first, second]), kind="stable")  # merges what is sorted
    return both[np.append(True, both[1:] != both[:-1])] if len(both) else both


def _among(values: Ints, rising: Ints) -> Nodes:
    """Return which values are in a rising array."""
    if not len(rising):
        return np.zeros(len(values), dtype=np.bool_)
    at = np.minimum(np.searchsorted(rising, values), len(rising) - 1)
    return np.asarray(rising[at] == values)


def _slots_bind(sizes: Times, copies: Ints, capacity: int, slots: int) -> bool:
    """Return whether some `slots` + 1 items fit together."""
    if copies.sum() <= slots:
        return False
    smallest = np.sort(np.repeat(sizes, copies))[: slots + 1]
    return int(smallest.sum()) <= capacity


def build(
    scenario: SingleScenario,
    sizes: Times,
    capacity: int,
    least: int,
    first: int = 0,
    most_first: int | None = None,
) -> tuple[int, Items, Graph]:
    """Return the step that sizes are counted in, rounded down, the items and their graph.

    The step is the sizes' divisor unless that gives too large a graph. Rounding every size down is
    a relaxation: it admits more packings. `least` is the sum of what is packed, at least. If there
    are `first` items of which a bin may hold `most_first`, their size stands first in `sizes`.
    """
    step = int(np.gcd.reduce(sizes)) or max(1, capacity)  # no sizes but zero: any step will do

    def counted_in(
        step: int, first: int, least: int, most_nodes: int | None = None
    ) -> tuple[int, Items, Graph]:
        items = Items.of(sizes // step, scenario.slots, first)
        waste = scenario.dimms * (capacity // step) - least // step
        bins = (capacity // step, scenario.slots, waste)
        most = most_first if first else None
        graph = Graph.of(items.sizes, items.copies, *bins, most, most_nodes)
        spend(len(graph.tail) / ARCS_PER_UNIT)
        return step, items, graph

    try:
        return counted_in(step, first, least, MAX_NODES)
    except TooManyNodesError:
        step *= max(1, -(-capacity // (COARSE * step)))
        # Reads that are rounded to nothing are any number.
        return counted_in(step, first if sizes[0] >= step else 0, least - len(sizes) * (step - 1))


def decompose(graph: Graph, flow: Ints) -> list[list[int]]:
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
