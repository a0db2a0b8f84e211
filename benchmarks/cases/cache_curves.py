"""Hits, fetches and times at every capacity: one pass against simulating each capacity."""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.harness.measurement import Contender, Measurement
from benchmarks.rooms.cache import Instance, Solution, curves_of, serve

DESCRIPTION = "miss curves: 10,000 tokens x 32 layers of 8 experts, 1,000 x 26 of 64"
BASELINE = "one pass"

SHAPES = {"mixtral-8x7b": 10_000, "deepseek-v2-lite": 1_000}
"""Model -> tokens, drawn from a synthetic workload."""


def contenders() -> Mapping[str, Contender]:
    return {
        "one pass": _timed(_one_pass),
        "each capacity, by the checker": _timed(_checker),
        "each capacity, as an array": _timed(_array),
    }


def instances() -> Sequence[Instance]:
    return [_synthetic(model, tokens) for model, tokens in SHAPES.items()]


def _synthetic(model: str, tokens: int) -> Instance:
    made = moeopt.generate(
        "cache", machine="rtx4090-7960x", model=model, workload="trimoe-skew", tokens=tokens
    )
    assert isinstance(made, Instance)
    _ = made.ids  # both begin with the accesses at hand, as lists and as an array
    return made


def _timed(curves: Callable[[Instance], NDArray[np.int64]]) -> Contender:
    """Return the contender that computes all hits; its objective is their sum.

    It fails if they are not those of the one pass.
    """

    def contender(instance: Any, time_limit_s: float) -> Measurement:
        begin = perf_counter()
        hits = curves(instance)
        seconds = perf_counter() - begin
        assert np.array_equal(hits, _one_pass(instance)), "the hits differ"
        return Measurement(seconds, int(hits.sum()), None, proven=False)

    return contender


def _one_pass(instance: Instance) -> NDArray[np.int64]:
    return curves_of(instance.ids, instance.experts, instance.costs).hits


def _checker(instance: Instance) -> NDArray[np.int64]:
    rows = []
    for ways in range(instance.experts + 1):
        solution = Solution(instance=instance.name, ways=(ways,) * instance.layers)
        rows.append([layer.hits for layer in serve(instance, solution)])
    return np.array(rows).T


def _array(instance: Instance) -> NDArray[np.int64]:
    """Simulate one capacity after the other, all layers of a token at once."""
    columns = [_simulated(instance, ways) for ways in range(instance.experts + 1)]
    return np.stack(columns, axis=1)


def _simulated(instance: Instance, ways: int) -> NDArray[np.int64]:
    layers, tokens, top_k = instance.ids.shape
    rows = np.arange(layers)[:, None]
    last = np.full((layers, instance.experts), -1)
    hits = np.zeros(layers, dtype=np.int64)
    for token in range(tokens):
        used = instance.ids[:, token]
        if ways:
            oldest = -np.partition(-last, ways - 1, axis=1)[:, ways - 1 : ways]
            own = last[rows, used]
            hits += ((own >= oldest) & (own >= 0)).sum(axis=1)
        last[rows, used] = token * top_k + np.arange(top_k)
    return hits
