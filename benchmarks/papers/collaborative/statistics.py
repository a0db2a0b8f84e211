"""What the figures need of Mixtral's routing: how many of a token's two experts caches hold.

Run as a module with MOEOPT_TRACES set, this prints what `statistics.json` holds.
"""

import csv
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import data
from benchmarks.rooms.algorithms import stack_distances
from benchmarks.rooms.sim import HitRates, Routing, Trace, belady_hits, fifo_hits, lru_hits, reuse

STORED = Path(__file__).with_name("statistics.json")

POPULARITY = "fiddler_mixtral_popularity/popularity_rank.csv"
"""Fiddler's own profile of Mixtral: its experts, most popular first."""

FILES = (*data.MIXTRAL, POPULARITY)

EXPERTS, SLOTS = 8, 56

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Statistics:
    """Counts over a trace.

    Attributes
    ----------
    tokens
        Length of the trace.
    lru
        Shape (layers, ways + 1, k + 1): on how many tokens LRU holds so many of the k experts.
    popular
        Shape (layers, k + 1): the same of Fiddler's 56 most popular experts.
    reuse
        Shape (layers,): share of tokens with an expert of the token before.
    hits
        Policy -> two lists over 1 to 8 ways: share of tokens of which at least one expert, and
        all, are held, the mean over layers.
    same
        Shape (layers - 1,): share of tokens with an expert of the same number in the layer before.
    runs
        Two lists over the layers: of tokens with an expert of the token before, the share with one
        of the two, and of the three, tokens before.
    """

    tokens: int
    lru: Ints
    popular: Ints
    reuse: NDArray[np.float64]
    hits: dict[str, tuple[list[float], list[float]]]
    same: NDArray[np.float64]
    runs: NDArray[np.float64]


@data.by_folder
def routing() -> Statistics:
    """Return the statistics of Mixtral-8x7B on MT-bench, measured anew if the traces are there."""
    found = data.statistic(STORED, FILES, measure)
    return Statistics(
        found["tokens"],
        np.array(found["lru"]),
        np.array(found["popular"]),
        np.array(found["reuse"]),
        {policy: (some, full) for policy, (some, full) in found["hits"].items()},
        np.array(found["same"]),
        np.array(found["runs"]),
    )


def measure(paths: Sequence[Path]) -> data.Statistic:
    """Measure everything on traces that follow one another; the last file is the popularity."""
    traces = data.traces(paths[:-1])
    lengths = np.array([trace.tokens for trace in traces])
    trace = Trace("all", np.concatenate([t.topk_ids for t in traces]), seq_len=lengths)
    routing = Routing.of(trace, EXPERTS)
    popular = np.zeros((routing.layers, EXPERTS), dtype=np.bool_)
    for layer, expert in most_popular(paths[-1], SLOTS):
        popular[layer, expert] = True
    ways = list(range(1, EXPERTS + 1))
    rates = {
        "LRU": lru_hits(routing),
        "FIFO": fifo_hits(routing, ways),
        "Belady": belady_hits(routing, ways),
    }
    again = reuse(routing)
    return {
        "tokens": trace.tokens,
        "lru": found_by_lru(routing).tolist(),
        "popular": [
            np.bincount(held[ids].sum(axis=1), minlength=routing.top_k + 1).tolist()
            for held, ids in zip(popular, routing.ids, strict=True)
        ],
        "reuse": np.round(again.any, 5).tolist(),
        "hits": {policy: _means(rate) for policy, rate in rates.items()},
        "same": np.round(same_as_before(routing), 5).tolist(),
        "runs": np.round([again.twice, again.thrice], 5).tolist(),
    }


def found_by_lru(routing: Routing) -> Ints:
    """Return on how many tokens LRU holds 0, 1, ... k experts: (layers, experts + 1, k + 1).

    An expert is in a cache of w ways iff fewer than w others were used since (stack distance).
    Every token must have k experts.
    """
    ways = np.arange(routing.experts + 1)
    found = np.empty((routing.layers, routing.experts + 1, routing.top_k + 1), dtype=np.int64)
    for layer, ids in enumerate(routing.ids):
        distances = stack_distances(ids, routing.experts)
        for count in ways:
            held = (distances < count).sum(axis=1)
            found[layer, count] = np.bincount(held, minlength=routing.top_k + 1)
    return found


def same_as_before(routing: Routing) -> NDArray[np.float64]:
    """Return the share of tokens with an expert of the same number in the layer before."""
    shares = []
    for before, here in pairwise(routing.ids):
        same = (here[:, :, None] == before[:, None, :]) & (here >= 0)[:, :, None]
        shares.append(same.any(axis=(1, 2)).mean())
    return np.array(shares)


def most_popular(path: Path, slots: int) -> list[tuple[int, int]]:
    """Return (layer, expert) of the first rows of a popularity ranking."""
    with path.open(newline="", encoding="utf-8") as stream:
        rows = sorted(csv.DictReader(stream), key=lambda row: int(row["rank"]))
    return [(int(row["layer"]), int(row["expert"])) for row in rows[:slots]]


def _means(rates: HitRates) -> list[list[float]]:
    return [np.round(part.mean(axis=0), 5).tolist() for part in (rates.any, rates.all)]


if __name__ == "__main__":
    measured = measure([data.require(name) for name in FILES])
    print(",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in measured.items()))
