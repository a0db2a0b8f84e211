"""Packing as an arc flow (Valerio de Carvalho 1999): do items fit into bins of a capacity.

A bin is a path from node (0, 0) through nodes (load, items): an arc adds an item. Items are added
by falling size, so that each set of items is one path. Nodes that no bin can end at, because more
would be wasted than there is to waste, and arcs that lead to none of them, are left out.

Where a bin may hold few of one kind, the localized reads of a channel (LA-C8), those are added
first: their arcs begin at the loads of 0, 1, ... of them, fewer than the limit, and since loads
grow along a path, it has no more of them.

Why HiGHS's "infeasible" is taken for a refutation: every entry of the matrix is -1, 0 or 1 and
every right-hand side a small integer, so that a packing satisfies each row without any error, and
tolerances of 1e-6 only admit more. With ``Search.verify`` it is taken only where CP-SAT confirms
it. What HiGHS calls a packing, the caller checks.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from moeopt.numeric.clock import solving_clock
from moeopt.numeric.feasibility import Feasibility
from moeopt.numeric.highs import Program, Vector, minimize

from .scenario import Ints, SingleScenario, Times

ANY_PACKING = 10.0
"""Relative gap at which the first packing found ends the search."""

MAX_CELLS = 4_000_000
"""Largest graph, in nodes times sizes before any are left out, without rounding sizes."""

COARSE = 2000
"""Steps of a bin's capacity in graphs that would be too large otherwise."""

WHOLE = 1e-6
"""How far below a whole number a flow may be."""

