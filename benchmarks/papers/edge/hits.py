"""How many of a decoded token's experts were prefetched after its prompt (dataset-free, III-D).

Run as a module with MOEOPT_TRACES set, this prints what `hits.json` holds.
"""

import json
from collections.abc import Sequence
from math import comb
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import data
from benchmarks.papers.edge.cases import prefetched
from benchmarks.rooms.sim import Trace, get_model

STORED = Path(__file__).with_name("hits.json")

FILES: dict[str, tuple[str, ...]] = {
    "deepseek-moe-16b": data.V2_LITE,
    "mixtral-8x7b": data.MIXTRAL,
}
"""Traces of a model. DeepSeek-V2-Lite stands for DeepSeek-MoE: as many experts, top-6 as well."""

LIKE = {"qwen3-30b-a3b": "deepseek-moe-16b", "phi-3.5-moe": "mixtral-8x7b"}
"""Models without a trace, and one with experts as fine or as coarse that stands for them.

Assumed: their prefetched experts are as many times more in use than any others as that model's.
"""

TOKENS = 512
"""Of the prompt, and of the answer (IV-A)."""


def shares(model: str, at_random: bool = False) -> tuple[float, ...]:
    """Return how often a token finds 0, 1, ... of its experts prefetched; the sum is 1.

    Parameters
    ----------
    model
        A preset's name.
    at_random
        As if prefetched experts were used no more often than others.
    """
    if not at_random and model in FILES:
        counts = measured(model)
        return tuple(count / sum(counts) for count in counts)
    shape = get_model(model)
    rate = _at_random(model) if at_random else _at_random(model) * lift(LIKE[model])
    most = min(shape.top_k, prefetched(shape))
    of = rate * shape.top_k / most
    return tuple(comb(most, n) * of**n * (1 - of) ** (most - n) for n in range(most + 1))


def lift(model: str) -> float:
    """Return how many times more often prefetched experts are used than any others, on average."""
    return rate(model) / _at_random(model)


def rate(model: str) -> float:
    """Return the share of a token's experts that were prefetched."""
    return sum(n * share for n, share in enumerate(shares(model))) / get_model(model).top_k


def _at_random(model: str) -> float:
    shape = get_model(model)
    return prefetched(shape) / shape.routed_experts


@data.by_folder
def measured(model: str) -> list[int]:
    """Return on how many layers and tokens of real traces 0, 1, ... prefetched experts are used."""
    found = data.statistic(
        STORED,
        FILES[model],
        lambda paths: {model: _measure(model, data.traces(paths))},
    )
    counts: list[int] = found[model]
    return counts


def _measure(model: str, traces: Sequence[Trace]) -> list[int]:
    shape = get_model(model)
    counts = sum(prefetch_hits(t, shape.routed_experts, prefetched(shape)) for t in traces)
    kept: list[int] = np.asarray(counts)[: prefetched(shape) + 1].tolist()
    return kept


def prefetch_hits(trace: Trace, experts: int, kept: int, length: int = TOKENS) -> NDArray[np.int64]:
    """Return on how many layers and decoded tokens 0, 1, ... k of the experts were prefetched.

    The trace is cut into blocks of `length` tokens of prompt and as many of answer, across the
    ends of texts. Prefetched are the `kept` experts that the prompt used most, in every layer.
    """
    width = trace.topk_ids.shape[2]
    counts = np.zeros(width + 1, dtype=np.int64)
    for begin in range(0, trace.tokens - 2 * length + 1, 2 * length):
        prompt = np.arange(begin, begin + length)
        for layer in range(trace.layers):
            frequent = np.argsort(-trace.counts(prompt, layer, experts), kind="stable")[:kept]
            answer = trace.topk_ids[begin + length : begin + 2 * length, layer]
            found = np.isin(answer, frequent).sum(axis=1)
            counts += np.bincount(found, minlength=width + 1)
    return counts


PROFILES = ("prompt", "same task", "other tasks")
"""By what experts are prefetched: a token's own prompt, or an offline profile of other texts."""


@data.by_folder
def utilisation(model: str) -> dict[str, float]:
    """Return the share of the prefetched experts' uses in a token's, by profile (Fig. 6)."""
    found = data.statistic(
        STORED,
        FILES[model],
        lambda paths: {"utilisation": {model: measure_profiles(model, data.traces(paths))}},
    )
    rates: dict[str, float] = found["utilisation"][model]
    return {name: rates[name] for name in PROFILES}


def measure_profiles(model: str, traces: Sequence[Trace], length: int = TOKENS) -> dict[str, float]:
    """Return how large a share of an answer's experts is prefetched, by profile.

    Of each text the answers' blocks are those of `prefetch_hits`. The profile of the same task is
    all of its trace but the block of prompt and answer; that of other tasks is the other traces.
    """
    shape = get_model(model)
    experts, kept = shape.routed_experts, prefetched(shape)
    whole = [
        np.array(
            [trace.counts(np.arange(trace.tokens), row, experts) for row in range(trace.layers)]
        )
        for trace in traces
    ]
    hits, total = dict.fromkeys(PROFILES, 0), 0
    for task, trace in enumerate(traces):
        others = sum(of for number, of in enumerate(whole) if number != task)
        for begin in range(0, trace.tokens - 2 * length + 1, 2 * length):
            block = np.arange(begin, begin + 2 * length)
            for layer in range(trace.layers):
                answer = trace.topk_ids[block[length:], layer]
                profiles = (
                    trace.counts(block[:length], layer, experts),
                    whole[task][layer] - trace.counts(block, layer, experts),
                    np.asarray(others)[layer],
                )
                total += answer.size
                for name, counts in zip(PROFILES, profiles, strict=True):
                    frequent = np.argsort(-counts, kind="stable")[:kept]
                    hits[name] += int(np.isin(answer, frequent).sum())
    return {name: round(count / total, 5) for name, count in hits.items()}


if __name__ == "__main__":
    print(json.dumps({model: measured(model) for model in FILES}))
    print(json.dumps({"utilisation": {model: utilisation(model) for model in FILES}}))
