"""Fitting a synthetic workload to a real trace or to stated figures.

Each parameter is sought with the same random numbers at every try, so that the figures move
smoothly with it: popularity, affinity and phase similarity by bisection, since one figure rises
with each of them; recall and topic together by Nelder and Mead's simplex.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from benchmarks.rooms.sim import (
    UNKNOWN,
    Counts,
    Floats,
    Recall,
    Routing,
    Sequences,
    Topic,
    Trace,
    Workload,
    affinity,
    average,
    check_layer,
    cold_share,
    loads,
    lru_hits,
    phase_similarity,
    reuse,
    routing_trace,
    skew,
    usual_capacities,
)
from moeopt import InputError


@dataclass(frozen=True)
class Targets:
    """What a workload is fitted to; every figure is a mean over layers, None is left free.

    Attributes
    ----------
    skew, cold_70
        Largest load over mean load; share of the coldest 70 % of the experts, reported, not fitted.
    reuse_any, reuse_all, reuse_each
        As in `statistics.reuse`.
    lru
        Cached experts -> LRU hit rate per access.
    phase_similarity, affinity
        As in `statistics.similarity`, and as in `statistics.affinity` for the experts of the
        largest weight.
    affinity_any
        The same for all pairs of experts; reported, not fitted.
    """

    skew: float | None = None
    cold_70: float | None = None
    reuse_any: float | None = None
    reuse_all: float | None = None
    reuse_each: float | None = None
    lru: dict[int, float] | None = None
    phase_similarity: float | None = None
    affinity: float | None = None
    affinity_any: float | None = None

    @classmethod
    def of(cls, routing: Routing, with_affinity: bool = True) -> "Targets":
        """Return the figures of a trace; those that are undefined are None."""
        counts, again = loads(routing), reuse(routing)
        rates = lru_hits(routing)
        means = [average(column) for column in rates.each.T]
        return cls(
            skew=_known(skew(counts)),
            cold_70=_known(cold_share(counts)),
            reuse_any=_known(again.any),
            reuse_all=_known(again.all),
            reuse_each=_known(again.each),
            lru=dict(zip(rates.capacities.tolist(), means, strict=True)),
            phase_similarity=_known(phase_similarity(routing)[0]),
            affinity=_known(affinity(routing, "main")) if with_affinity else None,
            affinity_any=_known(affinity(routing)) if with_affinity else None,
        )

    def lru_error(self, other: "Targets") -> float:
        """Return the mean absolute difference of the hit rates that both have; 0 if none."""
        mine, theirs = self.lru or {}, other.lru or {}
        both = mine.keys() & theirs.keys()
        return sum(abs(mine[at] - theirs[at]) for at in both) / max(1, len(both))


@dataclass(frozen=True)
class Row:
    """One line of the comparison."""

    figure: str
    real: float
    synthetic: float

    @property
    def error(self) -> float:
        """Synthetic minus real."""
        return self.synthetic - self.real


def compare(real: Targets, made: Targets, capacities: list[int]) -> list[Row]:
    """Return real and synthetic figures side by side, where both are known.

    Parameters
    ----------
    real, made
        The targets, and what the synthetic trace reaches.
    capacities
        For which LRU hit rates are listed; the last row is over all capacities that `real` has.
    """
    names = {
        "skew": "skew (largest / mean load)",
        "cold_70": "share of the coldest 70 %",
        "reuse_any": "tokens reusing an expert",
        "reuse_all": "tokens reusing all experts",
        "reuse_each": "experts reused",
        "phase_similarity": "prefill/decode cosine",
        "affinity": "affinity of main experts, next layer",
        "affinity_any": "affinity of any experts, next layer",
    }
    pairs = [(label, getattr(real, key), getattr(made, key)) for key, label in names.items()]
    for capacity in capacities:
        have, got = ((side.lru or {}).get(capacity) for side in (real, made))
        pairs.append((f"LRU hit rate, {capacity} cached", have, got))
    rows = [Row(label, a, b) for label, a, b in pairs if a is not None and b is not None]
    if real.lru and made.lru:
        rows.append(Row("mean |error| of the LRU curve", 0.0, real.lru_error(made)))
    return rows


def _known(values: np.ndarray) -> float | None:
    mean = average(values)
    return None if np.isnan(mean) else mean


ROUNDS = 12
"""Halvings of a bisection."""

START = (0.6, 0.6, 1.6, 0.05)
LEAST, MOST = (0.0, 0.0, 0.3, 0.0), (1.0, 1.0, 6.0, 0.9)
STEP = (-0.2, 0.15, 0.7, 0.1)
"""Recall's probability, strength and decay, and the topic's share: start, range, first steps."""


@dataclass(frozen=True)
class Shape:
    """The size of the traces that are drawn and measured."""

    experts: int
    top_k: int
    layers: int
    tokens: int

    def draw(self, workload: Workload, seed: int) -> Routing:
        """Return a trace of the workload, ready for counting."""
        made = routing_trace(workload, self.experts, self.top_k, self.layers, self.tokens, seed)
        return Routing.of(made, self.experts)


def search(
    start: Workload, targets: Targets, shape: Shape, seed: int, evaluations: int
) -> Workload:
    """Return the workload with the parameters nearest to the targets.

    Parameters
    ----------
    start
        Whatever the targets say nothing about stays as it is here. Its popularity law is scaled
        as a whole. A topic is sought only if it has sequences.
    targets
        Figures to reach.
    shape
        Size of the traces to draw; 4000 tokens and 6 layers are enough for all but the skew,
        which a short trace of few sequences exaggerates.
    seed
        Of the traces.
    evaluations
        Traces drawn in the simplex search.
    """
    found = scaled(start, targets, shape, seed)
    if _asks_for_memory(targets, start):
        found = _with_memory(found, targets, shape, seed, evaluations)
    if targets.affinity is not None:
        found = _with_affinity(found, targets.affinity, shape, seed)
    if found.recall is not None:  # a finite trace is a little more skewed for it
        found = scaled(found, targets, shape, seed)
    return _with_phases(found, targets, shape, seed)


def _asks_for_memory(targets: Targets, start: Workload) -> bool:
    """Return whether a target depends on recall, or on a topic that is not given."""
    again = (targets.reuse_any, targets.reuse_all, targets.reuse_each)
    if targets.lru or any(value is not None for value in again):
        return True
    topical = start.sequences is not None and start.topic is None
    return topical and targets.phase_similarity is not None


def bisect(
    function: Callable[[float], float],
    target: float,
    low: float,
    high: float,
    rounds: int = ROUNDS,
) -> float:
    """Return where a rising function meets a target, or the nearer end."""
    for _ in range(rounds):
        middle = (low + high) / 2
        low, high = (low, middle) if function(middle) >= target else (middle, high)
    return (low + high) / 2


def scaled(
    workload: Workload,
    targets: Targets,
    shape: Shape,
    seed: int,
    factors: tuple[float, float] = (0.0, 3.0),
    rounds: int = ROUNDS,
) -> Workload:
    """Return the workload with its popularity law stretched until the loads are as skewed.

    Parameters
    ----------
    workload, targets, shape, seed
        As in `search`.
    factors, rounds
        Range in which the factor is sought, and halvings of it.
    """
    if targets.skew is None:
        return workload

    def measured(factor: float) -> float:
        return average(skew(loads(shape.draw(_times(workload, factor), seed))))

    return _times(workload, bisect(measured, targets.skew, *factors, rounds))


def _times(workload: Workload, factor: float) -> Workload:
    bent = workload.shape
    return workload.model_copy(
        update={
            "skew": round(workload.skew * factor, 4),
            "shape": None if bent is None else tuple(round(x * factor, 4) for x in bent),
        }
    )


def _with_memory(
    workload: Workload, targets: Targets, shape: Shape, seed: int, evaluations: int
) -> Workload:
    """Return the workload with the recall and topic that bring reuse and hit rates nearest."""
    free = 4 if workload.sequences is not None else 3
    first = np.array(START if workload.recall is None else _memory(workload))[:free]
    corners = [first + np.eye(free)[axis] * STEP[axis] for axis in range(free)]

    def loss(point: np.ndarray) -> float:
        made = Targets.of(shape.draw(_remembering(workload, point), seed), with_affinity=False)
        inside = np.clip(point, LEAST[:free], MOST[:free])
        return _distance(targets, made) + float(np.abs(point - inside).sum())

    best = minimize(
        loss,
        first,
        method="Nelder-Mead",
        options={"maxfev": evaluations, "initial_simplex": [first, *corners]},
    )
    return _remembering(workload, best.x)


def _memory(workload: Workload) -> tuple[float, ...]:
    recall, topic = workload.recall, workload.topic
    if recall is None:
        return START
    return recall.probability, recall.strength, recall.decay, topic.share if topic else 0.0


def _remembering(workload: Workload, point: np.ndarray) -> Workload:
    free = len(point)
    values = [round(x, 4) for x in np.clip(point, LEAST[:free], MOST[:free]).tolist()]
    changed: dict[str, object] = {
        "recall": Recall(probability=values[0], strength=values[1], decay=values[2])
    }
    if free == 4:
        kept = workload.topic.phase_similarity if workload.topic else 1.0
        changed["topic"] = Topic(share=values[3], phase_similarity=kept)
    return workload.model_copy(update=changed)


def _distance(targets: Targets, made: Targets) -> float:
    """Return how far a trace is from the targets: the hit curve counts most."""
    weights = {"reuse_any": 0.5, "reuse_all": 0.5, "reuse_each": 0.5, "phase_similarity": 0.25}
    total = targets.lru_error(made)
    for key, weight in weights.items():
        wanted, got = getattr(targets, key), getattr(made, key)
        if wanted is not None and got is not None:
            total += weight * abs(wanted - got)
    return total


def _with_affinity(workload: Workload, target: float, shape: Shape, seed: int) -> Workload:
    def measured(share: float) -> float:
        tried = workload.model_copy(update={"affinity": share})
        return average(affinity(shape.draw(tried, seed), "main"))

    return workload.model_copy(update={"affinity": round(bisect(measured, target, 0, 1), 4)})


def _with_phases(workload: Workload, targets: Targets, shape: Shape, seed: int) -> Workload:
    """Return the workload with the similarity of its phases, where its sequences have two."""
    sequences, topic = workload.sequences, workload.topic
    if sequences is None or not sequences.decode_share or topic is None:
        return workload
    if targets.phase_similarity is None:
        return workload

    def tried(kept: float) -> Workload:
        changed = topic.model_copy(update={"phase_similarity": round(kept, 4)})
        return workload.model_copy(update={"topic": changed})

    def measured(kept: float) -> float:
        return average(phase_similarity(shape.draw(tried(kept), seed))[0])

    return tried(bisect(measured, targets.phase_similarity, 0, 1))


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