Nodes = NDArray[np.bool_]

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

    def cells(self, capacity: int) -> int:
        """Return how many nodes and sizes there are to look at."""
        rows = self.slots + 1 if _slots_bind(self.sizes, self.copies, capacity, self.slots) else 1
        return rows * (capacity + 1) * len(self.sizes)

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
        """
        used = copies if most_first is None else np.append(min(copies[0], most_first), copies[1:])
        counted = _slots_bind(sizes, copies, capacity, slots)
        step = int(counted)
        reached = np.zeros((slots + 1 if counted else 1, capacity + 1), dtype=np.bool_)
        reached[0, 0] = True
        tails = []
        for size, number in zip(sizes.tolist(), used.tolist(), strict=True):
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
        return cls._numbered(sizes, arcs[::-1], ends, counted, most_first)

    @classmethod
    def _numbered(
        cls,
        sizes: Times,
        arcs: list[tuple[int, Nodes]],
        ends: Nodes,
        counted: bool,
        most_first: int | None,
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
            most_first,
        )


def _slots_bind(sizes: Times, copies: Ints, capacity: int, slots: int) -> bool:
    """Return whether some `slots` + 1 items fit together."""
    if copies.sum() <= slots:
        return False
    smallest = np.sort(np.repeat(sizes, copies))[: slots + 1]
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
    dimms, slots = scenario.dimms, scenario.slots
    step = int(np.gcd.reduce(sizes)) or max(1, capacity)  # no sizes but zero: any step will do
    items = Items.of(sizes // step, slots, first)
    if items.cells(capacity // step) > MAX_CELLS:
        step *= max(1, -(-capacity // (COARSE * step)))
        first = (
            first if first and sizes[0] >= step else 0
        )  # rounded to nothing, they are any number
        items = Items.of(sizes // step, slots, first)
        least -= len(sizes) * (step - 1)
    waste = dimms * (capacity // step) - least // step
    bins = (capacity // step, slots, waste)
    return step, items, Graph.of(items.sizes, items.copies, *bins, most_first if first else None)


def pack(graph: Graph, copies: Ints, bins: int, limit_s: float) -> tuple[Feasibility, Packing]:
    """Decide with HiGHS whether the items fit; return a packing if they do."""
    if not len(graph.tail):
        return Feasibility.INFEASIBLE if copies.any() else Feasibility.FEASIBLE, []
    found = minimize(program(graph, copies, bins, whole=True), limit_s, relative_gap=ANY_PACKING)
    if found.values is None:
        infeasible = found.status == "infeasible"
        return Feasibility.INFEASIBLE if infeasible else Feasibility.UNKNOWN, []
    return Feasibility.FEASIBLE, decompose(graph, np.rint(found.values).astype(np.int64))


def dive(
    graph: Graph, copies: Ints, bins: int, capacity: int, slots: int, limit_s: float
) -> tuple[Feasibility, Packing]:
    """Look for a packing by a diving heuristic; return it, or what is known instead.

    A flow of the linear relaxation need not be integral, but at a vertex most of it is. The bins
    that it fills entirely are fixed; the items that are left make a smaller graph with less to
    waste, and soon none is left. That finds nearly every packing that there is, in a fraction of
    the time that an integral flow takes.

    Parameters
    ----------
    graph, copies
        The graph of all items, and how many there are of each of its sizes.
    bins, capacity, slots
        How many bins, and the largest load and number of items of each.
    limit_s
        Seconds.

    Returns
    -------
    tuple
        Infeasible only where not even the first relaxation has a flow; unknown where the dive fails
        later; the packing, empty unless feasible.
    """
    if not graph.sizes.all():
        return Feasibility.UNKNOWN, []  # zero sizes that only need slots are rare: see `pack`
    clock = solving_clock()
    begin = clock.now()
    sizes, left, packing = graph.sizes, copies.copy(), Packing()
    most_first = graph.most_first
    here = np.arange(len(sizes))  # the sizes of `graph`, which shrinks, among all
    failed = Feasibility.INFEASIBLE
    while left.any():
        remaining_s = limit_s - (clock.now() - begin)
        if remaining_s <= 0:
            return Feasibility.UNKNOWN, []
        if not len(graph.tail):
            return failed, []
        relaxed = program(graph, left[here], bins - len(packing), whole=False)
        found = minimize(relaxed, remaining_s)
        if found.values is None:
            return failed if found.status == "infeasible" else Feasibility.UNKNOWN, []
        fixed = len(packing)
        for share, path in sorted(_fractional_bins(graph, found.values), reverse=True):
            items = here[path]
            used = np.bincount(items, minlength=len(sizes))
            # A bin that is filled in part is fixed as well where there is none but those.
            for _ in range(int(share + WHOLE) or len(packing) == fixed):
                if len(packing) < bins and (used <= left).all():
                    left -= used
                    packing.append(items.tolist())
        if len(packing) == fixed:
            return Feasibility.UNKNOWN, []
        failed = Feasibility.UNKNOWN
        here = np.flatnonzero(left)
        waste = (bins - len(packing)) * capacity - int(sizes @ left)
        limit = most_first if left[0] else None
        graph = Graph.of(sizes[here], left[here], capacity, slots, waste, limit)
    return Feasibility.FEASIBLE, packing


def program(graph: Graph, copies: Ints, bins: int, *, whole: bool) -> Program:
    """Return the program of the flows that use each size as often as there are copies."""
    matrix, lower, upper = flow_rows(graph, bins)
    demand = np.concatenate([np.zeros(len(graph.ends)), copies])
    most = copies[graph.item].astype(np.float64)
    kind = np.full(len(most), int(whole))
    costs, least = arc_costs(graph), np.zeros(len(most))
    return Program(costs, least, most, kind, matrix, lower + demand, upper + demand)


def flow_rows(graph: Graph, bins: int) -> tuple[csr_array, Vector, Vector]:
    """Return rows over the arcs, and their limits before any demand.

    First what flows into each node less what flows out; then how often each size is used.
    """
    arcs, nodes, sizes = len(graph.tail), len(graph.ends), len(graph.sizes)
    each, ones = np.arange(arcs), np.ones(arcs)
    row = np.concatenate([graph.head, graph.tail, nodes + graph.item])
    entries = (np.concatenate([ones, -ones, ones]), (row, np.tile(each, 3)))
    lower, upper = np.zeros(nodes + sizes), np.zeros(nodes + sizes)
    upper[:nodes][graph.ends] = bins
    lower[0], upper[0] = -bins, 0
    return csr_array(coo_array(entries, shape=(nodes + sizes, arcs))), lower, upper


def arc_costs(graph: Graph) -> NDArray[np.float64]:
    """Return a cost of each arc, between 0 and 1.

    Any flow will do, but with an objective, whichever it is, flows run along few arcs, and are
    whole sooner: that makes HiGHS up to ten times faster.
    """
    drawn = np.random.default_rng(0).random(len(graph.tail))
    return np.asarray(drawn * graph.sizes[graph.item] / graph.sizes.max(initial=1))


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


def _fractional_bins(graph: Graph, flow: Vector) -> list[tuple[float, list[int]]]:
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
