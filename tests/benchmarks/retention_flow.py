"""The reference for the Belady bound: at one weight the best retention is a flow of least cost.

A unit of flow is a slot. It walks along the tokens, empty, or leaves them at an access to stay
with that expert until a later access of it: an arc from access to access saves the miss at its end,
the arc into the first one costs the fetch. Between two tokens exactly `slots` units pass. Flows of
whole units are retentions and the other way round, and some optimal flow is whole.
"""

import numpy as np
from ortools.graph.python.min_cost_flow import SimpleMinCostFlow

from benchmarks.studies.belady_bound import Reuse


def least_weighted(reuse: Reuse, p: int, scale: int) -> int:
    """Return the least p x computing + (scale - p) x copying of any retention, in integers.

    Meant for small traces: the network has three arcs per access, and takes minutes at a million.

    Raises
    ------
    RuntimeError
        If the flow cannot be found, e.g. because the costs are too large.
    """
    tokens, accesses = reuse.tokens, len(reuse.token)
    every_miss = p * (reuse.fixed_ns + int(reuse.miss_ns.sum()))
    if tokens == 1:
        return every_miss
    walk = np.arange(tokens - 1)
    access = tokens + np.arange(accesses)
    later = np.flatnonzero(~reuse.first)
    tail = np.concatenate([walk, reuse.token, access, access[later - 1]])
    head = np.concatenate([walk + 1, access, reuse.token, access[later]])
    capacity = np.ones(len(tail), dtype=np.int64)
    capacity[: tokens - 1] = reuse.slots
    cost = np.zeros(len(tail), dtype=np.int64)
    cost[tokens - 1 : tokens - 1 + accesses] = (scale - p) * reuse.fetch_ns
    cost[len(cost) - len(later) :] = -p * reuse.miss_ns[later]
    network = SimpleMinCostFlow()
    network.add_arcs_with_capacity_and_unit_cost(tail, head, capacity, cost)
    network.set_nodes_supplies(np.array([0, tokens - 1]), np.array([reuse.slots, -reuse.slots]))
    if (status := network.solve()) != network.OPTIMAL:
        raise RuntimeError(f"min-cost flow: {status}")
    saved: int = network.optimal_cost()
    return every_miss + saved
