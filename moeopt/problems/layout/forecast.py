"""Futures of a layout instance: the layer's next windows, on the same machine."""

from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np

from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.problems.layout.instance import COSTS, TWO_PARTS, WITHIN, Instance, Scenario
from moeopt.sim.traces.forecast_costs import CostCurve
from moeopt.sim.traces.popularity import fit, forecast

ALIKE = 1 - 1e-4
"""In place of the fitted discount: windows seen count alike, however old.

A discount that is fitted to a few windows is a guess, and what it discounts is most of what is
known. On 54 cells of the ESFT traces (layers 3, 5, 12, 14, 20 and 22, decided on 8 windows)
layouts cost 0.34 % less on later windows without it, with a standard error of 0.11.
"""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws windows like those of `instance`, in the order of their scenarios.

    Parameters
    ----------
    instance
        The windows seen, the oldest first; how often each counts plays no part.
    futures
        Its horizon says how many windows the forecast is for.
    seed
        The same seed draws the same windows.
    """
    seen = np.array([scenario.tokens for scenario in instance.scenarios], dtype=np.int64)
    windows = seen[seen.sum(axis=1) > 0]
    alike = replace(fit(windows, futures.horizon).dynamics, discount=ALIKE)
    expected = forecast(windows, alike, futures.horizon)
    names = COSTS + (TWO_PARTS if instance.in_two_parts else ())
    stated = {name: [getattr(s, name) for s in instance.scenarios] for name in names}
    curves = {name: CostCurve.of(seen, ns, instance.quantum_ns) for name, ns in stated.items()}

    def drawn(number: int, stream: int) -> Instance:
        tokens = expected.sample(number, np.random.default_rng([seed, stream]))
        costs = {name: curve(tokens) for name, curve in curves.items()}
        for part, whole in WITHIN if instance.in_two_parts else ():
            costs[part] = np.minimum(costs[part], costs[whole])
        lists = [tokens.tolist(), *(costs[name].tolist() for name in names)]

        def scenario(*columns: list[int]) -> Scenario:
            fields: dict[str, Any] = dict(zip(("tokens", *names), map(tuple, columns), strict=True))
            return Scenario.model_construct(weight=1, **fields)

        scenarios = tuple(starmap(scenario, zip(*lists, strict=True)))
        return drawn_from(instance, f"futures{number}", seed, stream, scenarios=scenarios)

    return drawn
