"""Tokens per second of the paper's system, its baselines and the optimum, on Mixtral's routing."""

from collections.abc import Callable
from typing import Literal

import numpy as np

from benchmarks.papers import data
from benchmarks.papers.collaborative import cached
from benchmarks.papers.collaborative.baselines import pre_gated_token_ns
from benchmarks.papers.collaborative.statistics import EXPERTS, SLOTS, Statistics, routing
from benchmarks.rooms.cache import Instance, Ints

System = Literal[
    "on-demand", "Pre-gated MoE", "CPU only", "layer split", "Fiddler", "cached", "optimum"
]
"""optimum: the paper's cache with the best number of ways for every layer."""

TOP_K = 2


def tokens_per_s(system: System, threads: int = 24) -> float:
    """Return the tokens per second of a system on Mixtral-8x7B."""
    return 1e9 / token_ns(system, threads)


def token_ns(system: System, threads: int = 24) -> float:
    """Return the mean time of a token."""
    return TOKEN_NS[system](mixtral(threads), routing())


@data.by_folder
def mixtral(threads: int = 24) -> Instance:
    """Return the cache problem of the whole trace with so many CPU threads."""
    return cached.on_trace(cached.costs(threads=threads), routing().lru)


def _on_demand(costs: Instance, _: Statistics) -> float:
    """Return the time if every active expert is copied to the GPU; computing hides behind that."""
    return float(costs.layers * (costs.other_ns + TOP_K * max(costs.fetch_ns, costs.gpu_ns)))


def _static(costs: Instance, found: Ints) -> float:
    """Return the time if the GPU always holds the same experts.

    Parameters
    ----------
    found
        Shape (layers, k + 1): on how many tokens so many of the active ones.
    """
    lookup = [costs.costs.lookup_ns(held, TOP_K - held) for held in range(TOP_K + 1)]
    return float((found @ lookup).sum() / found[0].sum())


def _layer_split(costs: Instance, _: Statistics) -> float:
    whole = SLOTS // EXPERTS
    found = np.zeros((costs.layers, TOP_K + 1), dtype=np.int64)
    found[whole:, 0] = found[:whole, TOP_K] = 1
    return _static(costs, found)


def _cpu_only(costs: Instance, _: Statistics) -> float:
    return float(costs.layers * costs.costs.lookup_ns(0, TOP_K))


def _cached(costs: Instance, counted: Statistics) -> float:
    return cached.trace_ns(costs, cached.best_uniform_ways(costs)) / counted.tokens


def _optimum(costs: Instance, counted: Statistics) -> float:
    return cached.trace_ns(costs, cached.best_ways(costs)) / counted.tokens


TOKEN_NS: dict[System, Callable[[Instance, Statistics], float]] = {
    "on-demand": _on_demand,
    "Pre-gated MoE": lambda costs, _: float(pre_gated_token_ns(costs, TOP_K)),
    "CPU only": _cpu_only,
    "layer split": _layer_split,
    "Fiddler": lambda costs, counted: _static(costs, counted.popular),
    "cached": _cached,
    "optimum": _optimum,
}

BASELINES: tuple[System, ...] = ("on-demand", "Pre-gated MoE", "layer split", "Fiddler")
