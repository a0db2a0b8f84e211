"""Futures of a relayout instance: the loads of the step that runs, on the same layout."""

from typing import Any

import numpy as np

from moeopt.core.clock import checkpoint
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.problems.relayout.expert import COSTS, TWO_PARTS, Expert
from moeopt.problems.relayout.instance import Instance
from moeopt.sim.traces.forecast_costs import CostCurve
from moeopt.sim.traces.popularity import Forecast, fit

WITHIN = {
    "gpu_calc_ns": ("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns"),
    "pcie_striped_ns": ("gpu_miss_striped_ns",),
    "pcie_localized_ns": ("gpu_miss_localized_ns",),
}
"""The paths that each part of a run on the GPU is at most as long as."""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws loads of the step that runs: a tuple of instances, one per future.

    An instance has the loads of one step, so that several futures are several instances.

    Parameters
    ----------
    instance
        Its `observed_tokens` are what the forecast is fitted to, or its own tokens, as if they were
        the step before, where it has none.
    futures
        Its horizon plays no part: migrations are decided for one step.
    seed
        The same seed draws the same loads.
    """
    del futures
    own = np.array([[expert.tokens for expert in instance.experts]], dtype=np.int64)
    seen = own if instance.observed_tokens is None else np.array(instance.observed_tokens)
    return draw_from(fit(seen if seen.any() else own, 1), instance, seed)


DRAWN_PER_UNIT = 1e5
"""Experts of a future that are drawn in a second of one core."""


def draw_from(forecast: Forecast, instance: Instance, seed: int) -> Draw:
    """Return what draws loads of the step that runs from a given forecast; see `draw`."""
    own = np.array([[expert.tokens for expert in instance.experts]], dtype=np.int64)
    names = COSTS + (TWO_PARTS if instance.two_parts else ())
    curves = {
        name: CostCurve.of(own, [[getattr(e, name) for e in instance.experts]], instance.quantum_ns)
        for name in names
    }

    def drawn(number: int, stream: int) -> tuple[Instance, ...]:
        tokens = forecast.sample(number, np.random.default_rng([seed, stream]))
        costs = {name: curve(tokens) for name, curve in curves.items()}
        for part, paths in WITHIN.items() if instance.two_parts else ():
            costs[part] = np.minimum.reduce([costs[part], *(costs[path] for path in paths)])
        return tuple(
            drawn_from(
                instance,
                f"future{n}",
                seed,
                stream,
                experts=_loaded(instance, tokens[n], {k: of[n] for k, of in costs.items()}),
            )
            for n in range(number)
        )

    return drawn


def _loaded(instance: Instance, tokens: Any, costs: dict[str, Any]) -> tuple[Expert, ...]:
    """Return the experts where they lie, with other tokens and costs."""
    checkpoint(len(instance.experts) / DRAWN_PER_UNIT)
    rows = zip(tokens.tolist(), *(of.tolist() for of in costs.values()), strict=True)
    return tuple(
        Expert.model_construct(
            **{**expert.__dict__, "tokens": own, **dict(zip(costs, of, strict=True))}
        )
        for expert, (own, *of) in zip(instance.experts, rows, strict=True)
    )
