"""Drawing the traces of synthetic workloads, many layers at once.

Every token takes the top-k of log-popularity plus noise, at every layer; the noise of an expert is
standard Gumbel. Each value of noise is a copy of an independent Gumbel value: of one that an
earlier token of the sequence held, if this token recalls it; else of the sequence's own, its
topic; else of one drawn for this token. The last two are, with the affinity, those of the equally
popular expert in the layer before. No two experts of a layer ever hold copies of the same value.
So each token, looked at alone, draws k experts without replacement in proportion to popularity,
whatever the rest of the parameters: they change how tokens and layers hang together and leave the
skew as it is. Which values are recalled or topical is the same in all layers, so that the affinity
leaves the order in time as it is.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moeopt.core.rounding import rounded
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.traces.trace import Trace
from moeopt.sim.traces.workload import Popularity, Recall, Sequences, Topic, Workload

Noise = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def synthetic_trace(
    workload: Workload, model: ModelShape, batch: int, batches: int, seed: int
) -> Trace:
    """Draw a trace of `batches` batches of tokens.

    Parameters
    ----------
    workload
        A plain one gives a trace of one layer, any other one all layers of the model that have
        experts.
    model
        Gives experts per layer, experts per token and layers.
    batch, batches
        Tokens between two steps of the drift, and how many such batches are drawn.
    seed
        The same seed gives the same trace.

    Returns
    -------
    Trace
        Shape (batch * batches, layers, k); its facts hold the workload.
    """
    if workload.is_plain:
        few = batch * batches <= MAX_KEPT_TOKENS
        draw = _plain_trace if few else _plain_trace.__wrapped__
        return draw(workload, model, batch, batches, seed)
    layers = model.layers - model.dense_layers
    return routing_trace(
        workload, model.routed_experts, model.top_k, layers, batch * batches, seed, batch=batch
    )


MAX_KEPT_TOKENS = 2**14
"""Longest trace that is kept for another instance of the same draws: some 1 MB."""


@lru_cache(maxsize=32)
def _plain_trace(
    workload: Workload, model: ModelShape, batch: int, batches: int, seed: int
) -> Trace:
    """Draw a one-layer trace of independent tokens.

    Each token takes the top-k of log-popularity plus independent Gumbel noise, which draws k
    experts without replacement in proportion to popularity.
    """
    rng = np.random.default_rng(seed)
    experts = model.routed_experts
    log_popularity = -workload.skew * rng.permutation(experts) / experts
    chosen = np.empty((batches, batch, model.top_k), dtype=np.int64)
    for number in range(batches):
        scores = log_popularity + rng.gumbel(size=(batch, experts))
        chosen[number] = np.argpartition(-scores, model.top_k - 1, axis=1)[:, : model.top_k]
        log_popularity = log_popularity + workload.drift * rng.standard_normal(experts)
    ids = chosen.reshape(batches * batch, 1, model.top_k)
    ids.flags.writeable = False
    return Trace(f"workload {workload.name}", ids, facts={"workload": workload.facts()})


def routing_trace(
    workload: Workload,
    experts: int,
    top_k: int,
    layers: int,
    tokens: int,
    seed: int,
    batch: int | None = None,
) -> Trace:
    """Draw a trace of a workload.

    Parameters
    ----------
    workload
        Its parameters; which experts are popular is drawn for each layer on its own.
    experts, top_k, layers
        Experts per layer, experts per token, layers with experts.
    tokens
        Length of the trace; the last sequence is cut off there.
    seed
        The same seed gives the same trace.
    batch
        Tokens between two steps of the drift; absent: nothing drifts.

    Returns
    -------
    Trace
        Experts by falling score; weights are the softmax of the scores of those chosen. With
        sequence lengths, and with decode marks if the workload's sequences have a decode share.
    """
    streams = np.random.default_rng(seed).spawn(layers + 1)
    common = streams[0]
    lengths = _lengths(workload.sequences, tokens, common)
    position = np.arange(tokens) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    sequence = np.repeat(np.arange(len(lengths)), lengths)
    decode = _decode(workload.sequences, position, lengths[sequence])
    topic = _Topic.of(workload.topic, sequence, len(lengths), decode, experts, common)
    origin = _origins(workload.recall, position, experts, common)
    step = np.arange(tokens) // (batch or tokens or 1)
    by_rank = workload.popularity(experts, layers)
    ids = np.empty((tokens, layers, top_k), dtype=np.int32)
    weights = np.empty((tokens, layers, top_k), dtype=np.float32)
    link = _Link(workload.affinity or 0.0)
    for layer, rng in enumerate(streams[1:]):
        popularity = _drifting(by_rank[layer], workload.drift, step, rng)
        noise = link("token", rng.gumbel(size=(tokens, experts)), rng)
        if topic is not None:
            noise = topic.put(noise, link, rng)
        if origin is not None:
            noise = np.take_along_axis(noise, origin, axis=0)
        ranks, weights[:, layer] = _top(popularity + noise, top_k)
        ids[:, layer] = rng.permutation(experts)[ranks]
    return Trace(
        name=f"workload {workload.name}",
        topk_ids=ids,
        topk_weights=weights,
        seq_len=lengths,
        facts={"workload": workload.facts()},
        decode=decode,
    )


class _Link:
    """Noise that a layer shares with the layer before, kind by kind."""

    def __init__(self, affinity: float) -> None:
        self._affinity = affinity
        self._before: dict[str, Noise] = {}

    def __call__(self, kind: str, fresh: Noise, rng: np.random.Generator) -> Noise:
        """Return `fresh` with a share of the values that this kind had in the layer before."""
        if not self._affinity:
            return fresh
        if kind in self._before:
            shared = rng.random(fresh.shape) < self._affinity
            fresh = np.where(shared, self._before[kind], fresh)
        self._before[kind] = fresh
        return fresh


@dataclass(frozen=True)
class _Topic:
    """The noise that belongs to whole sequences.

    Attributes
    ----------
    sequence, decode
        Shape (tokens,): the sequence of each token, and whether it is decoded.
    topical
        Shape (tokens, experts): which values are the sequence's.
    kept
        Shape (sequences, experts): which of these decode keeps from prefill.
    """

    sequence: Ints
    decode: Flags | None
    topical: Flags
    kept: Flags

    @classmethod
    def of(
        cls,
        topic: Topic | None,
        sequence: Ints,
        sequences: int,
        decode: Flags | None,
        experts: int,
        rng: np.random.Generator,
    ) -> "_Topic | None":
        """Draw which values are topical; None without a topic."""
        if topic is None:
            return None
        topical = rng.random((len(sequence), experts)) < topic.share
        kept = rng.random((sequences, experts)) < topic.phase_similarity
        return cls(sequence, decode, topical, kept)

    def put(self, noise: Noise, link: _Link, rng: np.random.Generator) -> Noise:
        """Return one layer's noise with the topical values in place."""
        own = link("prefill", rng.gumbel(size=self.kept.shape), rng)
        values = own[self.sequence]
        if self.decode is not None:
            other = link("decode", rng.gumbel(size=self.kept.shape), rng)
            later = np.where(self.kept, own, other)
            values[self.decode] = later[self.sequence[self.decode]]
        return np.where(self.topical, values, noise)


