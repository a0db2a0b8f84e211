"""Futures of a replication instance: the layer's next windows, on the same devices."""

import numpy as np

from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.problems.replication.instance import Instance, Window
from moeopt.sim.traces.popularity import fit


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
