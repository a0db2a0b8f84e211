"""What the figures need of Mixtral's routing: how a prompt tells which experts its answer uses.

Run as a module with MOEOPT_TRACES set, this prints what `statistics.json` holds.
"""

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import data
from benchmarks.papers.cxl.layer import HOT, WIDTHS, layer_ns
from benchmarks.rooms.sim import Routing, Trace, phase_similarity

STORED = Path(__file__).with_name("statistics.json")

EXPERTS, TOP_K = 8, 2

TOKENS = 128
"""Of a prompt, and of its answer."""

WINDOWS = (8, 16, 32, 64, 128)
"""Lengths of prompt and answer to compare."""

LENGTHS = (32, 64, TOKENS)
"""Lengths for which the experts on the GPU are counted."""

Ints = NDArray[np.int64]


@data.by_folder
def _statistic() -> data.Statistic:
    return data.statistic(STORED, data.MIXTRAL, measure)


def similarity(window: int) -> float:
    """Return the cosine of expert use in prompt and answer, for so many tokens of each."""
    return float(_statistic()["similarity"][str(window)])


def shares(model: str, width: float | None = None, window: int | None = None) -> tuple[float, ...]:
    """Return how often 0, 1 or 2 of a token's experts are on the GPU; the sum is 1.

    Parameters
    ----------
    model
        Says how many experts of a layer the GPU holds; routing is that of Mixtral-8x7B always.
    width
        None: those that the prompt used most. Else those with which the prompt's own tokens would
        have taken least time if the others had so many bits: exact, on the same knowledge.
    window
        Tokens of a prompt and of its answer if not `TOKENS`, one of `LENGTHS`; not with a width.
    """
    key = model if width is None else f"{model}, exact at {width:g} bits"
    if window is not None:
        key = _key(model, window)
    counts = _statistic()["on_gpu"][key]
    return tuple(count / sum(counts) for count in counts)


def measure(paths: Sequence[Path]) -> data.Statistic:
    """Measure everything on traces that follow one another."""
    return measure_traces(data.traces(paths))


def measure_traces(traces: Sequence[Trace]) -> data.Statistic:
    """Measure everything."""
    lengths = np.array([trace.tokens for trace in traces])
    whole = Trace("all", np.concatenate([t.topk_ids for t in traces]), seq_len=lengths)
    routing = Routing.of(whole, EXPERTS)
    similar = {w: float(phase_similarity(routing, w, w)[0].mean()) for w in WINDOWS}
    counts = _on_gpu(_windows(traces, TOKENS))
    for window in LENGTHS:
        lead = _on_gpu(_windows(traces, window), exact=False)
        counts |= {_key(model, window): found for model, found in lead.items()}
    return {
        "similarity": {str(w): round(value, 5) for w, value in similar.items()},
        "on_gpu": {key: found.tolist() for key, found in counts.items()},
    }


def _key(model: str, window: int) -> str:
    return f"{model}, {window} tokens"


def _on_gpu(windows: Iterator[tuple[Ints, Ints]], *, exact: bool = True) -> dict[str, Ints]:
    """Return how often 0, 1 or 2 of an answer's experts are on the GPU, by key."""
    counts: dict[str, Ints] = {}
    for prompt, answer in windows:
        for key, held in _placements(prompt, exact=exact).items():
            found = np.bincount(held[answer].sum(axis=1), minlength=TOP_K + 1)
            counts[key] = counts.get(key, 0) + found
    return counts


def _windows(traces: Sequence[Trace], tokens: int) -> Iterator[tuple[Ints, Ints]]:
    """Yield the experts of a prompt and of its answer, layer by layer, both (tokens, k)."""
    for trace in traces:
        for begin in range(0, trace.tokens - 2 * tokens + 1, 2 * tokens):
            ids = trace.topk_ids[begin : begin + 2 * tokens].astype(np.int64)
            for layer in range(trace.layers):
                yield ids[:tokens, layer], ids[tokens:, layer]


def _placements(prompt: Ints, *, exact: bool = True) -> dict[str, NDArray[np.bool_]]:
    """Return which experts the GPU holds after a prompt, by key of the statistic."""
    used = np.bincount(prompt.ravel(), minlength=EXPERTS)
    order = np.argsort(-used, kind="stable")
    pairs = np.bincount(prompt @ (EXPERTS, 1), minlength=EXPERTS**TOP_K)
    found = {}
    for model, hot in HOT.items():
        held = np.zeros(EXPERTS, dtype=np.bool_)
        held[order[:hot]] = True
        found[model] = held
        for width in WIDTHS if exact else ():
            best = int((_pair_times(model, width) @ pairs).argmin())
            found[f"{model}, exact at {width:g} bits"] = _subsets(hot)[best]
    return found


@cache
def _pair_times(model: str, width: float) -> Ints:
    """Return the layer's time in ns by set of experts on the GPU and by a token's two experts."""
    times = np.array([layer_ns(model, width, n) for n in range(TOP_K + 1)])
    held = _subsets(HOT[model]).astype(np.int64)
    by_pair: Ints = times[held[:, :, None] + held[:, None, :]]
    return by_pair.reshape(len(held), -1)


@cache
def _subsets(size: int) -> NDArray[np.bool_]:
    """Return all sets of so many experts as rows of flags."""
    chosen = np.array(list(combinations(range(EXPERTS), size)))
    flags = np.zeros((len(chosen), EXPERTS), dtype=np.bool_)
    flags[np.arange(len(chosen))[:, None], chosen] = True
    return flags


if __name__ == "__main__":
    measured = measure([data.require(name) for name in data.MIXTRAL])
    print(",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in measured.items()))
