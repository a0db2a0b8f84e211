"""robust: copies for windows that are still to come, decided on sampled futures and what was seen.

EPLB, FlashLB and longest-first decide on the futures and on the observed windows; of all these
decisions the one with the best value over the futures, and the observed windows beside them, is
kept. Each observed window counts as some futures: it is the only one that is surely like the
layer. Moves are paid once and the decision lasts for the horizon: the value is the horizon times
the sum of the peaks, or their quantile, and the moves, times the windows where it is a sum.
"""

import numpy as np

from moeopt.core.futures import Draw, Futures
from moeopt.core.search import Search

from .check import device_loads, moves_units, slots_ns
from .dispatch import shared_evenly
from .heuristics import eplb_hierarchical, flashlb, longest_first
from .instance import Instance, Window

SEEN = 16
"""Futures that an observed window counts as."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Decide for futures of the observed windows, as `moeopt.core.futures` says."""
    sample = _with_seen(observed, draw(futures.samples, 0))
    several = int(sample.weights.sum()) if futures.quantile is None else 1
    for instance in (observed, sample):
        for rule in (eplb_hierarchical, longest_first, flashlb):
            if search.solution is not None and search.stopped:
                return
            solution = rule(instance)
            if solution is None:
                continue
            solution = shared_evenly(sample, solution.copies)
            peaks = [max(loads) for loads in device_loads(sample, solution)]
            value = futures.horizon * futures.value(np.repeat(peaks, sample.weights))
            paid = moves_units(sample, solution) + slots_ns(sample, solution)
            search.offer(solution, value + several * paid)


def _with_seen(observed: Instance, sample: Instance) -> Instance:
    """Return half of the futures, and the observed windows with up to twice the weight of these."""
    half = (len(sample.windows) + 1) // 2
    weight = max(1, min(SEEN, 2 * half // len(observed.windows)))
    seen = [Window.model_construct(weight=weight, loads=w.loads) for w in observed.windows]
    return sample.model_copy(update={"windows": (*sample.windows[:half], *seen)})
