"""Fiddler: the most popular experts on the GPU, the others computed by the CPU where they lie.

Popularity is profiled offline, over all layers together (CPU-GPU collaborative II-A; Fiddler,
arXiv 2402.07033). Settled: with one token at a time the CPU computes every miss. Fiddler's rule
would copy an expert where that is faster, which it is for one thread only, and its published
comparison is at 24. The time that its search for a split takes is left out.
"""

import numpy as np
from numpy.typing import NDArray

from moeopt.sim.plan.schema import Plan


def plan(popularity: NDArray[np.int64], slots: int) -> Plan:
    """Return the plan with the `slots` most popular experts of all layers on the GPU.

    Parameters
    ----------
    popularity
        How often each expert was used, shape (layers, experts); ties go to the first.
    slots
        Experts that fit into the GPU's memory.
    """
    layers, experts = popularity.shape
    chosen = np.argsort(-popularity, axis=None, kind="stable")[:slots]
    resident = tuple(
        tuple(sorted((chosen[chosen // experts == layer] % experts).tolist()))
        for layer in range(layers)
    )
    return Plan(name="fiddler", resident=resident, policy="cpu-for-misses")
