"""Fitting a synthetic workload to a real trace or to stated figures."""

from dataclasses import dataclass

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.traces.count_sample import UNKNOWN, check_layer
from moeopt.sim.traces.fit.search import Row, Shape, Targets, compare, scaled, search
from moeopt.sim.traces.statistics.loads import cold_share, loads, skew
from moeopt.sim.traces.statistics.routing import Floats, Routing, average
from moeopt.sim.traces.statistics.summary import usual_capacities
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Sequences, Workload

SEARCH_TOKENS, SEARCH_LAYERS = 4000, 6
"""Size of the traces that the search for recall, topic and affinity draws."""

NEAR, NEAR_ROUNDS = (0.7, 1.4), 6
"""Last factor of the popularity law, sought on traces as long as the real one."""

COUNT_TOKENS = 2000
"""Tokens that are drawn of a workload fitted to counts, which may be of millions."""

LEAST_TOKENS = 64


@dataclass(frozen=True)
class Fit:
    """A fitted workload and how near it comes.

    Attributes
    ----------
    workload
        Its parameters.
    rows
        Target beside what a synthetic trace of the same size reaches that the search never saw.
    """

    workload: Workload
    rows: list[Row]


def fit_trace(
    trace: Trace,
    *,
    experts: int | None = None,
    name: str = "fitted",
    source: str | None = None,
    seed: int = 0,
    evaluations: int = 60,
) -> Fit:
    """Fit a workload to a real trace.

    The popularity is read off the trace: mean share of tokens by rank, taken back to scores by
    ``ln(-ln(1 - share))``, and one factor per layer. Recall, topic and affinity are sought with
    traces of 4000 tokens and six layers, then the popularity is scaled to the skew with traces as
    long as the real one. The comparison is with another trace of that size.

    Parameters
    ----------
    trace
        At least 64 tokens.
    experts
        Experts per layer; by default the highest id in the trace plus one.
    name, source
        Of the workload; by default the source names the trace.
    seed
        The same seed gives the same workload.
    evaluations
        Traces drawn in the search for recall and topic.

    Raises
    ------
    InputError
        If the trace is too short or not usable, see `Routing.of`.
    """
    if trace.tokens < LEAST_TOKENS:
        raise InputError(
            f"{trace.name}: a fit needs {LEAST_TOKENS} tokens, this trace has {trace.tokens}"
        )
    _check(seed, evaluations)
    whole = Routing.of(trace, experts)
    real = Targets.of(whole)
    used = np.maximum((whole.ids >= 0).any(axis=2).sum(axis=1, keepdims=True), 1)
    law, shape, scale = _popularity(-np.sort(-loads(whole) / used, axis=1), whole.tokens)
    start = Workload(
        name=name,
        skew=law,
        drift=0.0,
        source=source or f"fitted to {trace.name}",
        shape=shape,
        layer_scale=_quantiles(scale, SEARCH_LAYERS),
        sequences=_sequences(trace, whole),
    )
    found = search(start, real, _part(whole), seed, evaluations)
    found = found.model_copy(update={"layer_scale": scale})
    size = Shape(whole.experts, whole.top_k, whole.layers, whole.tokens)
    found = scaled(found, real, size, seed, NEAR, NEAR_ROUNDS)
    made = Targets.of(size.draw(found, seed + 1))
    return Fit(found, compare(real, made, usual_capacities(whole)))


