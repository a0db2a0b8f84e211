"""All statistics of one trace, in one go: what ``moeopt trace info`` prints."""

from dataclasses import dataclass

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.traces.statistics import loads as load
from moeopt.sim.traces.statistics.hits import (
    HitRates,
    belady_hits,
    fifo_hits,
    lru_hits,
    random_hits,
    reuse,
    static_hits,
)
from moeopt.sim.traces.statistics.loads import (
    affinity,
    phase_similarity,
    predictor_agreement,
    step_correlation,
)
from moeopt.sim.traces.statistics.routing import Floats, Ints, Routing, average

COVERED = 0.25
"""Resident part of all experts for which `Summary.coverage` is given."""


@dataclass(frozen=True)
class Figure:
    """One statistic: a key, what it is, and its value in every layer (NaN: undefined there)."""

    key: str
    meaning: str
    layers: Floats

    @property
    def mean(self) -> float:
        """Mean over the layers where it is defined."""
        return average(self.layers)


@dataclass(frozen=True)
class Summary:
    """The statistics of a trace.

    Attributes
    ----------
    figures
        One value per layer each.
    hits
        Cache policy -> hit rates; LRU, static and random at every capacity.
    coverage
        Share of accesses served by the hottest quarter of all experts: same quota per layer, and
        best of all layers together.
    batch, phases
        Tokens per decode step; "marks" or "windows", as in `phase_similarity`. None for counts.
    """

    figures: list[Figure]
    hits: dict[str, HitRates]
    coverage: tuple[float, float]
    batch: int | None
    phases: str | None

    def figure(self, key: str) -> Figure:
        """Return the figure of a key."""
        return next(figure for figure in self.figures if figure.key == key)

    def to_dict(self) -> dict[str, object]:
        """Return everything as plain JSON values; what is undefined is None."""
        return {
            "batch": self.batch,
            "phases": self.phases,
            "figures": {
                figure.key: {
                    "meaning": figure.meaning,
                    "mean": _plain(figure.mean),
                    "layers": _plain(figure.layers),
                }
                for figure in self.figures
            },
            "coverage": {
                "experts": COVERED,
                "per_layer_quota": _plain(self.coverage[0]),
                "global": _plain(self.coverage[1]),
            },
            "hit_rates": {policy: _rates(rates) for policy, rates in self.hits.items()},
        }


def summarise(routing: Routing, batch: int = 256, capacities: list[int] | None = None) -> Summary:
    """Return all statistics of a trace.

    Parameters
    ----------
    routing
        The trace.
    batch
        Tokens per decode step, for what is measured by step.
    capacities
        For the policies that must be replayed; by default `usual_capacities`.

    Raises
    ------
    InputError
        If `batch` or a capacity is below 1.
    """
    if batch < 1:
        raise InputError(f"batch: must be at least 1, not {batch}")
    at = usual_capacities(routing) if capacities is None else capacities
    similarity, phases = phase_similarity(routing)
    figures = [*_load_figures(routing, batch), *_reuse_figures(routing)]
    cosine = "cosine of expert frequencies, prefill and decode"
    figures.append(Figure("phase_similarity", f"{cosine} (by {phases})", similarity))
    related = "mutual information with the next layer / entropy"
    figures.append(Figure("affinity", f"{related}, any experts", affinity(routing)))
    figures.append(Figure("affinity_main", "the same, main experts", affinity(routing, "main")))
    hits = {
        "lru": lru_hits(routing),
        "fifo": fifo_hits(routing, at),
        "random": random_hits(routing.experts, routing.top_k),
        "static": static_hits(routing),
        "belady": belady_hits(routing, at),
        "retention_bound": belady_hits(routing, at, demand=False),
    }
    covered = load.coverage(load.loads(routing), COVERED)
    return Summary(figures, hits, covered, batch, phases)


def use_figures(counts: Ints) -> list[Figure]:
    """Return the figures that need no order of tokens, of counts of shape (layers, experts)."""
    return [
        Figure("skew", "largest load / mean load", load.skew(counts)),
        Figure("top_10", "share of the hottest 10 % of the experts", load.top_share(counts, 0.1)),
        Figure("top_25", "share of the hottest 25 % of the experts", load.top_share(counts, 0.25)),
        Figure("cold_70", "share of the coldest 70 % of the experts", load.cold_share(counts)),
    ]


def summarise_counts(counts: Ints) -> Summary:
    """Return what can be said of counts alone, shape (layers, experts): no reuse and no caches."""
    return Summary(use_figures(counts), {}, load.coverage(counts, COVERED), None, None)


def usual_capacities(routing: Routing) -> list[int]:
    """Return k and an eighth, a quarter, half and three quarters of the experts."""
    parts = [routing.experts * eighths // 8 for eighths in (1, 2, 4, 6)]
    return sorted({routing.top_k, *parts} - {0})


def _load_figures(routing: Routing, batch: int) -> list[Figure]:
    counts = load.loads(routing)
    steps = load.step_loads(routing, batch)
    step = f"in steps of {batch} tokens"
    by_step = load.step_class_shares(steps)
    names = {"hot": "hottest 5 %", "warm": "next 25 %", "cold": "coldest 70 %"}
    return [
        *use_figures(counts),
        *(
            Figure(f"step_{name}", f"share of the {what} of the experts {step}", by_step[name])
            for name, what in names.items()
        ),
        Figure("step_correlation", f"loads {step}, one and the next", step_correlation(steps)),
        Figure("predictor", f"EMA names the next class {step}", predictor_agreement(steps)),
    ]


def _reuse_figures(routing: Routing) -> list[Figure]:
    found, chance = reuse(routing), random_hits(routing.experts, routing.top_k)
    some, full = chance.any[0, routing.top_k - 1], chance.all[0, routing.top_k - 1]
    of = "tokens"
    return [
        Figure("reuse_any", f"{of} reusing an expert (random: {some:.3f})", found.any),
        Figure("reuse_all", f"{of} reusing all experts (random: {full:.3f})", found.all),
        Figure("reuse_each", "experts reused from the token before", found.each),
        Figure("reuse_independent", "the same if tokens were independent", found.independent),
        Figure("reuse_twice", "of those reusing any: from two tokens before", found.twice),
        Figure("reuse_thrice", "of those reusing any: from three tokens before", found.thrice),
    ]


def _rates(rates: HitRates) -> dict[str, object]:
    def means(values: Floats) -> list[object]:
        return [_plain(average(column)) for column in values.T]

    return {
        "capacities": rates.capacities.tolist(),
        "each": means(rates.each),
        "any": means(rates.any),
        "all": means(rates.all),
        "each_by_layer": _plain(rates.each),
    }


def _plain(value: object) -> object:
    """Return floats and arrays of floats as JSON values, NaN as None."""
    if isinstance(value, np.ndarray):
        return [_plain(item) for item in value.tolist()]
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return None if value != value else value
