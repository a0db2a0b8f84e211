"""Windows of replication instances one by one and together: copies stay where they were decided.

What moving copies costs is paid when they are decided, and no part of later loads. Which of its
copies an expert's tokens go to is decided anew where it is a part of the decision.

robust: copies for windows that are still to come, decided on sampled futures and what was seen.

EPLB, FlashLB and longest-first decide on the futures and on the observed windows; of all these
decisions the one with the best value over the futures, and the observed windows beside them, is
kept. Each observed window counts as some futures: it is the only one that is surely like the
layer. Moves are paid once and the decision lasts for the horizon: the value is the horizon times
the sum of the peaks, or their quantile, and the moves, times the windows where it is a sum.
"""

from collections.abc import Sequence

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.search import Search
from moeopt.sim.traces.popularity import fit

from .check import device_loads, moves_units, slots_ns
from .dispatch import best_shares, shared_evenly
from .heuristics import eplb_hierarchical, flashlb, longest_first
from .instance import MAX_WINDOWS, Instance, Solution, Window

PAID: dict[str, object] = {"current": None, "move_cost": 0}


def unchanged(instance: Instance, decision: Solution) -> Solution:
    """Return copies that were decided on other loads, with these loads' tokens dispatched."""
    if instance.has_shares and len(decision.copies) == instance.experts:
        return best_shares(instance, decision.copies)
    return decision.model_copy(update={"instance": instance.name})


def windows_of(instance: Instance) -> list[Instance]:
    """Return every window that has tokens as an instance of its own, with its weight."""
    if len(instance.windows) == 1:
        return [instance.model_copy(update=PAID)]
    return [
        instance.model_copy(
            update=PAID | {"name": f"{instance.name[:180]} [{n}]", "windows": (one,)}
        )
        for n, one in enumerate(instance.windows)
        if any(one.loads)
    ]


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all windows: copies cost there what they do in all together."""
    windows = tuple(window for one in instances for window in one.windows)
    if len(windows) > MAX_WINDOWS:
        raise InputError(f"{len(windows)} windows are more than {MAX_WINDOWS}")
    return instances[0].model_copy(update=PAID | {"windows": windows, "provenance": None})


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws windows like those of `instance`, in their order.

    Parameters
    ----------
    instance
        The windows seen, the oldest first; how often each counts plays no part.
    futures
        Its horizon says how many windows the forecast is for.
    seed
        The same seed draws the same windows.
    """
    seen = np.array([window.loads for window in instance.windows], dtype=np.int64)
    forecast = fit(seen, futures.horizon)

    def drawn(number: int, stream: int) -> Instance:
        tokens = forecast.sample(number, np.random.default_rng([seed, stream])).tolist()
        windows = tuple(Window.model_construct(weight=1, loads=tuple(row)) for row in tokens)
        return drawn_from(instance, f"futures{number}", seed, stream, windows=windows)

    return drawn


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
