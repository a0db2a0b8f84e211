"""The search behind `fit`: parameters of a workload that bring its statistics to the targets.

Each parameter is sought with the same random numbers at every try, so that the figures move
smoothly with it: popularity, affinity and phase similarity by bisection, since one figure rises
with each of them; recall and topic together by Nelder and Mead's simplex.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from moeopt.sim.traces.statistics.hits import lru_hits, reuse
from moeopt.sim.traces.statistics.loads import affinity, cold_share, loads, phase_similarity, skew
from moeopt.sim.traces.statistics.routing import Routing, average
from moeopt.sim.traces.synthetic import routing_trace
from moeopt.sim.traces.workload import Recall, Topic, Workload


@dataclass(frozen=True)
class Targets:
    """What a workload is fitted to; every figure is a mean over layers, None is left free.

    Attributes
    ----------
    skew, cold_70
        Largest load over mean load; share of the coldest 70 % of the experts. With both given a
        fit looks at `skew`.
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
    goal = targets.cold_70 if targets.skew is None else targets.skew
    if goal is None:
        return workload

    def measured(factor: float) -> float:
        counts = loads(shape.draw(_times(workload, factor), seed))
        if targets.skew is None:
            return -average(cold_share(counts))
        return average(skew(counts))

    level = -goal if targets.skew is None else goal
    return _times(workload, bisect(measured, level, *factors, rounds))


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
