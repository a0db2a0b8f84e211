"""What every layer costs at every number of ways: one pass over the trace gives them all."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.stack_distance import stack_distances

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Costs:
    """Times in ns, as in the instance."""

    gpu_ns: int
    cpu_ns: int
    activation_ns: int
    other_ns: int

    def lookup_ns(self, hits: int, misses: int) -> int:
        """Return the time of one layer for one token: GPU and CPU work at the same time."""
        on_cpu = self.activation_ns + misses * self.cpu_ns if misses else 0
        return self.other_ns + max(hits * self.gpu_ns, on_cpu)


@dataclass(frozen=True)
class Curves:
    """Totals over the trace, each of shape (layers, experts + 1): by layer and number of ways.

    Attributes
    ----------
    hits, fetches
        Experts found on the GPU, and copied to it: without ways nothing is fetched.
    layer_ns
        Time of the layer.
    """

    hits: Ints
    fetches: Ints
    layer_ns: Ints


def curves_of(ids: NDArray[np.int32], experts: int, costs: Costs) -> Curves:
    """Return the curves of a trace.

    Parameters
    ----------
    ids
        Shape (layers, tokens, k): the experts of each token, -1 for none.
    experts
        Experts of a layer.
    costs
        Costs of a lookup; sums over the trace must fit into 64 bits.

    Notes
    -----
    A layer's time is not linear in its hits, so the lookups are counted by the number of experts
    used and the number found: with the distances of a lookup in ascending order, it has more than
    j hits at w ways iff its j-th distance is below w.
    """
    rows = [_layer(part, experts, costs) for part in ids]
    hits, fetches, layer_ns = (np.array(columns) for columns in zip(*rows, strict=True))
    return Curves(hits, fetches, layer_ns)


def _layer(ids: NDArray[np.int32], experts: int, costs: Costs) -> tuple[Ints, Ints, Ints]:
    there = ids >= 0
    used = there.sum(axis=1)
    nowhere = experts + 1
    distances = np.sort(np.where(there, stack_distances(ids, experts), nowhere), axis=1)
    hits = np.zeros(experts + 1, dtype=np.int64)
    layer_ns = np.zeros(experts + 1, dtype=np.int64)
    for group in np.unique(used).tolist():
        of = distances[used == group, :group]
        more_than = [len(of) + np.zeros(experts + 1, dtype=np.int64)]
        more_than += [_below(column, experts) for column in of.T]
        more_than.append(np.zeros(experts + 1, dtype=np.int64))
        for found in range(group + 1):
            lookups = more_than[found] - more_than[found + 1]
            hits += lookups * found
            layer_ns += lookups * costs.lookup_ns(found, group - found)
    fetches = int(used.sum()) - hits
    fetches[0] = 0
    return hits, fetches, layer_ns


def _below(distances: NDArray[np.int32], experts: int) -> Ints:
    """Return how many distances are below 0, 1, ..., experts."""
    seen = np.bincount(distances, minlength=experts + 2)[:experts]
    return np.concatenate([[0], seen.cumsum()])