def _lengths(sequences: Sequences | None, tokens: int, rng: np.random.Generator) -> Ints:
    """Return the lengths of sequences that fill `tokens`."""
    if sequences is None or not tokens:
        return np.array([tokens])
    lengths: list[int] = []
    left = tokens
    while left:
        drawn = sequences.tokens * np.exp(sequences.spread * rng.standard_normal())
        lengths.append(min(left, max(1, round(drawn))))
        left -= lengths[-1]
    return np.array(lengths)


def _decode(sequences: Sequences | None, position: Ints, length: Ints) -> Flags | None:
    if sequences is None or not sequences.decode_share:
        return None
    decoded: Flags = position >= np.rint(length * (1 - sequences.decode_share))
    return decoded


def _drifting(
    popularity: Popularity, drift: float, steps: Ints, rng: np.random.Generator
) -> Popularity:
    """Return the log-popularity in each token's step, (tokens, experts) or (experts,)."""
    if not drift or not len(steps):
        return popularity
    moves = drift * rng.standard_normal((int(steps[-1]), len(popularity)))
    walk = np.vstack([np.zeros(len(popularity)), np.cumsum(moves, axis=0)])
    return popularity + walk[steps]


def _origins(
    recall: Recall | None, position: Ints, experts: int, rng: np.random.Generator
) -> Ints | None:
    """Return the token whose noise each token holds, (tokens, experts); None without a recall."""
    if recall is None:
        return None
    tokens = len(position)
    here = np.arange(tokens)
    odds = np.cumsum(np.arange(1, recall.window + 1, dtype=np.float64) ** -recall.decay)
    lag = 1 + np.searchsorted(odds, rng.random(tokens) * odds[-1])
    recalls = (rng.random(tokens) < recall.probability) & (lag <= position)
    taken = (rng.random((tokens, experts)) < recall.strength) & recalls[:, None]
    source = np.where(taken, (here - lag)[:, None], here[:, None])
    while True:  # follow copies of copies to their origin, twice as far at each turn
        origin = np.take_along_axis(source, source, axis=0)
        if np.array_equal(origin, source):
            return source
        source = origin


def _top(scores: Noise, top_k: int) -> tuple[Ints, NDArray[np.float64]]:
    """Return the experts of the highest scores, highest first, and the softmax of their scores."""
    chosen = np.argpartition(-scores, top_k - 1, axis=1)[:, :top_k]
    found = np.take_along_axis(scores, chosen, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    found = np.take_along_axis(found, order, axis=1)
    exponents = np.exp(found - found[:, :1])
    weights = rounded(exponents / exponents.sum(axis=1, keepdims=True))
    return np.take_along_axis(chosen, order, axis=1), weights
