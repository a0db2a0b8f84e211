"""robust: copies for windows that are still to come, decided on sampled futures and what was seen.

Devices are balanced by sums of experts' loads, so that it matters which experts have their tokens
in the same windows. Futures have each expert's own distribution; here they are given the ranks'
correlations of the observed windows as well (Iman and Conover 1982), half way, and each observed
window counts as some futures: it is the only one that is surely like the layer.

Simulated annealing (`kernels`) over the sum of all peaks, from what EPLB and FlashLB decide on the
futures and on the windows; of several runs the decision with the best value is kept. Moves are paid
once and the decision lasts for the horizon: the value is the horizon times the sum of the peaks, or
their quantile, and the moves, times the number of windows where it is a sum.

R. L. Iman, W. J. Conover, "A distribution-free approach to inducing rank correlation among input
variables", Communications in Statistics - Simulation and Computation 11 (1982), 311-334.
"""

import numpy as np

from moeopt.core.futures import Draw, Futures
from moeopt.core.rounding import rounded
from moeopt.core.search import Search

from .annealing import HEAT, Arrays
from .check import device_loads, moves_units
from .heuristics import eplb_hierarchical, flashlb, longest_first
from .instance import Instance, Ints, Window
from .solution import Solution

STEPS = 3e8
"""Steps of a run, times devices times futures: some two seconds."""

RUNS = 2
"""Runs of annealing, each from the best decision so far."""

SEEN = 16
"""Futures that an observed window counts as."""

SHARED = 0.5
"""Part of an expert's variance that goes with the observed windows."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Decide for futures of the observed windows, as `moeopt.core.futures` says."""
    sample = _with_seen(observed, draw(futures.samples, 0), search.seed)
    several = int(sample.weights.sum()) if futures.quantile is None else 1

    def offer(solution: Solution) -> None:
        peaks = np.repeat(peaks_of(sample, solution), sample.weights)
        value = futures.horizon * futures.value(peaks)
        search.offer(solution, value + several * moves_units(sample, solution))

    starts = [eplb_hierarchical(observed) or longest_first(observed)]
    for start in starts:
        if start is not None:
            offer(start)
    for rule in (eplb_hierarchical, flashlb):
        starts += [rule(sample), rule(observed)]
    for start in starts:
        if start is not None and not search.stopped:
            offer(start)
    if search.solution is None:
        return
    weighted = [w.model_copy(update={"weight": futures.horizon * w.weight}) for w in sample.windows]
    move_cost = int(sample.weights.sum()) * sample.move_cost
    arrays = Arrays.of(
        sample.model_copy(update={"windows": tuple(weighted), "move_cost": move_cost})
    )
    steps = int(STEPS / (observed.devices * len(weighted) + 240))
    for number in range(RUNS):
        if search.stopped:
            return
        seed = 10**6 * search.seed + number
        offer(arrays.annealed(search.solution, steps, seed, lambda: search.stopped, cold=HEAT / 30))


def peaks_of(instance: Instance, solution: Solution) -> Ints:
    """Return the fullest device's load in each window, in units, shape (windows,)."""
    if instance.split == "free":
        return np.array([max(loads) for loads in device_loads(instance, solution)], dtype=np.int64)
    held = np.zeros((instance.experts, instance.devices), dtype=np.int64)
    for expert, row in enumerate(solution.copies):
        held[expert, list(row)] = 1
    shares = instance.loads_units // held.sum(axis=1)
    peaks: Ints = (shares @ held).max(axis=1)
    return peaks


def _with_seen(observed: Instance, sample: Instance, seed: int) -> Instance:
    """Return the futures with the observed windows' correlations, and these windows beside them."""
    seen = np.array([window.loads for window in observed.windows], dtype=np.int64)
    drawn = np.array([window.loads for window in sample.windows], dtype=np.int64)
    if len(seen) > 1:
        drawn = _correlated(seen, drawn, np.random.default_rng(seed))
    # Half of the futures, and the observed windows with up to twice the weight of these.
    half = (len(drawn) + 1) // 2
    weight = max(1, min(SEEN, 2 * half // len(seen)))
    windows = [(1, row) for row in drawn[:half].tolist()]
    windows += [(weight, row) for row in seen.tolist()]
    made = tuple(Window.model_construct(weight=w, loads=tuple(row)) for w, row in windows)
    return sample.model_copy(update={"windows": made})


def _correlated(seen: Ints, drawn: Ints, rng: np.random.Generator) -> Ints:
    """Return each expert's futures in another order, in which experts vary together as observed.

    The order is that of normal scores: a random mixture of the observed windows' deviations, which
    all experts of a future share, and noise of the expert's own.
    """
    share = seen / np.maximum(seen.sum(axis=1, keepdims=True), 1)
    deviation = (share - share.mean(axis=0)) / (share.std(axis=0) + 1e-12)
    mixture = rng.normal(size=(len(drawn), len(seen))) / np.sqrt(len(seen))
    noise = rng.normal(size=drawn.shape)
    scores = np.sqrt(SHARED) * (mixture @ deviation) + np.sqrt(1 - SHARED) * noise
    order = np.argsort(np.argsort(rounded(scores), axis=0, kind="stable"), axis=0)
    return np.take_along_axis(np.sort(drawn, axis=0), order, axis=0)