def fit_counts(
    counts: Counts,
    *,
    top_k: int,
    experts: int | None = None,
    name: str = "fitted",
    source: str | None = None,
    seed: int = 0,
) -> Fit:
    """Fit the popularity law of a workload to counts, which say nothing of anything else.

    As in `fit_trace`, but with neither recall nor topic, affinity and sequences: tokens of this
    workload choose independently of each other, and so do layers.

    Parameters
    ----------
    counts
        In tokens, of all steps together.
    top_k
        Experts per token, which counts do not tell.
    experts
        Experts per layer; by default as many as the counts have.
    name, source
        Of the workload; by default the source names the counts and says what is not fitted.
    seed
        The same seed gives the same workload.

    Returns
    -------
    Fit
        The workload, and how near the loads of `COUNT_TOKENS` drawn tokens come.

    Raises
    ------
    InputError
        If `top_k` is out of range, or tokens that use so many experts cannot have such counts.
    """
    whole = counts if experts is None else counts.padded(experts)
    if not 1 <= top_k <= whole.experts:
        raise InputError(f"top_k: must be from 1 to {whole.experts}, not {top_k}")
    _check(seed, 1)
    uses = whole.total()
    numbers = (counts.facts or {}).get("layers", range(counts.layers))
    for number, layer in zip(numbers, uses, strict=True):
        check_layer(f"{counts.name}: count: layer {number}", layer, top_k)
    tokens = uses.sum(axis=1, keepdims=True) / top_k
    law, shape, scale = _popularity(-np.sort(-uses, axis=1) / tokens, float(tokens.min()))
    start = Workload(
        name=name,
        skew=law,
        drift=0.0,
        source=source or f"popularity fitted to counts of {counts.name}; {UNKNOWN}",
        shape=shape,
        layer_scale=scale,
    )
    real = Targets(skew=average(skew(uses)), cold_70=average(cold_share(uses)))
    size = Shape(whole.experts, top_k, whole.layers, COUNT_TOKENS)
    found = scaled(start, real, size, seed, NEAR, NEAR_ROUNDS)
    made = loads(size.draw(found, seed + 1))
    near = Targets(skew=average(skew(made)), cold_70=average(cold_share(made)))
    return Fit(found, compare(real, near, []))


def _part(whole: Routing) -> Shape:
    """Return the size of the traces that the search draws."""
    layers, tokens = min(SEARCH_LAYERS, whole.layers), min(SEARCH_TOKENS, whole.tokens)
    return Shape(whole.experts, whole.top_k, layers, tokens)


def _quantiles(values: tuple[float, ...], number: int) -> tuple[float, ...]:
    """Return at most `number` of the values, spread over their range as all of them are."""
    ranked = sorted(values)
    if len(ranked) <= number:
        return tuple(ranked)
    return tuple(ranked[(2 * at + 1) * len(ranked) // (2 * number)] for at in range(number))


def _check(seed: int, evaluations: int) -> None:
    if seed < 0:
        raise InputError(f"seed: must not be negative, not {seed}")
    if evaluations < 1:
        raise InputError(f"evaluations: must be at least 1, not {evaluations}")


def _popularity(
    shares: Floats, tokens: float
) -> tuple[float, tuple[float, ...], tuple[float, ...]]:
    """Return skew, shape and layer_scale such that a token's chances are the shares.

    If tokens took expert e with a clock of rate w, the share that uses it would be 1 - exp(-w).

    Parameters
    ----------
    shares
        Shape (layers, experts): of the tokens that use each expert, the most used one first.
    tokens
        How many were counted: less than half a token's share is not told apart from none.
    """
    least, most = 0.5 / tokens, 1 - 0.5 / tokens
    by_layer = _scores(np.clip(shares, least, most))
    law = _scores(np.clip(shares.mean(axis=0), least, most))
    weight = shares.mean(axis=0)
    by_layer -= np.average(by_layer, axis=1, weights=weight)[:, None]
    centred = law - np.average(law, weights=weight)
    spread = (weight * centred**2).sum()
    scale = (by_layer * centred * weight).sum(axis=1) / spread if spread else np.ones(len(shares))
    fall = np.arange(len(law)) / len(law)
    law -= law[0]
    slope = max(0.0, float(-(law * fall).sum() / max((fall**2).sum(), 1e-12)))
    return round(slope, 4), _rounded(law + slope * fall), _rounded(np.maximum(scale, 0.0))


def _scores(shares: Floats) -> Floats:
    return np.log(-np.log1p(-shares))


def _rounded(values: Floats) -> tuple[float, ...]:
    return tuple(round(value, 4) for value in values.tolist())


def _sequences(trace: Trace, routing: Routing) -> Sequences | None:
    """Return the law of the sequences' lengths, None if the trace is one sequence."""
    begins = np.flatnonzero(routing.starts)
    if len(begins) < 2:
        return None
    logs = np.log(np.diff(np.append(begins, routing.tokens)))
    decode = 0.0 if trace.decode is None else float(np.mean(trace.decode))
    return Sequences(
        tokens=round(float(np.exp(np.median(logs)))),
        spread=round(float(logs.std()), 4),
        decode_share=round(decode, 4),
    )
