"""Other shares of groups over nodes than the published one, for annealing to start from."""

import numpy as np

from .eplb import placed, within_nodes
from .instance import Instance, Ints
from .solution import Solution

STARTS = 4
"""Shares of groups that are looked for."""

EXCHANGES = 20_000
"""Pairs of groups that are compared for each, at most."""


def node_starts(instance: Instance, seed: int) -> list[Solution]:
    """Return placements with different groups in the nodes; none where there is one node.

    From random shares, two groups change places as long as the weighted sum over windows of the
    fullest node's load falls. Within the nodes copies are made and placed as EPLB does.
    """
    if instance.nodes == 1:
        return []
    rng, size = np.random.default_rng(seed), instance.group_size
    groups = instance.experts // size
    loads = instance.loads_units.reshape(len(instance.windows), groups, size).sum(axis=2)
    summed = (instance.weights @ (instance.loads_units // instance.units_per_token)).tolist()
    found = []
    for _ in range(STARTS):
        node = rng.permutation(np.arange(groups) % instance.nodes)
        _exchange(instance, loads, node)
        members = [np.flatnonzero(node == n).tolist() for n in range(instance.nodes)]
        slots = instance.devices * instance.slots
        on_device = within_nodes(
            summed, members, groups, slots, instance.devices, instance.most_copies
        )
        rows = placed(on_device, summed, instance.devices_per_node, True)
        found.append(Solution(instance=instance.name, copies=tuple(map(tuple, rows))))
    return found


def _exchange(instance: Instance, loads: Ints, node: Ints) -> None:
    """Let groups change places while that helps; `node` is changed."""
    of_node = np.zeros((len(loads), instance.nodes), dtype=np.int64)
    for group, at in enumerate(node.tolist()):
        of_node[:, at] += loads[:, group]
    best, left, improved = int(instance.weights @ of_node.max(axis=1)), EXCHANGES, True
    while improved and left > 0:
        improved = False
        for a in range(len(node)):
            for b in range(a):
                left -= 1
                if left <= 0 or node[a] == node[b]:
                    continue
                differ = loads[:, a] - loads[:, b]
                after = of_node.copy()
                after[:, node[a]] -= differ
                after[:, node[b]] += differ
                value = int(instance.weights @ after.max(axis=1))
                if value < best:
                    best, of_node, improved = value, after, True
                    node[a], node[b] = node[b], node[a]
