"""The two sides of the objective: computing and copying, by layer and number of ways."""

from dataclasses import dataclass

import numpy as np

from .curves import Ints
from .instance import Instance

LARGEST = 2**61


@dataclass(frozen=True)
class Sides:
    """What each layer costs at each number of ways, in ns: shape (layers, counts).

    Attributes
    ----------
    compute_ns, copy_ns
        Time of the layers; time of the fetches.
    slots
        Most ways in all, never more than there are experts.
    """

    compute_ns: Ints
    copy_ns: Ints
    slots: int

    @property
    def scale(self) -> int:
        """The power of two up to 2**20 that weights are counted in: sums stay in 64 bits."""
        longest = int(self.compute_ns.max(axis=1).sum() + self.copy_ns.max(axis=1).sum())
        return 1 << max(0, min(20, (LARGEST // max(1, longest)).bit_length() - 1))

    def weighted(self, p: int) -> Ints:
        """Return p times the one plus scale - p times the other."""
        return p * self.compute_ns + (self.scale - p) * self.copy_ns

    def trace_ns(self, ways: Ints) -> int:
        """Return the objective of a plan."""
        rows = np.arange(len(ways))
        return int(max(self.compute_ns[rows, ways].sum(), self.copy_ns[rows, ways].sum()))


def sides_of(instance: Instance) -> Sides:
    """Return computing and copying of every layer at every number of ways."""
    curves = instance.curves
    slots = min(instance.slots, instance.layers * instance.experts)
    return Sides(curves.layer_ns, curves.fetches * instance.fetch_ns, slots)
