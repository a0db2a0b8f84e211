"""What the collaborative paper leaves open, moved alone."""

from benchmarks.papers.collaborative import cached
from benchmarks.papers.collaborative.baselines import pre_gated_token_ns
from benchmarks.papers.collaborative.power import joule_per_token
from benchmarks.papers.collaborative.statistics import routing
from benchmarks.papers.collaborative.systems import TOP_K
from benchmarks.papers.sweep import Sweep

COLUMNS = (
    "G4 tokens/s, 24 threads (4.8)",
    "G5 over Pre-gated (4.4)",
    "G10 J/token, 1 thread (177.7)",
    "G10 J/token, 24 threads (51.1)",
)


def single_miss() -> Sweep:
    """Return the figures by what one missing expert costs."""
    return Sweep(
        parameter="CPU time of one missing expert, as a share of two",
        default="0.5",
        source="experts add up, as bytes do; Table III has two only",
        results=COLUMNS,
        rows=tuple((f"{share:g}", _row(single_miss=share)) for share in (0.5, 0.6, 0.7, 0.85, 1.0)),
    )


def other_time() -> Sweep:
    """Return the figures by the time of a token outside its experts."""
    return Sweep(
        parameter="time of a token of Mixtral outside its experts",
        default="20 ms",
        source="917 ms per token (4.8 / 4.4 tokens/s) less 897 ms of copies",
        results=COLUMNS,
        rows=tuple((f"{ms:g} ms", _row(other_ms=ms)) for ms in (0.0, 13.0, 20.0, 24.0)),
    )


def _row(single_miss: float = 0.5, other_ms: float | None = None) -> tuple[float, ...]:
    fast, slow = (_token_ns(threads, single_miss, other_ms) for threads in (24, 1))
    base = pre_gated_token_ns(cached.costs(), TOP_K)
    joule = (joule_per_token("mixtral-8x7b", n, ns) for n, ns in ((1, slow), (24, fast)))
    return (1e9 / fast, base / fast, *joule)


def _token_ns(threads: int, single_miss: float, other_ms: float | None) -> float:
    costs, counted = cached.costs(threads=threads), routing()
    if other_ms is not None:
        costs = costs.model_copy(update={"other_ns": round(other_ms * 1e6 / costs.layers)})
    problem = cached.on_trace(costs, counted.lru, single_miss)
    return cached.trace_ns(problem, cached.best_uniform_ways(problem)) / counted.tokens
