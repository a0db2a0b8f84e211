"""What is drawn of the collaborative cache: hit rates (Fig. 6) and systems by threads (Fig. 5)."""

from benchmarks.papers.charts import Chart, Curve
from benchmarks.papers.collaborative import cached
from benchmarks.papers.collaborative.cached import THREADS
from benchmarks.papers.collaborative.policies import probability
from benchmarks.papers.collaborative.statistics import EXPERTS, SLOTS, routing
from benchmarks.papers.collaborative.systems import (
    TOKEN_NS,
    TOP_K,
    mixtral,
    tokens_per_s,
)


def charts() -> tuple[Chart, ...]:
    """Return the charts of the paper.

    Hit rates are the mean over all layers with as many ways; "random" are the contents of the
    paper's closed forms; "Belady" knows the future, and takes in every expert as LRU does.
    """
    ways = range(1, EXPERTS + 1)
    some = [float(1 - probability(EXPERTS, w, TOP_K, 0)) for w in ways]
    full = [float(probability(EXPERTS, w, TOP_K, TOP_K)) for w in ways]
    speeds = Curve(
        title="Tokens per second of Mixtral-8x7B, by CPU threads",
        source="CPU-GPU collaborative Fig. 5(a)",
        x_label="threads",
        y_label="tokens/s",
        x=tuple(map(float, THREADS)),
        series={name: tuple(tokens_per_s(name, n) for n in THREADS) for name in TOKEN_NS},
        published={"cached": (*(None,) * (len(THREADS) - 1), 4.8)},
    )
    return (
        _hits("at least one expert held", 0, some),
        _hits("both experts held", 1, full),
        speeds,
        grid(),
    )


def grid() -> Curve:
    """Return tokens per second of every cache (N, M) that fills the memory, by CPU threads.

    With few threads many indexes of few ways are best, with many threads few of many (IV-C).
    """
    series = {}
    for ways in range(2, EXPERTS + 1):
        indexes = min(SLOTS // ways, routing().lru.shape[0])
        speeds = []
        for threads in THREADS:
            costs = mixtral(threads)
            spent_ns = cached.trace_ns(costs, cached.uniform_ways(costs, indexes, ways))
            speeds.append(1e9 * routing().tokens / spent_ns)
        series[f"({indexes}; {ways})"] = tuple(speeds)
    return Curve(
        title="Tokens per second of Mixtral-8x7B, by CPU threads and cache (N; M)",
        source="CPU-GPU collaborative Fig. 5(a)",
        x_label="threads",
        y_label="tokens/s",
        x=tuple(map(float, THREADS)),
        series=series,
    )


def _hits(title: str, part: int, at_random: list[float]) -> Curve:
    found = {name: tuple(rates[part]) for name, rates in routing().hits.items()}
    return Curve(
        title=f"Tokens of Mixtral-8x7B with {title}, by ways of the cache",
        source="CPU-GPU collaborative Fig. 6(a)",
        x_label="ways",
        y_label="share of tokens",
        x=tuple(range(1, EXPERTS + 1)),
        series=found | {"random": tuple(at_random)},
    )
