"""Rows for the aggregated model that say what a DIMM can hold: levels of its own work.

For each scenario, thresholds t_1 < t_2 < ... and binaries u_k, 1 where the longest DIMM's own work
is at least t_k. Below t_k no DIMM holds a piece of size t_k, nor two of which each is at least half
of it, nor three of a third. Where few large experts are localized this is what the average misses.
Proof in `formulations/layout/spec.md`, section "Several scenarios". Any thresholds are valid.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from .aggregated import Model, Scenario, Terms

PIECES = (2, 3)
"""How many pieces of an equal share of a threshold are counted."""


def add_levels(model: Model, dimms: int, thresholds_ns: Sequence[Sequence[int]]) -> None:
    """Add the rows of each scenario's thresholds, which rise strictly and are above 0."""
    for columns, thresholds in zip(model.scenarios, thresholds_ns, strict=True):
        _add(model, columns, dimms, list(thresholds))


def even_thresholds(top_ns: int, levels: int) -> list[int]:
    """Return thresholds at equal distances up to about `top_ns`."""
    return sorted({max(1, top_ns * k // levels) for k in range(1, levels + 1)})


def _add(model: Model, columns: Scenario, dimms: int, thresholds: list[int]) -> None:
    reached = [model.column(integer=True) for _ in thresholds]
    steps = np.diff([0, *thresholds]).tolist()
    model.at_most(
        [(columns.own, -1.0)]
        + [(u, step / model.unit_ns) for u, step in zip(reached, steps, strict=True)],
        0.0,
    )
    for below, above in pairwise(reached):
        model.at_most([(above, 1.0), (below, -1.0)], 0.0)
    for size, pieces in columns.items:
        used: Terms = [(column, 1.0) for column in pieces]
        whole: Terms = [(column, size / model.unit_ns) for column in pieces]
        model.at_most([*whole, (columns.own, -1.0)], 0.0)
        level = int(np.searchsorted(thresholds, size, side="right")) - 1
        if level >= 0:
            model.at_most([*used, (reached[level], -1.0)], 0.0)
    for u, threshold in zip(reached, thresholds, strict=True):
        for count in PIECES:
            large = [pieces for size, pieces in columns.items if count * size >= threshold]
            fit = (count - 1) * dimms
            if len(large) > fit:
                terms: Terms = [(column, 1.0) for pieces in large for column in pieces]
                model.at_most([*terms, (u, -float(len(large) - fit))], float(fit))
