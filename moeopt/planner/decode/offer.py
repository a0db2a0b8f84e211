"""What a policy may choose from in one step, as arrays over layers and experts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moeopt.core.envelope import MAX_NUMBER
from moeopt.problems.tri_domain.layout_rule import STRIPED

GPU, CPU, NDP = range(3)
NOWHERE = -1

NEVER_NS = MAX_NUMBER + 1
"""More than any path costs."""

Integers = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Offer:
    """What a policy may choose from, in one step; arrays of shape (layers, experts).

    `tokens` is 0 for an expert that is not active, `dimm` is -1 for a striped one, whose `ndp_ns`
    means nothing. The ``*_dram_ns`` are as in `moeopt.problems.tri_domain.expert.Expert`.
    """

    dimms: int
    tokens: Integers
    resident: Flags
    dimm: Integers
    gpu_ns: Integers
    cpu_ns: Integers
    ndp_ns: Integers
    gpu_dram_ns: Integers
    cpu_dram_ns: Integers

    def tables(self) -> Integers:
        """Return the tables of `moeopt.core.device_loads`, shape (layers, 7, experts)."""
        from moeopt.core.device_loads import OWN, STRIPED_READS

        striped = self.dimm == STRIPED
        ndp_ns = np.where(striped, 0, self.ndp_ns)
        rows = [self.gpu_ns, self.cpu_ns, np.zeros_like(ndp_ns)]
        rows += [self.gpu_dram_ns, self.cpu_dram_ns, ndp_ns]
        rows += [np.where(striped, STRIPED_READS, OWN + self.dimm)]
        return np.stack(rows, axis=1)


Policy = Callable[[Offer], Integers]
"""Returns GPU, CPU or NDP for every expert, shape (layers, experts); inactive ones are ignored."""
