"""Is there a placement below a peak: packing with copies as an arc flow (one window, even split).

An item (e, k) is one of k copies of expert e, of size l_e / k. A device is a path from node (0, 0)
through nodes (load, items): an arc adds an item; items are added in a fixed order (Valerio de
Carvalho 1999). Unlike in plain packing, how many items there are is decided too: k of (e, k) if
z_ek is 1, with one such k for each expert.

Proof that "infeasible" refutes the peak. A placement with less gives a flow: each device's copies,
in order, are a path, since every load on the way is at most the peak and every arc of the graph
that a path can need is there. The rows are met without any error: their entries are -1, 0, 1 and
numbers of copies. A flow in turn need not be a placement, for a path may take an item twice.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array, csr_array

from moeopt.core.feasibility import Feasibility
from moeopt.core.highs import Program, minimize

from .instance import Instance
from .solution import Solution

MAX_ARCS = 20_000
"""Larger graphs are not tried: HiGHS would not finish."""

ANY_FLOW = 10.0
"""Relative gap at which the first flow found ends the search."""


@dataclass(frozen=True)
class Graph:
    """Arcs by tail, head and item; nodes are numbered, the empty device is node 0."""

    items: list[tuple[int, int]]
    tail: list[int]
    head: list[int]
    item: list[int]
    nodes: int


def graph(instance: Instance, peak: int) -> Graph | None:
    """Return the graph of the devices with at most a peak, in units; None if it is too large."""
    loads = instance.loads_units[0].tolist()
    most = instance.most_copies
    items = [
        (e, k)
        for e, load in enumerate(loads)
        for k in range(1, most + 1)
        if load <= peak * k and (load or k == 1)
    ]
    items.sort(key=lambda item: -loads[item[0]] // item[1])
    number: dict[tuple[int, int], int] = {(0, 0): 0}
    tail: list[int] = []
    head: list[int] = []
    used: list[int] = []
    for place, (e, k) in enumerate(items):
        size = loads[e] // k
        for (load, held), node in list(number.items()):
            if held < instance.slots and load + size <= peak:
                to = number.setdefault((load + size, held + 1), len(number))
                tail.append(node)
                head.append(to)
                used.append(place)
        if len(tail) > MAX_ARCS:
            return None
    return Graph(items, tail, head, used, len(number))


def placement(instance: Instance, peak: int, limit_s: float) -> tuple[Feasibility, Solution | None]:
    """Look for a placement with at most a peak, in units.

    Returns
    -------
    tuple
        Infeasible is a refutation; a solution if there is one; unknown otherwise.
    """
    found = graph(instance, peak)
    if found is None:
        return Feasibility.UNKNOWN, None
    answer = minimize(_program(instance, found), limit_s, relative_gap=ANY_FLOW)
    if answer.values is None:
        refuted = answer.status == "infeasible"
        return Feasibility.INFEASIBLE if refuted else Feasibility.UNKNOWN, None
    flow = np.rint(answer.values[: len(found.tail)]).astype(np.int64)
    rows: list[list[int]] = [[] for _ in range(instance.experts)]
    for device, path in enumerate(_paths(found, flow)):
        for item in path:
            rows[found.items[item][0]].append(device)
    if any(len(set(row)) < len(row) for row in rows):
        return Feasibility.UNKNOWN, None
    return Feasibility.FEASIBLE, Solution(instance=instance.name, copies=tuple(map(tuple, rows)))


def _program(instance: Instance, found: Graph) -> Program:
    """Return the program: flow into each node is at least that out of it; the items' numbers.

    Columns are the arcs and then z, one for each item.
    """
    arcs, items, nodes = len(found.tail), len(found.items), found.nodes
    each, ones = np.arange(arcs), np.ones(arcs)
    first = nodes + items
    expert = np.array([e for e, _ in found.items])
    copies = np.array([k for _, k in found.items], dtype=np.float64)
    z = arcs + np.arange(items)
    entries = np.concatenate([ones, -ones, ones, -copies, np.ones(items)])
    rows = np.concatenate(
        [
            np.array(found.head),
            np.array(found.tail),
            nodes + np.array(found.item),
            nodes + np.arange(items),
            first + expert,
        ]
    )
    columns = np.concatenate([each, each, each, z, z])
    shape = (first + instance.experts, arcs + items)
    matrix = csr_array(coo_array((entries, (rows, columns)), shape=shape))
    lower, upper = np.zeros(shape[0]), np.zeros(shape[0])
    upper[:nodes] = np.inf
    lower[0], upper[0] = -instance.devices, 0
    lower[first:], upper[first:] = 1, 1
    most = np.concatenate([copies[found.item], np.ones(items)])
    cost = np.concatenate([np.random.default_rng(0).random(arcs), np.zeros(items)])
    least, integer = np.zeros(arcs + items), np.ones(arcs + items, dtype=np.int64)
    return Program(cost, least, most, integer, matrix, lower, upper)


def _paths(found: Graph, flow: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[list[int]]:
    """Take a flow apart into paths; each gives the items of one device."""
    left: dict[int, list[int]] = {}
    for arc in np.repeat(np.arange(len(flow)), flow).tolist():
        left.setdefault(found.tail[arc], []).append(arc)
    devices = []
    while left.get(0):
        node, items = 0, []
        while left.get(node):
            arc = left[node].pop()
            items.append(found.item[arc])
            node = found.head[arc]
        devices.append(items)
    return devices
